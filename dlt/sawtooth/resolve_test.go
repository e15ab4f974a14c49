package sawtooth_test

import (
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"
)

// The options of a resolver in these tests. No time passes in them: Doubt.Ended says how long ago
// the last POST ended.
const (
	resendQuiet = time.Hour
	settle      = 2 * time.Hour
)

func doubtOf(b batch.Batch, ended time.Duration) dlt.Doubt {
	return dlt.Doubt{Attempt: batch.Attempt{Key: b.Key(), Number: 1, Payload: b.Payload}, Since: ended, Ended: ended}
}

func resolved(t *testing.T, c *sawtooth.Client, b batch.Batch, ended time.Duration) dlt.Evidence {
	t.Helper()
	e, err := c.Resolve(context.Background(), doubtOf(b, ended))
	require.NoError(t, err)
	return e
}

// TestResolve is the table of evidence: the node's state of a batch, the time since the last POST,
// and what both together prove.
func TestResolve(t *testing.T) {
	n := sawtoothtest.Start(t, &sawtoothtest.Options{BlockInterval: 10 * time.Millisecond})
	c := newClient(t, n.URL(), &sawtooth.Options{ResendQuiet: resendQuiet, Settle: settle})
	forking := newClient(t, n.URL(), &sawtooth.Options{ResendQuiet: resendQuiet, Settle: settle, Vanish: time.Minute})

	committed := commitOne(t, n, c, "committed")
	payload, address := sawtoothtest.Dec("nothing", 1)
	invalid := batchOf(t, "invalid", payload, address)
	send(t, n, c, invalid, sawtoothtest.Invalid)
	unknown := setting(t, "unknown")
	// The same transaction is in a second batch (docs/ledgers/sawtooth.md#pending-for-ever, P2).
	payload, address = sawtoothtest.Set("wrapped", 1)
	tx, other := txOf("wrapped", payload, address), txOf("other", payload, address)
	wrapped, err := sawtooth.Build(mustKey(t, key1), "", tx)
	require.NoError(t, err)
	again, err := sawtooth.Build(mustKey(t, key1), "", other, tx)
	require.NoError(t, err)
	require.Equal(t, wrapped.Transactions[0].ID, again.Transactions[1].ID)
	send(t, n, c, wrapped, sawtoothtest.Committed)
	// This batch comes last, because it halts the node.
	nobody, err := sawtooth.Build(mustKey(t, key1), "", sawtooth.Transaction{FamilyName: "nobody", FamilyVersion: "1", Inputs: []string{"00"}, Outputs: []string{"00"}, Payload: []byte("x")})
	require.NoError(t, err)
	send(t, n, c, nobody, sawtoothtest.Pending)

	for _, x := range []struct {
		name    string
		b       batch.Batch
		ended   time.Duration
		want    dlt.Evidence
		forking dlt.Evidence
	}{
		{"in the chain", committed, 0, dlt.Committed, dlt.Committed},
		{"in the chain, long after", committed, 10 * settle, dlt.Committed, dlt.Committed},
		{"pending", nobody, 0, dlt.InFlight, dlt.InFlight},
		{"pending, for ever", nobody, 10 * settle, dlt.InFlight, dlt.InFlight},
		{"unknown", unknown, 0, dlt.InFlight, dlt.InFlight},
		{"unknown, while it may be parked", unknown, resendQuiet, dlt.InFlight, dlt.InFlight},
		{"unknown, forgotten", unknown, resendQuiet + 1, dlt.NotCommitted, dlt.InFlight},
		{"unknown, forgotten, and no fork brings it back", unknown, resendQuiet + time.Minute + 1, dlt.NotCommitted, dlt.NotCommitted},
		{"invalid", invalid, resendQuiet + 1, dlt.InFlight, dlt.InFlight},
		{"invalid, settled", invalid, settle + 1, dlt.NotCommitted, dlt.InFlight},
		{"invalid, settled, and no fork", invalid, settle + time.Minute + 1, dlt.NotCommitted, dlt.NotCommitted},
		{"through another batch", again, 0, dlt.NotCommitted, dlt.InFlight},
	} {
		assert.Equal(t, x.want, resolved(t, c, x.b, x.ended), x.name)
		assert.Equal(t, x.forking, resolved(t, forking, x.b, x.ended), "%s, where chains fork", x.name)
	}
	behind := sawtoothtest.Start(t, &sawtoothtest.Options{BlockInterval: 10 * time.Millisecond})
	both := newClient(t, behind.URL(), &sawtooth.Options{Fallbacks: []string{n.URL()}, ResendQuiet: resendQuiet, Settle: settle})
	assert.Equal(t, dlt.NotCommitted, resolved(t, both, again, 0), "through another batch, which the second node shows")
	lost := unknown
	lost.Payload = []byte("unreadable")
	assert.Equal(t, dlt.InFlight, resolved(t, c, lost, 0), "without its transactions only time tells")
	_, err = c.Resolve(context.Background(), doubtOf(batch.Batch{ID: "X"}, 10*settle))
	require.ErrorIs(t, err, dlt.ErrMisconfigured)
}

// Resolve of an INVALID batch waits for Settle or ResendQuiet, whichever is longer, as the engine
// does.
func TestResolveInvalidWaitsForQuiet(t *testing.T) {
	n := sawtoothtest.Start(t, &sawtoothtest.Options{BlockInterval: 10 * time.Millisecond})
	c := newClient(t, n.URL(), &sawtooth.Options{ResendQuiet: settle, Settle: resendQuiet})
	payload, address := sawtoothtest.Dec("nothing", 1)
	b := batchOf(t, "invalid", payload, address)
	send(t, n, c, b, sawtoothtest.Invalid)
	assert.Equal(t, dlt.InFlight, resolved(t, c, b, settle))
	assert.Equal(t, dlt.NotCommitted, resolved(t, c, b, settle+1))
}

// scripted returns a node that answers each path with its answers in turn, and then with the last
// one for ever.
func scripted(t *testing.T, answers map[string][]string) *httptest.Server {
	t.Helper()
	asked := map[string]int{}
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := strings.TrimPrefix(r.URL.Path, "/")
		path, _, _ = strings.Cut(path, "/")
		list := answers[path]
		a := list[min(asked[path], len(list)-1)]
		asked[path]++
		status := http.StatusOK
		switch {
		case strings.Contains(a, `"code": 71`), strings.Contains(a, `"code": 72`), strings.HasPrefix(a, "404"):
			status = http.StatusNotFound
		case strings.Contains(a, `"error"`), strings.HasPrefix(a, "503"):
			status = http.StatusServiceUnavailable
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, a)
	}))
	t.Cleanup(node.Close)
	return node
}

func inChain(id string) string { return `{"data": {"header_signature": "` + id + `"}, "link": ""}` }

// A commit between the two questions looks like another batch's, unless Resolve asks again.
func TestResolveDuringACommit(t *testing.T) {
	b := vector(t)
	id, tx := string(b.ID), vectorTx
	unknown := `{"data": [` + element(b.ID, "UNKNOWN") + `]}`
	absent, noTx := envelope(71), envelope(72)
	for name, c := range map[string]struct {
		answers map[string][]string
		want    dlt.Evidence
		fails   bool
	}{
		"committed between":       {answers: map[string][]string{"batches": {absent, inChain(id)}, "batch_statuses": {unknown}, "transactions": {inChain(tx)}}, want: dlt.Committed},
		"through another":         {answers: map[string][]string{"batches": {absent}, "batch_statuses": {unknown}, "transactions": {inChain(tx)}}, want: dlt.NotCommitted},
		"nowhere":                 {answers: map[string][]string{"batches": {absent}, "batch_statuses": {unknown}, "transactions": {noTx}}, want: dlt.InFlight},
		"committed at the status": {answers: map[string][]string{"batches": {absent}, "batch_statuses": {`{"data": [` + element(b.ID, "COMMITTED") + `]}`}}, want: dlt.Committed},

		"batch: 404 of others":        {answers: map[string][]string{"batches": {"404 page " + secret}}, fails: true},
		"batch: another's 404":        {answers: map[string][]string{"batches": {noTx}}, fails: true},
		"batch: a page":               {answers: map[string][]string{"batches": {"<html>" + secret}}, fails: true},
		"batch: about another":        {answers: map[string][]string{"batches": {inChain(tx)}}, fails: true},
		"batch: 503":                  {answers: map[string][]string{"batches": {envelope(17)}}, fails: true},
		"status: fails":               {answers: map[string][]string{"batches": {absent}, "batch_statuses": {"503 " + secret}}, fails: true},
		"status: no answer":           {answers: map[string][]string{"batches": {absent}, "batch_statuses": {`{"data": []}`}}, fails: true},
		"status: a new word":          {answers: map[string][]string{"batches": {absent}, "batch_statuses": {`{"data": [` + element(b.ID, "SUBLIME") + `]}`}}, fails: true},
		"transaction: fails":          {answers: map[string][]string{"batches": {absent}, "batch_statuses": {unknown}, "transactions": {"503"}}, fails: true},
		"transaction: another's 404":  {answers: map[string][]string{"batches": {absent}, "batch_statuses": {unknown}, "transactions": {absent}}, fails: true},
		"the second question: fails":  {answers: map[string][]string{"batches": {absent, "503"}, "batch_statuses": {unknown}, "transactions": {inChain(tx)}}, fails: true},
		"the second question: a page": {answers: map[string][]string{"batches": {absent, "{}"}, "batch_statuses": {unknown}, "transactions": {inChain(tx)}}, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			client := newClient(t, scripted(t, c.answers).URL, &sawtooth.Options{Header: secretHeader()})
			got, err := client.Resolve(context.Background(), doubtOf(b, time.Second))
			assert.Equal(t, c.want, got)
			if !c.fails {
				require.NoError(t, err)
				return
			}
			var e *dlt.Error
			require.ErrorAs(t, err, &e)
			noSecrets(t, err)
		})
	}
}

// NotCommitted needs the answer of every node, and Committed that of one node.
func TestResolveWithFallbacks(t *testing.T) {
	b := vector(t)
	absent := map[string][]string{"batches": {envelope(71)}, "transactions": {envelope(72)}}
	node := func(word string) string {
		answers := map[string][]string{"batch_statuses": {`{"data": [` + element(b.ID, word) + `]}`}}
		maps.Copy(answers, absent)
		if word == "COMMITTED" {
			answers["batches"] = []string{inChain(string(b.ID))}
		}
		return scripted(t, answers).URL
	}
	dead := deadURL(t)
	for name, c := range map[string]struct {
		urls  []string
		want  dlt.Evidence
		fails bool
	}{
		"nobody knows":              {[]string{node("UNKNOWN"), node("UNKNOWN")}, dlt.NotCommitted, false},
		"one knows":                 {[]string{node("UNKNOWN"), node("PENDING")}, dlt.InFlight, false},
		"one may know":              {[]string{node("UNKNOWN"), dead}, dlt.CannotTell, true},
		"one may know more":         {[]string{node("INVALID"), dead}, dlt.CannotTell, true},
		"invalid for one":           {[]string{node("INVALID"), node("UNKNOWN")}, dlt.NotCommitted, false},
		"one has it":                {[]string{node("UNKNOWN"), node("COMMITTED")}, dlt.Committed, false},
		"one has it, one is silent": {[]string{dead, node("COMMITTED")}, dlt.Committed, false},
	} {
		client := newClient(t, c.urls[0], &sawtooth.Options{Fallbacks: c.urls[1:], ResendQuiet: time.Minute, Settle: time.Minute})
		got, err := client.Resolve(context.Background(), doubtOf(b, time.Hour))
		assert.Equal(t, c.want, got, name)
		assert.Equal(t, c.fails, err != nil, "%s: %v", name, err)
	}
}
