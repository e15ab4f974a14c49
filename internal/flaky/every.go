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

// Subject is a store whose statements fail, with what the tests need.
type Subject struct {
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

// Every makes each statement of each operation fail once in each way, BEGIN and COMMIT included.
// Afterwards the operation's answer must agree with the database: after a success everything is
// stored, after an error nothing or everything, and the repeated operation has the same result.
func Every(t *testing.T, s Subject) {
	for _, o := range operations() {
		t.Run(o.name, func(t *testing.T) {
			began := time.Now()
			right := s.try(t, o, 0, None)
			require.NoError(t, right.err)
			tries := 0
			for _, k := range s.Kinds {
				for n := 1; s.compare(t, o, right, n, k); n++ {
					tries++
				}
			}
			t.Logf("%d statements, %d tries, %s", right.statements, tries, time.Since(began).Round(time.Millisecond))
		})
	}
}

// operation is a call of the store, or several calls that belong together.
type operation struct {
	name    string
	prepare func(e *trial) // makes the data that the operation changes
	do      func(e *trial) (answer any, err error)
	// undo reverses the possible effect of the operation, by its answer, before the operation is
	// repeated. It is nil for an operation that can simply be repeated.
	undo func(e *trial, answer any)
	// inParts is true if the operation has several transactions, so that after an error a part of
	// it may be done.
	inParts bool
	// answerCounts is true if the answer of an operation that took effect counts even together
	// with an error.
	answerCounts bool
}

// trial is one try of an operation, with its own names.
type trial struct {
	*testing.T
	Subject
	name     string
	keys     []batch.Key
	orders   []batch.ServiceID
	prepared any // a value that prepare sets for do
	more     func() any
}

type result struct {
	before, after, answer string
	err                   error
	statements            int
	struck                string
	e                     *trial
	raw                   any
}

// try prepares the data again, and runs the operation with one fault.
func (s Subject) try(t *testing.T, o operation, n int, k Kind) (r result) {
	t.Helper()
	s.Faults.mu.Lock()
	s.Faults.calls++
	e := &trial{T: t, Subject: s, name: fmt.Sprintf("t%dx", s.Faults.calls)}
	s.Faults.mu.Unlock()
	s.Faults.Strike(0, None)
	o.prepare(e)
	r.before = e.dump()
	s.Faults.Strike(n, k)
	r.raw, r.err = o.do(e)
	r.statements, r.struck = s.Faults.Struck()
	s.Faults.Strike(0, None)
	r.after, r.answer, r.e = e.dump(), e.textOf(r.raw), e
	return r
}

// compare makes the nth statement fail, and checks the result. It returns false if there is no nth
// statement.
func (s Subject) compare(t *testing.T, o operation, right result, n int, k Kind) bool {
	t.Helper()
	r := s.try(t, o, n, k)
	at := fmt.Sprintf("%s: statement %d of %d (%s) fails %s: %v", o.name, n, r.statements, r.struck, k, r.err)
	require.Equal(t, right.before, r.before, "the set-up is not the same each time")
	switch {
	case r.err == nil:
		require.Equal(t, right.after, r.after, "%s: it says that all is done", at)
		require.Equal(t, right.answer, r.answer, at)
		return r.struck != ""
	case r.struck == "":
		require.NoError(t, r.err, "%s: nothing failed", at)
	case r.after == right.after && o.answerCounts:
		require.Equal(t, right.answer, r.answer, "%s: it took effect, and must be named", at)
	case !o.inParts && r.after != right.after:
		require.Equal(t, right.before, r.after, "%s: neither nothing nor all", at)
	}
	if o.undo != nil {
		o.undo(r.e, r.raw)
		return true
	}
	var end string
	r.e.retryWhileLocked(func() bool {
		_, err := o.do(r.e)
		if errors.Is(err, batch.ErrMovedOn) && r.after == right.after {
			err = nil // the person's act was done
		}
		require.NoError(t, err, "%s, and again", at)
		end = r.e.dump()
		return end == right.after || !o.inParts
	})
	require.Equal(t, right.after, end, "%s, and again", at)
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
	for _, k := range e.keys {
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
	for _, party := range e.orders {
		orders, _, err := e.Faultless.ListOrders(e.Context(), order.ListQuery{Party: &party})
		require.NoError(e, err)
		all["orders of "+string(party)] = orders
	}
	if e.more != nil {
		all["more"] = e.more()
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
