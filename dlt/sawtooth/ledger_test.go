package sawtooth_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/internal/pb"
	"github.com/dltbatch/dltbatch/monitor"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/submitter"
)

// These tests follow the tables of docs/ledgers/sawtooth.md row by row. Each passes a node's
// answer through the client, and compares the effect with the engine's pure functions.

const (
	testClaimTTL   = time.Minute
	testStuckAfter = time.Hour
)

var (
	testTime = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	// Each budget has one more definite failure, or one more try, left.
	definiteBudget = batch.Budget{Attempts: 3}
	everyTryBudget = batch.Budget{Attempts: 3, EveryTry: true}
)

func oneSecondDelay(batch.ServiceID, int) time.Duration { return time.Second }

func monitorRules() monitor.Rules {
	return monitor.Rules{TTL: testClaimTTL, FirstPoll: 10 * time.Millisecond, PollInterval: time.Second, StuckAfter: testStuckAfter, Delay: oneSecondDelay}
}

// claimedRow returns a row whose first attempt is being posted.
func claimedRow() store.Row {
	return store.NewRow().Claim(testTime, testClaimTTL, store.Resend{HarmlessFor: dlt.Forever})
}

// rowAfterError returns the row after an attempt that ended with err.
func rowAfterError(t *testing.T, err error, budget batch.Budget) (store.Row, store.Outcome) {
	t.Helper()
	row := claimedRow()
	c := store.Claim{Version: row.Version, From: batch.Queued, Attempt: row.Attempt, Budget: budget}
	if budget.EveryTry {
		row.Spent, c.Spent = 1, 1 // the claim has spent a try
	}
	o := submitter.Judge(c, err, true, submitter.Rules{FirstCheck: 10 * time.Millisecond, Delay: oneSecondDelay})
	row, applied := row.Apply(o, testTime)
	require.Equal(t, store.Written, applied.Result, "%v", applied.Err)
	return row, o
}

// submitError posts a batch to a node that answers like this, and returns the error.
func submitError(t *testing.T, status int, contentType, body string) error {
	t.Helper()
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	defer node.Close()
	return newClient(t, node.URL, nil).Submit(context.Background(), attempt(t))
}

const (
	jsonType = "application/json; charset=utf-8"
	textType = "text/plain; charset=utf-8"
)

// TestEffectOfEachSubmitResponse shows the effect of each response to a submission: the error's
// kind, the state after it, and what it uses of a budget of definite failures and of a budget of
// tries.
func TestEffectOfEachSubmitResponse(t *testing.T) {
	link := `{"link": "http://HOST:8008/batch_statuses?id=` + vectorBatch + `"}`
	for _, row := range []struct {
		name        string // the name of the table's row
		status      int
		contentType string
		body        string
		wantKind    batch.ErrorKind
		state       batch.State
		spent       int // definite failures
		tries       int
	}{
		{"202: accepted, not durable", 202, jsonType, link, "", batch.Pending, 0, 1},
		{"400/30: bad signature or structure, or not permitted", 400, jsonType, answerEnvelope(30), batch.KindRejected, batch.Rejected, 1, 1},
		{"400/34: zero-length body", 400, jsonType, answerEnvelope(34), batch.KindNotYet, batch.Delayed, 0, 0},
		{"400/35: not a BatchList", 400, jsonType, answerEnvelope(35), batch.KindNotYet, batch.Delayed, 0, 0},
		{"400/42: wrong Content-Type", 400, jsonType, answerEnvelope(42), batch.KindMisconfigured, batch.Delayed, 0, 0},
		{"400 non-JSON: request line or header too long", 400, textType, "Bad Request", batch.KindMisconfigured, batch.Delayed, 0, 0},
		{"408/19: ZMQ send failed", 408, jsonType, answerEnvelope(19), batch.KindBusy, batch.Delayed, 0, 1},
		{"413: body too large", 413, textType, "Maximum request body size exceeded", batch.KindRejected, batch.Rejected, 1, 1},
		{"429/31: pool full", 429, jsonType, answerEnvelope(31), batch.KindBusy, batch.Delayed, 0, 1},
		{"500/10: validator error", 500, jsonType, answerEnvelope(10), batch.KindDoubt, batch.Submitting, 0, 1},
		{"500/20: reply undecodable", 500, jsonType, answerEnvelope(20), batch.KindDoubt, batch.Submitting, 0, 1},
		{"500 none: HTML of aiohttp 3.0", 500, "text/html", "<html>500</html>", batch.KindDoubt, batch.Submitting, 0, 1},
		{"500 none: text of aiohttp 3.8", 500, textType, "500 Internal Server Error", batch.KindDoubt, batch.Submitting, 0, 1},
		{"503/17: no reply, and may still execute", 503, jsonType, answerEnvelope(17), batch.KindDoubt, batch.Submitting, 0, 1},
		{"503/18: disconnect while waiting", 503, jsonType, answerEnvelope(18), batch.KindDoubt, batch.Submitting, 0, 1},
		{"error body: only the code is stable", 400, jsonType, `{"error": {"code": 30, "title": "whatever"}}`, batch.KindRejected, batch.Rejected, 1, 1},
		{"401 of a proxy", 401, "text/html", "<html>", batch.KindMisconfigured, batch.Delayed, 0, 0},
		{"403 of a proxy", 403, "text/html", "<html>", batch.KindMisconfigured, batch.Delayed, 0, 0},
		{"502", 502, "text/html", "<html>", batch.KindDoubt, batch.Submitting, 0, 1},
		{"504", 504, "text/html", "<html>", batch.KindDoubt, batch.Submitting, 0, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			err := submitError(t, row.status, row.contentType, row.body)
			assert.Equal(t, row.wantKind, dlt.Kind(err), "%v", err)
			after, _ := rowAfterError(t, err, definiteBudget)
			assert.Equal(t, row.state, after.State)
			assert.Equal(t, row.spent, after.Spent)
			after, _ = rowAfterError(t, err, everyTryBudget)
			assert.Equal(t, row.state, after.State, "the budget does not change it")
			assert.Equal(t, row.tries, after.Spent)
			assert.Equal(t, row.state == batch.Rejected, after.Final())
			assert.Equal(t, row.state == batch.Submitting || row.state == batch.Pending, after.DoubtAttempt == 1, "what is certain leaves no doubt behind")
		})
	}
}

// TestErrorsWithoutAnAnswer shows the effect of requests that get no answer.
func TestErrorsWithoutAnAnswer(t *testing.T) {
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	defer silent.Close()
	for name, c := range map[string]struct {
		url      string
		wantKind batch.ErrorKind
		state    batch.State
	}{
		"network error: reset":                {rawNode(t, func(c net.Conn) { _, _ = c.Read(make([]byte, 1)) }), batch.KindDoubt, batch.Submitting},
		"own timeout":                         {silent.URL, batch.KindDoubt, batch.Submitting},
		"network error: refused, so not sent": {deadURL(t), batch.KindUnavailable, batch.Delayed},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
			defer cancel()
			err := newClient(t, c.url, nil).Submit(ctx, attempt(t))
			assert.Equal(t, c.wantKind, dlt.Kind(err), "%v", err)
			after, o := rowAfterError(t, err, definiteBudget)
			assert.Equal(t, c.state, after.State)
			assert.Zero(t, after.Spent)
			assert.False(t, o.Last)
		})
	}
}

// statusesOfAnswer returns what the client makes of a node's answer to a status query.
func statusesOfAnswer(t *testing.T, status int, body string) ([]batch.Status, error) {
	t.Helper()
	return newClient(t, startNodeThatAnswers(t, status, body).URL, nil).BatchStatuses(context.Background(), "", attempts(vectorBatch))
}

// rowAfterStatus returns the row after the monitor got an answer about it at the time ago after
// the last POST, and the decision in a word.
func rowAfterStatus(t *testing.T, row store.Row, st *batch.Status, ago time.Duration) (store.Row, string) {
	t.Helper()
	now := testTime.Add(ago)
	traits := newClient(t, "http://localhost:8008", nil).Traits("")
	v := monitor.Decide(row.InFlight(store.Ref{}, definiteBudget, now), monitor.Known{Status: st, Seen: ago}, traits, monitorRules())
	if v.Outcome == nil {
		assert.LessOrEqual(t, v.Next, time.Second, "it is asked again")
		if v.Resolve {
			return row, "resolve"
		}
		return row, "wait"
	}
	after, applied := row.Apply(*v.Outcome, now)
	require.Equal(t, store.Written, applied.Result, "%v", applied.Err)
	assert.Zero(t, after.Spent, "no answer of a status query spends anything")
	return after, v.Outcome.Finding.String()
}

func pendingRow(t *testing.T) store.Row {
	row, _ := rowAfterError(t, nil, definiteBudget)
	require.Equal(t, batch.Pending, row.State)
	return row
}

func doubtRow(t *testing.T) store.Row {
	row, _ := rowAfterError(t, &dlt.Error{Op: "submit"}, definiteBudget)
	require.Equal(t, batch.Submitting, row.State)
	return row
}

// TestAFailedStatusQueryHasNoEffect shows that a failed status query has no effect: the row does
// not change, nothing is spent, and the batch is asked about again.
func TestAFailedStatusQueryHasNoEffect(t *testing.T) {
	for _, row := range []struct {
		name     string
		status   int
		body     string
		wantKind batch.ErrorKind
	}{
		{"400/43: content type", 400, answerEnvelope(43), batch.KindMisconfigured},
		{"400/46: body", 400, answerEnvelope(46), batch.KindMisconfigured},
		{"400/60: malformed id, for the whole request", 400, answerEnvelope(60), batch.KindMisconfigured},
		{"400/66: id missing", 400, answerEnvelope(66), batch.KindMisconfigured},
		{"408/19: not sent", 408, answerEnvelope(19), batch.KindBusy},
		{"500/10: validator error", 500, answerEnvelope(10), batch.KindDoubt},
		{"500/20: reply undecodable", 500, answerEnvelope(20), batch.KindDoubt},
		{"500/27: statuses missing", 500, answerEnvelope(27), batch.KindDoubt},
		{"503/17: no reply", 503, answerEnvelope(17), batch.KindDoubt},
		{"503/18: disconnect", 503, answerEnvelope(18), batch.KindDoubt},
		{"500 non-JSON", 500, "500 Internal Server Error", batch.KindDoubt},
	} {
		t.Run(row.name, func(t *testing.T) {
			statuses, err := statusesOfAnswer(t, row.status, row.body)
			assert.Empty(t, statuses)
			assert.Equal(t, row.wantKind, dlt.Kind(err), "%v", err)
			for _, before := range []store.Row{pendingRow(t), doubtRow(t)} {
				after, word := rowAfterStatus(t, before, nil, time.Minute)
				assert.Equal(t, before, after)
				assert.Equal(t, "wait", word)
			}
		})
	}
}

// TestEffectOfEachStatus shows the effect of each status, after a 202 and after a doubt.
func TestEffectOfEachStatus(t *testing.T) {
	invalid := func(txs string) string {
		return `{"id": "` + vectorBatch + `", "invalid_transactions": [` + txs + `], "status": "INVALID"}`
	}
	failed := `{"id": "` + vectorTx + `", "message": "error message", "extended_data": "ZXJyb3IgZGF0YQ=="}`
	for _, row := range []struct {
		name                 string
		element              string
		after202             batch.State
		afterDoubt           batch.State
		isFinal              bool
		message              string
		receipts             int
		word, wordAfterDoubt string
	}{
		{
			name: "COMMITTED", element: element(vectorBatch, "COMMITTED"),
			after202: batch.Committed, afterDoubt: batch.Committed, isFinal: true, word: "is committed", wordAfterDoubt: "is committed",
		},
		{
			name: "PENDING", element: element(vectorBatch, "PENDING"),
			after202: batch.Pending, afterDoubt: batch.Pending, word: "wait", wordAfterDoubt: "is pending",
		},
		{
			name: "UNKNOWN, within the time of grace", element: element(vectorBatch, "UNKNOWN"),
			after202: batch.Pending, afterDoubt: batch.Submitting, word: "wait", wordAfterDoubt: "wait",
		},
		{
			name: "INVALID with message and data", element: invalid(failed), message: "error message", receipts: 1,
			after202: batch.Invalid, afterDoubt: batch.Invalid, word: "is invalid", wordAfterDoubt: "is invalid",
		},
		{
			name: "INVALID, empty keys omitted", element: invalid(`{"id": "` + vectorTx + `"}`), receipts: 1,
			after202: batch.Invalid, afterDoubt: batch.Invalid, word: "is invalid", wordAfterDoubt: "is invalid",
		},
		{
			name: "INVALID and nobody named", element: invalid(""),
			after202: batch.Invalid, afterDoubt: batch.Invalid, word: "is invalid", wordAfterDoubt: "is invalid",
		},
		{
			name: "INVALID, the same transaction again", element: invalid(failed + "," + failed), message: "error message", receipts: 1,
			after202: batch.Invalid, afterDoubt: batch.Invalid, word: "is invalid", wordAfterDoubt: "is invalid",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			statuses, err := statusesOfAnswer(t, 200, `{"data": [`+row.element+`]}`)
			require.NoError(t, err)
			require.Len(t, statuses, 1)
			for _, c := range []struct {
				before store.Row
				state  batch.State
				word   string
			}{{pendingRow(t), row.after202, row.word}, {doubtRow(t), row.afterDoubt, row.wordAfterDoubt}} {
				after, word := rowAfterStatus(t, c.before, &statuses[0], time.Second)
				assert.Equal(t, c.state, after.State)
				assert.Equal(t, c.word, word)
				assert.Equal(t, row.isFinal, after.Final())
				assert.Len(t, after.Receipts, row.receipts)
				if row.message != "" {
					assert.Equal(t, row.message, after.Error.Message)
					assert.Equal(t, batch.Receipt{TransactionID: vectorTx, Message: "error message", Data: []byte("error data")}, after.Receipts[0])
				}
			}
		})
	}
	t.Run("any other word", func(t *testing.T) {
		statuses, err := statusesOfAnswer(t, 200, `{"data": [`+element(vectorBatch, "SUBLIME")+`]}`)
		assert.Empty(t, statuses)
		assert.Equal(t, batch.KindDoubt, dlt.Kind(err))
	})
}

// TestDecisionsAboutStatusesAtEachAge shows the decisions of a careful submitter about statuses at
// different times.
func TestDecisionsAboutStatusesAtEachAge(t *testing.T) {
	said := func(r batch.Reported) *batch.Status { return &batch.Status{ID: vectorBatch, Reported: r} }
	resent := func(row store.Row) store.Row { // sent again, and in doubt again
		row, applied := row.Apply(store.Outcome{Version: row.Version, By: batch.ByMonitor, Finding: store.NoTrace}, testTime)
		require.Equal(t, store.Written, applied.Result)
		row = row.Claim(testTime, testClaimTTL, store.Resend{HarmlessFor: dlt.Forever})
		row, applied = row.Apply(store.Outcome{Version: row.Version, By: batch.BySubmitter, Attempt: row.Attempt, Finding: store.Doubtful}, testTime)
		require.Equal(t, store.Written, applied.Result)
		return row
	}
	refusedLater := doubtRow(t)
	refusedLater.Refused = true // a later attempt was refused while the first is in doubt
	invalidRow, _ := rowAfterStatus(t, pendingRow(t), said(batch.ReportedInvalid), 0)
	for _, row := range []struct {
		name          string
		before        store.Row
		wantText      batch.Reported
		sinceLastPost time.Duration
		word          string
		state         batch.State
		isFinal       bool
	}{
		{"ambiguous, then UNKNOWN: not before the grace is over", doubtRow(t), batch.ReportedUnknown, sawtooth.DefaultGrace - 1, "wait", batch.Submitting, false},
		{"ambiguous, then UNKNOWN: the same bytes again", doubtRow(t), batch.ReportedUnknown, sawtooth.DefaultGrace, "no trace", batch.Unknown, false},
		{"ambiguous twice, then UNKNOWN: at slow pace", resent(doubtRow(t)), batch.ReportedUnknown, sawtooth.DefaultResendQuiet - 1, "wait", batch.Submitting, false},
		{"ambiguous twice, then UNKNOWN: after 1200 s", resent(doubtRow(t)), batch.ReportedUnknown, sawtooth.DefaultResendQuiet, "no trace", batch.Unknown, false},
		{"ambiguous, then refused, then UNKNOWN: evidence", refusedLater, batch.ReportedUnknown, sawtooth.DefaultGrace, "resolve", batch.Submitting, false},
		{"ambiguous, then PENDING: adopted", doubtRow(t), batch.ReportedPending, 0, "is pending", batch.Pending, false},
		{"UNKNOWN after 202: wait", pendingRow(t), batch.ReportedUnknown, sawtooth.DefaultGrace - 1, "wait", batch.Pending, false},
		{"UNKNOWN after 202: the same bytes again", pendingRow(t), batch.ReportedUnknown, sawtooth.DefaultGrace, "no trace", batch.Unknown, false},
		{"UNKNOWN after PENDING seen: the same bytes again", pendingRow(t), batch.ReportedUnknown, testStuckAfter / 2, "no trace", batch.Unknown, false},
		{"PENDING: wait", pendingRow(t), batch.ReportedPending, testStuckAfter, "wait", batch.Pending, false},
		{"PENDING beyond the deadline: a person, and the lane is held", pendingRow(t), batch.ReportedPending, testStuckAfter + 1, "undecidable", batch.Pending, false},
		{"INVALID: recorded, and held for a settle period", pendingRow(t), batch.ReportedInvalid, time.Second, "is invalid", batch.Invalid, false},
		{"INVALID: not settled yet", invalidRow, batch.ReportedInvalid, sawtooth.DefaultSettle - 1, "wait", batch.Invalid, false},
		{"INVALID, and COMMITTED after all", invalidRow, batch.ReportedCommitted, time.Second, "is committed", batch.Committed, true},
		{"INVALID: settled", invalidRow, batch.ReportedInvalid, sawtooth.DefaultSettle, "settled", batch.Invalid, true},
		{"INVALID, forgotten by the node", invalidRow, batch.ReportedUnknown, sawtooth.DefaultSettle, "settled", batch.Invalid, true},
		{"COMMITTED: done", pendingRow(t), batch.ReportedCommitted, time.Second, "is committed", batch.Committed, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			after, word := rowAfterStatus(t, row.before, said(row.wantText), row.sinceLastPost)
			assert.Equal(t, row.word, word)
			assert.Equal(t, row.state, after.State)
			assert.Equal(t, row.isFinal, after.Final())
		})
	}
}

// TestWhatIsRefusedBeforeSending shows the rows in which nothing is sent, and those about traits.
func TestWhatIsRefusedBeforeSending(t *testing.T) {
	c := newClient(t, "http://localhost:8008", nil)
	for name, f := range map[string]batchChanges{
		"local pre-check: high S":                   {changeSignature: func(s string) string { return highS(t, s) }},
		"local pre-check: a malformed dependency":   {changeTxHeader: func(h *pb.TransactionHeader) { h.Dependencies = []string{"x"} }},
		"local pre-check: an address in upper case": {changeTxHeader: func(h *pb.TransactionHeader) { h.Inputs = []string{"AB"} }},
	} {
		require.ErrorIs(t, c.Check(f.makeBatch(t)), batch.ErrInvalidInput, name)
	}
	traits := c.Traits("")
	assert.GreaterOrEqual(t, traits.Grace, 30*time.Second, "UNKNOWN after 202: grace")
	assert.Greater(t, traits.ResendQuiet, 1200*time.Second, "INVALID: not the same bytes inside 1200 s")
	assert.Positive(t, traits.Settle, "INVALID: a settle period")
	assert.Equal(t, 50, traits.MaxIDsPerQuery, "202: chunks of <= 50")
	assert.Equal(t, dlt.Forever, traits.ResendHarmlessFor, "ambiguous: the same bytes are safe")
	forking := newClient(t, "http://localhost:8008", &sawtooth.Options{Vanish: time.Minute})
	assert.Equal(t, time.Minute, forking.Traits("").Vanish, "COMMITTED: re-check on fork-capable consensus")
	assert.Zero(t, traits.Vanish)
}
