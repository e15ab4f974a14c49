package dlttest

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

// checkRun is one check while it runs.
type checkRun struct {
	TB
	*Harness
	promiseText string
	traits      dlt.Traits // the traits for Services[0]
	batchCount  int
	lastMadeAt  time.Time  // when the last batch was made
	witnesses   []batch.ID // batches of Services[0] that were decided before the last batch was made
}

// Errorf begins the message with the promise that the client breaks. The assertions of package
// testify call Errorf.
func (e *checkRun) Errorf(format string, args ...any) {
	e.Helper()
	e.TB.Errorf("the client breaks a promise, %s"+format, append([]any{e.promiseText}, args...)...)
}

// Fatalf is Errorf, and ends the check.
func (e *checkRun) Fatalf(format string, args ...any) {
	e.Helper()
	e.Errorf(": "+format, args...)
	e.FailNow()
}

// newBatch makes a new batch for Services[0].
func (e *checkRun) newBatch() batch.Batch { return e.newBatchOf(e.Services[0]) }

func (e *checkRun) newBatchOf(s batch.ServiceID) batch.Batch {
	e.Helper()
	e.batchCount++
	e.lastMadeAt = time.Now()
	b := e.Batch(s, e.batchContent(e.batchCount))
	require.Equal(e, s, b.Service, "the harness made a batch of another service")
	return b
}

// shownContent returns the content of the n-th batch as it appears in the payload: unchanged, or
// in hex digits.
func (e *checkRun) shownContent(b batch.Batch, n int) string {
	if digits := hex.EncodeToString([]byte(e.batchContent(n))); bytes.Contains(b.Payload, []byte(digits)) {
		return digits
	}
	return e.batchContent(n)
}

// batchContent returns the content of the n-th batch. It must appear in the payload only.
func (e *checkRun) batchContent(n int) string { return fmt.Sprintf("secret%06dcontent", n) }

func attempt(b batch.Batch) batch.Attempt {
	return batch.Attempt{Key: b.Key(), Number: 1, Payload: b.Payload}
}

// submit makes the first attempt of b, with a deadline far ahead.
func (e *checkRun) submit(b batch.Batch) error {
	ctx, cancel := context.WithTimeout(e.Context(), e.CommitTimeout+e.CancelTimeout)
	defer cancel()
	return e.Ledger.Submit(ctx, attempt(b))
}

// acceptedBatch makes a batch, submits it and requires that it is accepted.
func (e *checkRun) acceptedBatch(s batch.ServiceID) batch.Batch {
	e.Helper()
	b := e.newBatchOf(s)
	require.NoError(e, e.submit(b), "a good batch at a good backend")
	return b
}

// committedBatch makes a batch and waits until it is committed.
func (e *checkRun) committedBatch() batch.Batch {
	e.Helper()
	b := e.acceptedBatch(e.Services[0])
	e.requireBecomes(b, batch.ReportedCommitted)
	e.witnesses = append(e.witnesses, b.ID)
	return b
}

// askStatuses asks about batches of one service as the monitor does: without payloads.
func (e *checkRun) askStatuses(bs ...batch.Batch) ([]batch.Status, error) {
	ctx, cancel := context.WithTimeout(e.Context(), e.CommitTimeout+e.CancelTimeout)
	defer cancel()
	attempts := make([]batch.Attempt, len(bs))
	for i, b := range bs {
		attempts[i] = batch.Attempt{Key: b.Key(), Number: 1}
	}
	return e.Ledger.BatchStatuses(ctx, bs[0].Service, attempts)
}

// requireAnswers asks once, requires that there is no error, and returns the answers by id.
func (e *checkRun) requireAnswers(bs ...batch.Batch) map[batch.ID]batch.Status {
	e.Helper()
	statuses, err := e.askStatuses(bs...)
	require.NoError(e, err, "statuses of %d batches", len(bs))
	return e.statusesByID(statuses, bs...)
}

// statusesByID requires that every answer is about a batch in asked, uses a known word, and
// contradicts no other answer.
func (e *checkRun) statusesByID(statuses []batch.Status, asked ...batch.Batch) map[batch.ID]batch.Status {
	e.Helper()
	want := map[batch.ID]bool{}
	for _, b := range asked {
		want[b.ID] = true
	}
	out := map[batch.ID]batch.Status{}
	for _, s := range statuses {
		require.True(e, want[s.ID], "an answer about %q, which was not asked about", s.ID)
		require.True(e, s.Reported >= batch.ReportedUnknown && s.Reported <= batch.ReportedVoid, "%s of %s is no answer", s.Reported, s.ID)
		if old, twice := out[s.ID]; twice {
			require.Equal(e, old.Reported, s.Reported, "two answers about %s", s.ID)
		}
		out[s.ID] = s
	}
	return out
}

// requireBecomes polls until the batch is reported as want, within CommitTimeout.
func (e *checkRun) requireBecomes(b batch.Batch, want batch.Reported) batch.Status {
	e.Helper()
	var last batch.Status
	e.retryWithin(e.CommitTimeout, func() error {
		last = e.requireAnswers(b)[b.ID]
		if last.Reported != want {
			return fmt.Errorf("%s is %s, want %s", b.Key(), reportedWord(last.Reported), want)
		}
		return nil
	})
	return last
}

// requireNotTaken requires that b is unknown even after a later batch has been committed: the
// attempt of b must have had no effect.
func (e *checkRun) requireNotTaken(b batch.Batch) {
	e.Helper()
	e.committedBatch()
	s, ok := e.requireAnswers(b)[b.ID]
	require.True(e, !ok || hasNoTrace(s), "%s was not taken, and is %s", b.Key(), s.Reported)
}

// hasNoTrace reports whether the ledger has no trace of a batch, or reports that nothing was sent
// for it.
func hasNoTrace(s batch.Status) bool {
	return s.Reported == batch.ReportedUnknown || s.Reported == batch.ReportedVoid
}

func reportedWord(r batch.Reported) string {
	if r == 0 {
		return "without an answer"
	}
	return r.String()
}

// retryWithin calls f until it returns nil, at growing intervals, and fails with the
// last error when the bound is over.
func (e *checkRun) retryWithin(bound time.Duration, f func() error) {
	e.Helper()
	deadline := time.NewTimer(bound)
	defer deadline.Stop()
	for pause := time.Millisecond; ; pause = min(2*pause, bound/8) {
		err := f()
		if err == nil {
			return
		}
		next := time.NewTimer(pause)
		select {
		case <-next.C:
		case <-deadline.C:
			next.Stop()
			e.Fatalf("not within %s: %v", bound, err)
			return
		}
	}
}

// requireKind requires that err has one of the kinds in want. A bare kind is as good as a
// *dlt.Error.
func (e *checkRun) requireKind(err error, want ...batch.ErrorKind) {
	e.Helper()
	require.Error(e, err)
	require.Contains(e, want, dlt.Kind(err), "the kind of: %v", err)
}

// requirePosted requires that the backend got atLeast to atMost submissions of b.
func (e *checkRun) requirePosted(b batch.Batch, atLeast, atMost int) {
	e.Helper()
	n := e.Posts(b.ID)
	require.GreaterOrEqual(e, n, atLeast, "submissions of %s that reached the backend", b.Key())
	require.LessOrEqual(e, n, atMost, "submissions of %s that reached the backend; a client never resends", b.Key())
}
