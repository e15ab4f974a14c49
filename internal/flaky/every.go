package flaky

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store"
)

// FailingStore is a store whose statements fail, with what the tests need.
type FailingStore struct {
	Store interface {
		store.Store
		order.Store
	}
	// Faultless is a store in the same database whose statements do not fail.
	Faultless interface {
		store.Store
		order.Store
	}
	// AddTx adds in a transaction of an application, and commits it.
	AddTx       func(ctx context.Context, batches ...batch.Batch) error
	Faults      *Faults
	Kinds       []Kind // the ways in which statements of this database can fail
	ManyBatches int    // the number of batches from which an Add uses other statements
}

// FailEachStatement makes each statement of each operation fail once in each way, BEGIN and COMMIT
// included. Afterwards the operation's answer must agree with the database: after a success
// everything is stored, after an error nothing or everything, and the repeated operation has the
// same result.
func FailEachStatement(t *testing.T, s FailingStore) {
	for _, o := range operations() {
		t.Run(o.name, func(t *testing.T) {
			began := time.Now()
			right := s.tryOnce(t, o, 0, None)
			require.NoError(t, right.err)
			tries := 0
			for _, k := range s.Kinds {
				for n := 1; s.failNthStatement(t, o, right, n, k); n++ {
					tries++
				}
			}
			t.Logf("%d statements, %d tries, %s", right.statementCount, tries, time.Since(began).Round(time.Millisecond))
		})
	}
}

// operation is a call of the store, or several calls that belong together.
type operation struct {
	name    string
	prepare func(e *trial) // makes the data that the operation changes
	run     func(e *trial) (answer any, err error)
	// undo reverses the possible effect of the operation, by its answer, before the operation is
	// repeated. It is nil for an operation that can simply be repeated.
	undo func(e *trial, answer any)
	// hasSeveralTransactions is true if the operation has several transactions, so that after an
	// error a part of it may be done.
	hasSeveralTransactions bool
	// answerCounts is true if the answer of an operation that took effect counts even together
	// with an error.
	answerCounts bool
}

// trial is one try of an operation, with its own names.
type trial struct {
	*testing.T
	FailingStore
	name          string
	dumpedKeys    []batch.Key
	dumpedParties []batch.ServiceID
	prepared      any // a value that prepare sets for do
	dumpMore      func() any
}

type trialResult struct {
	dumpBefore, dumpAfter, answer string
	err                           error
	statementCount                int
	failedCall                    string
	trial                         *trial
	rawAnswer                     any
}

// tryOnce prepares the data again, and runs the operation with one fault.
func (s FailingStore) tryOnce(t *testing.T, o operation, n int, k Kind) (r trialResult) {
	t.Helper()
	s.Faults.mu.Lock()
	s.Faults.callCount++
	e := &trial{T: t, FailingStore: s, name: fmt.Sprintf("t%dx", s.Faults.callCount)}
	s.Faults.mu.Unlock()
	s.Faults.FailNth(0, None)
	o.prepare(e)
	r.dumpBefore = e.dump()
	s.Faults.FailNth(n, k)
	r.rawAnswer, r.err = o.run(e)
	r.statementCount, r.failedCall = s.Faults.FailedSince()
	s.Faults.FailNth(0, None)
	r.dumpAfter, r.answer, r.trial = e.dump(), e.textOf(r.rawAnswer), e
	return r
}

// failNthStatement makes the nth statement fail, and checks the result. It returns false if there
// is no nth statement.
func (s FailingStore) failNthStatement(t *testing.T, o operation, right trialResult, n int, k Kind) bool {
	t.Helper()
	r := s.tryOnce(t, o, n, k)
	at := fmt.Sprintf("%s: statement %d of %d (%s) fails %s: %v", o.name, n, r.statementCount, r.failedCall, k, r.err)
	require.Equal(t, right.dumpBefore, r.dumpBefore, "the set-up is not the same each time")
	switch {
	case r.err == nil:
		require.Equal(t, right.dumpAfter, r.dumpAfter, "%s: it says that all is done", at)
		require.Equal(t, right.answer, r.answer, at)
		return r.failedCall != ""
	case r.failedCall == "":
		require.NoError(t, r.err, "%s: nothing failed", at)
	case r.dumpAfter == right.dumpAfter && o.answerCounts:
		require.Equal(t, right.answer, r.answer, "%s: it took effect, and must be named", at)
	case !o.hasSeveralTransactions && r.dumpAfter != right.dumpAfter:
		require.Equal(t, right.dumpBefore, r.dumpAfter, "%s: neither nothing nor all", at)
	}
	if o.undo != nil {
		o.undo(r.trial, r.rawAnswer)
		return true
	}
	var end string
	r.trial.retryWhileLocked(func() bool {
		_, err := o.run(r.trial)
		if errors.Is(err, batch.ErrMovedOn) && r.dumpAfter == right.dumpAfter {
			err = nil // the person's act was done
		}
		require.NoError(t, err, "%s, and again", at)
		end = r.trial.dump()
		return end == right.dumpAfter || !o.hasSeveralTransactions
	})
	require.Equal(t, right.dumpAfter, end, "%s, and again", at)
	return true
}

// retryWhileLocked repeats an operation that a lock may delay, since a server notices the end of a
// connection a moment later.
func (e *trial) retryWhileLocked(done func() bool) {
	for end := time.Now().Add(30 * time.Second); !done() && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
}

// dump returns the rows of the trial as a text, without times and without the trial's name.
func (e *trial) dump() string {
	e.Helper()
	all := map[string]any{}
	for _, k := range e.dumpedKeys {
		rec, err := e.Faultless.Get(e.Context(), k)
		if errors.Is(err, batch.ErrNotFound) {
			all[k.String()] = "none"
			continue
		}
		require.NoError(e, err)
		if !rec.PrunedAt.IsZero() { // the tombstone has no more than this
			all[k.String()] = rec
			continue
		}
		acts, err := e.Faultless.History(e.Context(), k)
		require.NoError(e, err)
		attempts, err := e.Faultless.Attempts(e.Context(), k)
		require.NoError(e, err)
		control, err := e.Faultless.Control(e.Context(), batch.Only(k.Service))
		require.NoError(e, err)
		look, err := e.Faultless.Look(e.Context(), k, 9)
		require.NoError(e, err)
		var lane []batch.ID
		for _, r := range look.Lane {
			lane = append(lane, r.Key.ID)
		}
		all[k.String()] = []any{rec, acts, attempts, control, lane, string(look.Row.Prepared)}
	}
	for _, party := range e.dumpedParties {
		orders, _, err := e.Faultless.ListOrders(e.Context(), order.ListQuery{Party: &party})
		require.NoError(e, err)
		all["orders of "+string(party)] = orders
	}
	if e.dumpMore != nil {
		all["more"] = e.dumpMore()
	}
	return e.textOf(all)
}

var (
	timeForm  = regexp.MustCompile(`"\d{4}-\d\d-\d\dT[^"]*"`)
	clockForm = regexp.MustCompile(`\b\d{13,}\b`) // the version of a control
)

// textOf returns a value as a text without times.
func (e *trial) textOf(v any) string {
	b, err := json.MarshalIndent(v, "", " ")
	require.NoError(e, err)
	text := clockForm.ReplaceAllString(strings.ReplaceAll(string(b), e.name, "T-"), `"clock"`)
	return timeForm.ReplaceAllStringFunc(text, func(s string) string {
		if strings.HasPrefix(s, `"0001-`) {
			return `"never"`
		}
		return `"then"`
	})
}
