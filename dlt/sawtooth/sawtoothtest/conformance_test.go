package sawtoothtest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/dlttest"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"
	"github.com/dltbatch/dltbatch/internal/tier"
)

// nodeProxy stands in front of a node. It counts the requests, and does what a proxy may do and a
// node never does: it redirects, or changes an answer.
type nodeProxy struct {
	*dlttest.Server
	t    dlttest.TB
	node *sawtoothtest.Node
	key  *sawtooth.PrivateKey
}

// startConformance returns a harness of a client that knows one node by n addresses.
func startConformance(t dlttest.TB, n int) *dlttest.Harness {
	d := &nodeProxy{t: t}
	d.node = sawtoothtest.NewNode(&sawtoothtest.Options{
		BlockInterval: 10 * time.Millisecond, Faults: &sawtoothtest.Faults{Request: d.drawFault},
	})
	t.Cleanup(d.node.Close)
	d.Server = dlttest.NewServer(t, n, d)
	var err error
	d.key, err = sawtooth.GeneratePrivateKey()
	require.NoError(t, err)
	urls := d.URLs()
	client, err := sawtooth.New(urls[0], &sawtooth.Options{
		Fallbacks: urls[1:], ResendQuiet: 400 * time.Millisecond, Settle: 200 * time.Millisecond, // NotCommitted is certain after the longer of the two
	})
	require.NoError(t, err)
	d.CloseIdle = client.CloseIdleConnections
	t.Cleanup(client.CloseIdleConnections)
	return &dlttest.Harness{
		Ledger: client, Batch: d.batch, Set: d.set, Posts: d.Posts, LargestQuery: d.LargestQuery,
		RetryAfter: 7 * time.Second,
		Lacks:      map[dlttest.Fault]string{dlttest.NotYet: "no answer of it says of one batch that it cannot be now"},
	}
}

func (d *nodeProxy) set(f dlttest.Fault) {
	if f == dlttest.StreamCut {
		d.node.DropSockets()
	}
	d.Set(f)
}

func (d *nodeProxy) batch(s batch.ServiceID, content string) batch.Batch {
	payload, address := sawtoothtest.Set(content, 1)
	if d.Fault() == dlttest.Decided {
		payload, address = sawtoothtest.Dec(content, 1) // the name was never set, so it cannot be decreased
	}
	b, err := sawtooth.Build(d.key, s, sawtooth.Transaction{
		FamilyName: sawtoothtest.IntKey.Name, FamilyVersion: sawtoothtest.IntKey.Version, Nonce: content,
		Inputs: []string{address}, Outputs: []string{address}, Payload: payload,
	})
	require.NoError(d.t, err)
	return b
}

// drawFault makes the faults that the node can make by itself.
func (d *nodeProxy) drawFault(p sawtoothtest.RequestPoint) sawtoothtest.Fault {
	submits := map[dlttest.Fault]sawtoothtest.Fault{
		dlttest.Busy:          {Answer: sawtoothtest.AnswerError, Status: 429, Code: 31},
		dlttest.Refused:       {Answer: sawtoothtest.AnswerError, Status: 400, Code: 30},
		dlttest.Misconfigured: {Answer: sawtoothtest.AnswerError, Status: 403},
		dlttest.UnknownAnswer: {Answer: sawtoothtest.AnswerError, Status: 418},
		dlttest.LostRequest:   {Answer: sawtoothtest.AnswerReset},
		dlttest.LostReply:     {Answer: sawtoothtest.AnswerReset, Acceptance: sawtoothtest.AcceptedFirst},
		dlttest.Hang:          {Answer: sawtoothtest.AnswerNever, Acceptance: sawtoothtest.AcceptedFirst},
	}
	queries := map[dlttest.Fault]sawtoothtest.Fault{
		dlttest.StatusLost:    {Answer: sawtoothtest.AnswerReset},
		dlttest.StatusHang:    {Answer: sawtoothtest.AnswerNever},
		dlttest.StatusGarbage: {Answer: sawtoothtest.AnswerNonJSON},
	}
	switch p.Operation {
	case sawtoothtest.OpSubmit:
		return submits[d.Fault()]
	case sawtoothtest.OpStatuses:
		return queries[d.Fault()]
	}
	return sawtoothtest.Fault{}
}

func (d *nodeProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.URL.Path = strings.TrimPrefix(r.URL.Path, "/elsewhere")
	fault := d.Fault()
	if r.URL.Path == "/batch_statuses" {
		d.forwardQuery(w, r, body, fault)
		return
	}
	if list, err := sawtooth.SplitBatchList(body, ""); err == nil {
		for _, b := range list {
			d.Posted(b.ID)
		}
	}
	switch {
	case fault == dlttest.Redirect && !strings.HasPrefix(r.RequestURI, "/elsewhere"):
		w.Header().Set("Location", "/elsewhere/batches")
		w.WriteHeader(http.StatusTemporaryRedirect)
		return
	case fault == dlttest.Busy:
		w.Header().Set("Retry-After", "7")
	}
	d.node.ServeHTTP(w, r)
}

func (d *nodeProxy) forwardQuery(w http.ResponseWriter, r *http.Request, body []byte, fault dlttest.Fault) {
	var ids []string
	_ = json.Unmarshal(body, &ids) // the node answers to a body that is malformed
	d.Queried(len(ids))
	bend, bent := map[dlttest.Fault]func([]any) []any{
		dlttest.StatusUnknownWord: func(l []any) []any { l[0].(map[string]any)["status"] = "SUBLIME"; return l },
		dlttest.StatusMissing:     func(l []any) []any { return l[1:] },
		dlttest.StatusShuffled:    func(l []any) []any { slices.Reverse(l); return l },
		dlttest.StatusStranger: func(l []any) []any {
			other := maps.Clone(l[0].(map[string]any))
			other["id"] = strings.Repeat("0", 128)
			return append(l, other)
		},
	}[fault]
	if !bent {
		d.node.ServeHTTP(w, r)
		return
	}
	answer := httptest.NewRecorder()
	d.node.ServeHTTP(answer, r)
	var doc map[string]any
	if err := json.Unmarshal(answer.Body.Bytes(), &doc); err != nil || answer.Code != http.StatusOK {
		http.Error(w, fmt.Sprintf("cannot bend: %d %v", answer.Code, err), http.StatusInternalServerError)
		return
	}
	doc["data"] = bend(doc["data"].([]any))
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(doc) // the client may have ended the connection
}

// TestConformance runs the suite of dlttest on the client of package sawtooth.
func TestConformance(t *testing.T) {
	for name, addrs := range map[string]int{"one address": 1, "a fallback": 2} {
		t.Run(name, func(t *testing.T) {
			if addrs == 1 {
				tier.Plain(t) // starts the same goroutines as the other
			}
			dlttest.Run(t, func(t dlttest.TB) *dlttest.Harness { return startConformance(t, addrs) })
		})
	}
}
