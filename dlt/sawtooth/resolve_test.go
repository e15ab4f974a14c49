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
	testResendQuiet = time.Hour
	testSettle      = 2 * time.Hour
)

func doubtOf(b batch.Batch, ended time.Duration) dlt.Doubt {
	return dlt.Doubt{Attempt: batch.Attempt{Key: b.Key(), Number: 1, Payload: b.Payload}, Since: ended, Ended: ended}
}

func resolveWith(t *testing.T, c *sawtooth.Client, b batch.Batch, ended time.Duration) dlt.Evidence {
	t.Helper()
	e, err := c.Resolve(context.Background(), doubtOf(b, ended))
	require.NoError(t, err)
	return e
}

// TestResolve is the table of evidence: the node's state of a batch, the time since the last POST,
// and what both together prove.
func TestResolve(t *testing.T) {
	n := sawtoothtest.Start(t, &sawtoothtest.Options{BlockInterval: 10 * time.Millisecond})
	c := newClient(t, n.URL(), &sawtooth.Options{ResendQuiet: testResendQuiet, Settle: testSettle})
	wantIfForking := newClient(t, n.URL(), &sawtooth.Options{ResendQuiet: testResendQuiet, Settle: testSettle, Vanish: time.Minute})

	committed := commitSetting(t, n, c, "committed")
	payload, address := sawtoothtest.Dec("nothing", 1)
	invalid := batchOf(t, "invalid", payload, address)
	submitUntil(t, n, c, invalid, sawtoothtest.Invalid)
	unknown := settingBatch(t, "unknown")
	// The same transaction is in a second batch (docs/ledgers/sawtooth.md#pending-for-ever, P2).
	payload, address = sawtoothtest.Set("wrapped", 1)
	tx, other := txOf("wrapped", payload, address), txOf("other", payload, address)
	wrapped, err := sawtooth.Build(mustKey(t, privateKey1), "", tx)
	require.NoError(t, err)
	again, err := sawtooth.Build(mustKey(t, privateKey1), "", other, tx)
	require.NoError(t, err)
	require.Equal(t, wrapped.Transactions[0].ID, again.Transactions[1].ID)
	submitUntil(t, n, c, wrapped, sawtoothtest.Committed)
	// This batch comes last, because it halts the node.
	nobody, err := sawtooth.Build(mustKey(t, privateKey1), "", sawtooth.Transaction{FamilyName: "nobody", FamilyVersion: "1", Inputs: []string{"00"}, Outputs: []string{"00"}, Payload: []byte("x")})
	require.NoError(t, err)
	submitUntil(t, n, c, nobody, sawtoothtest.Pending)

	for _, x := range []struct {
		name          string
		b             batch.Batch
		sinceEnd      time.Duration
		want          dlt.Evidence
		wantIfForking dlt.Evidence
	}{
		{"in the chain", committed, 0, dlt.Committed, dlt.Committed},
		{"in the chain, long after", committed, 10 * testSettle, dlt.Committed, dlt.Committed},
		{"pending", nobody, 0, dlt.InFlight, dlt.InFlight},
		{"pending, for ever", nobody, 10 * testSettle, dlt.InFlight, dlt.InFlight},
		{"unknown", unknown, 0, dlt.InFlight, dlt.InFlight},
		{"unknown, while it may be parked", unknown, testResendQuiet, dlt.InFlight, dlt.InFlight},
		{"unknown, forgotten", unknown, testResendQuiet + 1, dlt.NotCommitted, dlt.InFlight},
		{"unknown, forgotten, and no fork brings it back", unknown, testResendQuiet + time.Minute + 1, dlt.NotCommitted, dlt.NotCommitted},
		{"invalid", invalid, testResendQuiet + 1, dlt.InFlight, dlt.InFlight},
		{"invalid, settled", invalid, testSettle + 1, dlt.NotCommitted, dlt.InFlight},
		{"invalid, settled, and no fork", invalid, testSettle + time.Minute + 1, dlt.NotCommitted, dlt.NotCommitted},
		{"through another batch", again, 0, dlt.NotCommitted, dlt.InFlight},
	} {
		assert.Equal(t, x.want, resolveWith(t, c, x.b, x.sinceEnd), x.name)
		assert.Equal(t, x.wantIfForking, resolveWith(t, wantIfForking, x.b, x.sinceEnd), "%s, where chains fork", x.name)
	}
	behind := sawtoothtest.Start(t, &sawtoothtest.Options{BlockInterval: 10 * time.Millisecond})
	both := newClient(t, behind.URL(), &sawtooth.Options{Fallbacks: []string{n.URL()}, ResendQuiet: testResendQuiet, Settle: testSettle})
	assert.Equal(t, dlt.NotCommitted, resolveWith(t, both, again, 0), "through another batch, which the second node shows")
	lost := unknown
	lost.Payload = []byte("unreadable")
	assert.Equal(t, dlt.InFlight, resolveWith(t, c, lost, 0), "without its transactions only time tells")
	_, err = c.Resolve(context.Background(), doubtOf(batch.Batch{ID: "X"}, 10*testSettle))
	require.ErrorIs(t, err, dlt.ErrMisconfigured)
}

// Resolve of an INVALID batch waits for Settle or ResendQuiet, whichever is longer, as the engine
// does.
func TestResolveInvalidWaitsForQuiet(t *testing.T) {
	n := sawtoothtest.Start(t, &sawtoothtest.Options{BlockInterval: 10 * time.Millisecond})
	c := newClient(t, n.URL(), &sawtooth.Options{ResendQuiet: testSettle, Settle: testResendQuiet})
	payload, address := sawtoothtest.Dec("nothing", 1)
	b := batchOf(t, "invalid", payload, address)
	submitUntil(t, n, c, b, sawtoothtest.Invalid)
	assert.Equal(t, dlt.InFlight, resolveWith(t, c, b, testSettle))
	assert.Equal(t, dlt.NotCommitted, resolveWith(t, c, b, testSettle+1))
}

// startScriptedNode returns a node that answers each path with its answers in turn, and then with
// the last one for ever.
func startScriptedNode(t *testing.T, answers map[string][]string) *httptest.Server {
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

func lookupBody(id string) string { return `{"data": {"header_signature": "` + id + `"}, "link": ""}` }

// A commit between the two questions looks like another batch's, unless Resolve asks again.
func TestResolveDuringACommit(t *testing.T) {
	b := vectorBatchOf(t)
	id, tx := string(b.ID), vectorTx
	unknown := `{"data": [` + element(b.ID, "UNKNOWN") + `]}`
	absent, noTx := answerEnvelope(71), answerEnvelope(72)
	for name, c := range map[string]struct {
		answers map[string][]string
		want    dlt.Evidence
		isError bool
	}{
		"committed between":       {answers: map[string][]string{"batches": {absent, lookupBody(id)}, "batch_statuses": {unknown}, "transactions": {lookupBody(tx)}}, want: dlt.Committed},
		"through another":         {answers: map[string][]string{"batches": {absent}, "batch_statuses": {unknown}, "transactions": {lookupBody(tx)}}, want: dlt.NotCommitted},
		"nowhere":                 {answers: map[string][]string{"batches": {absent}, "batch_statuses": {unknown}, "transactions": {noTx}}, want: dlt.InFlight},
		"committed at the status": {answers: map[string][]string{"batches": {absent}, "batch_statuses": {`{"data": [` + element(b.ID, "COMMITTED") + `]}`}}, want: dlt.Committed},

		"batch: 404 of others":        {answers: map[string][]string{"batches": {"404 page " + secret}}, isError: true},
		"batch: another's 404":        {answers: map[string][]string{"batches": {noTx}}, isError: true},
		"batch: a page":               {answers: map[string][]string{"batches": {"<html>" + secret}}, isError: true},
		"batch: about another":        {answers: map[string][]string{"batches": {lookupBody(tx)}}, isError: true},
		"batch: 503":                  {answers: map[string][]string{"batches": {answerEnvelope(17)}}, isError: true},
		"status: fails":               {answers: map[string][]string{"batches": {absent}, "batch_statuses": {"503 " + secret}}, isError: true},
		"status: no answer":           {answers: map[string][]string{"batches": {absent}, "batch_statuses": {`{"data": []}`}}, isError: true},
		"status: a new word":          {answers: map[string][]string{"batches": {absent}, "batch_statuses": {`{"data": [` + element(b.ID, "SUBLIME") + `]}`}}, isError: true},
		"transaction: fails":          {answers: map[string][]string{"batches": {absent}, "batch_statuses": {unknown}, "transactions": {"503"}}, isError: true},
		"transaction: another's 404":  {answers: map[string][]string{"batches": {absent}, "batch_statuses": {unknown}, "transactions": {absent}}, isError: true},
		"the second question: fails":  {answers: map[string][]string{"batches": {absent, "503"}, "batch_statuses": {unknown}, "transactions": {lookupBody(tx)}}, isError: true},
		"the second question: a page": {answers: map[string][]string{"batches": {absent, "{}"}, "batch_statuses": {unknown}, "transactions": {lookupBody(tx)}}, isError: true},
	} {
		t.Run(name, func(t *testing.T) {
			client := newClient(t, startScriptedNode(t, c.answers).URL, &sawtooth.Options{Header: secretHeader()})
			got, err := client.Resolve(context.Background(), doubtOf(b, time.Second))
			assert.Equal(t, c.want, got)
			if !c.isError {
				require.NoError(t, err)
				return
			}
			var e *dlt.Error
			require.ErrorAs(t, err, &e)
			requireNoSecrets(t, err)
		})
	}
}

// NotCommitted needs the answer of every node, and Committed that of one node.
func TestResolveWithFallbacks(t *testing.T) {
	b := vectorBatchOf(t)
	absent := map[string][]string{"batches": {answerEnvelope(71)}, "transactions": {answerEnvelope(72)}}
	node := func(word string) string {
		answers := map[string][]string{"batch_statuses": {`{"data": [` + element(b.ID, word) + `]}`}}
		maps.Copy(answers, absent)
		if word == "COMMITTED" {
			answers["batches"] = []string{lookupBody(string(b.ID))}
		}
		return startScriptedNode(t, answers).URL
	}
	dead := deadURL(t)
	for name, c := range map[string]struct {
		urls    []string
		want    dlt.Evidence
		isError bool
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
		assert.Equal(t, c.isError, err != nil, "%s: %v", name, err)
	}
}
