package console

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/operator"
)

// packText compresses and encodes a text as the form's selection field holds it.
func packText(t *testing.T, text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return base64.RawURLEncoding.EncodeToString(b.Bytes())
}

// allocatedBytes returns how many bytes a call of f allocates in total.
func allocatedBytes(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestAShortFormTakesLittleMemory unpacks short texts that stand for millions of values.
func TestAShortFormTakesLittleMemory(t *testing.T) {
	tier.Long(t)
	tier.Plain(t)
	const n = 5_000_000
	list := func(one string, n int) string { return "[" + strings.Repeat(one+",", n) + one + "]" }
	for name, text := range map[string]string{
		"batches":            `{"batches":` + list("{}", n) + `}`,
		"batches, each many": `{` + strings.Repeat(`"batches":`+list("{}", 9000)+`,`, 400) + `"more":false}`,
		"states":             `{"bulk":{"filter":{"states":` + list("1", n) + `}}}`,
		"first":              `{"first":` + list("{}", n) + `}`,
		"causes":             `{"causes":` + list("{}", n) + `}`,
		"other":              `{"x":` + list("[]", n) + `}`,
		"deep":               `{"x":` + strings.Repeat("[", n),
		"a long name":        `{"batches":[{"id":"` + strings.Repeat("x", n) + `"}],"x":1}`,
	} {
		form := packText(t, text)
		var err error
		bytes := allocatedBytes(func() { _, err = unpackSelection(form) })
		require.ErrorIs(t, err, batch.ErrInvalidInput, name)
		assert.Less(t, bytes, uint64(100<<20), "%s: a form of %d bytes", name, len(form))
		t.Logf("%s: a form of %d bytes takes %d KiB", name, len(form), bytes>>10)
	}
}

// TestASelectionComesBack packs and unpacks the largest selection.
func TestASelectionComesBack(t *testing.T) {
	s := operator.Selection{At: time.Unix(1, 2).UTC(), More: true, Token: "t", Bulk: operator.Bulk{Action: batch.ActionCancel}}
	for i := range maxBulk {
		var one operator.Seen
		one.ID = batch.ID(fmt.Sprint(i))
		s.Batches = append(s.Batches, one)
	}
	text, err := packSelection(s)
	require.NoError(t, err)
	got, err := unpackSelection(text)
	require.NoError(t, err)
	assert.Equal(t, s, got)
	s.Batches = append(s.Batches, operator.Seen{})
	text, err = packSelection(s)
	require.NoError(t, err)
	_, err = unpackSelection(text)
	require.ErrorIs(t, err, batch.ErrInvalidInput)
}

// TestTooManyFields refuses forms and addresses with more fields than any page has, before they
// are parsed.
func TestTooManyFields(t *testing.T) {
	fields := strings.Repeat("a&", 1<<20)
	form := httptest.NewRequest(http.MethodPost, "/act", strings.NewReader(fields))
	form.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	v := &visit{Console: &Console{crossOrigin: http.NewCrossOriginProtection()}, request: form}
	var refusal *refusal
	bytes := allocatedBytes(func() { require.ErrorAs(t, v.checkForm(httptest.NewRecorder()), &refusal) })
	assert.Equal(t, http.StatusBadRequest, refusal.status)
	assert.Less(t, bytes, uint64(32<<20))

	w := httptest.NewRecorder()
	(&Console{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/batches?"+fields[:1<<16], nil))
	assert.Equal(t, http.StatusBadRequest, w.Code)
}
