package console_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/console"
	"github.com/dltbatch/dltbatch/store/memory"
)

// A page shows the application's description of a batch and not the payload. A description that
// panics, hangs or returns hostile text delays its own page a little, and affects no other page.
func TestDescribe(t *testing.T) {
	st := memory.New()
	hang := make(chan struct{})
	defer close(hang)
	p := newPersonWith(t, st, st, &console.Options{Describe: func(b batch.Batch) []console.Field {
		switch b.ID {
		case "panics":
			panic(string(b.Payload))
		case "hangs":
			<-hang
		case "hostile":
			return append([]console.Field{{Name: hostileText, Value: "a\x00b" + hostileText}}, make([]console.Field, 1000)...)
		case "nothing":
			return nil
		}
		defer clear(b.Payload) // the payload is the describer's own copy
		return []console.Field{{Name: "Invoice", Value: b.Tags["invoice"]}, {Name: "Amount", Value: "5 EUR of " + string(b.Payload[:5])}}
	}})
	for _, id := range []batch.ID{"good", "panics", "hangs", "hostile", "nothing"} {
		require.NoError(t, st.Add(t.Context(), batch.Batch{
			Service: "s", ID: id, Payload: []byte("ada, " + secret), Tags: batch.Tags{"invoice": "4711", "<b>": hostileText},
		}))
	}
	page := func(id batch.ID) string {
		got := p.get("batch?service=s&id=" + string(id))
		assert.NotContains(t, got.html, secret, id)
		assert.NotContains(t, got.html, hostileText, id)
		assert.Contains(t, got.text(), "4711", "the tags")
		return got.text()
	}
	for range 2 { // a second description gets the unchanged payload
		assert.Contains(t, page("good"), "5 EUR of ada, ")
	}
	assert.Contains(t, page("panics"), "could not describe the batch")
	assert.Contains(t, p.log.String(), "panic=string")
	assert.NotContains(t, p.log.String(), secret)
	assert.Contains(t, page("hostile"), `<script>alert(1)</script>`, "as a text")
	assert.NotContains(t, page("nothing"), "describe")
	for range 5 { // more than maxDescribing
		text := page("hangs")
		assert.True(t, strings.Contains(text, "within 1s") || strings.Contains(text, "busy with descriptions"), text)
	}
	assert.Contains(t, page("good"), "busy with descriptions")
}

// Batches are listed by a tag, or by a tag's value under any name, including final ones, and
// newest first.
func TestBatchesByTag(t *testing.T) {
	inStores(t, func(p *person) {
		p.recordServing(nil, "s")
		for i, id := range []batch.ID{"b1", "b2", "b3"} {
			require.NoError(p, p.st.Add(p.ctx(), batch.Batch{Service: "s", ID: id, Payload: []byte("x"), Tags: batch.Tags{"invoice": []string{"4711", "4712", "4711"}[i]}}))
		}
		for address, want := range map[string]string{
			"batches?tag=invoice%3D4711": "b1 b3", "batches?tag=4711&first=newest": "b3 b1", "batches?tag=none": "", "batches?first=newest": "b3 b2 b1",
		} {
			var ids []string
			for _, a := range p.get(address).descendants("a") {
				if strings.HasPrefix(a.attrs["href"], "batch?") {
					ids = append(ids, a.text())
				}
			}
			assert.Equal(p, want, strings.Join(ids, " "), address)
		}
		assert.Equal(p, http.StatusBadRequest, p.request(http.MethodGet, p.url+"batches?tag=%3Dx", nil).status)
	})
}
