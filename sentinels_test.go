package dltbatch_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store/memory"
)

// failingMethodLedger is a ledger of which one method fails in its first calls.
type failingMethodLedger struct {
	*ledgermem.Ledger
	method string
	err    error
	mu     sync.Mutex
	calls  int
}

func (l *failingMethodLedger) Traits(s batch.ServiceID) dlt.Traits {
	t := l.Ledger.Traits(s)
	switch l.method {
	case "SubmitList":
		t.MaxList = 5
	case "Prepare":
		t.Prepares = true
	}
	return t
}

func (l *failingMethodLedger) fail(method string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if method != l.method {
		return nil
	}
	if l.calls++; l.calls <= 6 {
		return l.err
	}
	return nil
}

func (l *failingMethodLedger) Submit(ctx context.Context, a batch.Attempt) error {
	if err := l.fail("Submit"); err != nil {
		return err
	}
	return l.Ledger.Submit(ctx, a)
}

func (l *failingMethodLedger) SubmitList(ctx context.Context, list []batch.Attempt) error {
	if err := l.fail("SubmitList"); err != nil {
		return err
	}
	return l.Ledger.SubmitList(ctx, list)
}

func (l *failingMethodLedger) Prepare(context.Context, batch.Attempt) ([]byte, error) {
	return nil, l.fail("Prepare")
}

// A client may return the bare errors of package dlt: they have the same effect as a *dlt.Error
// of their kind.
func TestBareErrorsOfALedger(t *testing.T) {
	for _, method := range []string{"Submit", "SubmitList", "Prepare"} {
		for kind, want := range map[error]batch.ErrorKind{
			dlt.ErrBusy: batch.KindBusy, dlt.ErrUnavailable: batch.KindUnavailable,
			dlt.ErrMisconfigured: batch.KindMisconfigured, dlt.ErrRejected: batch.KindRejected, dlt.ErrNotYet: batch.KindNotYet,
		} {
			t.Run(method+"/"+string(want), func(t *testing.T) {
				bare, seen := deliverWith(t, method, kind)
				typed, _ := deliverWith(t, method, &dlt.Error{Op: "submit", Kind: kind})
				assert.Equal(t, typed, bare)
				if alone := want == batch.KindRejected || want == batch.KindNotYet; method != "SubmitList" || !alone { // the batches of a list that is refused with such an error are sent one by one
					assert.Contains(t, seen, want)
				}
			})
		}
	}
}

// deliverWith delivers batches through a ledger that fails at first. became has what became of the
// batches, kinds has the kinds of errors in the reports of the attempts.
func deliverWith(t *testing.T, method string, err error) (became []string, kinds []batch.ErrorKind) {
	synctest.Test(t, func(t *testing.T) {
		traits := ledgermem.Unforgiving(time.Second)
		seen := &eventRecorder{}
		ledger := &failingMethodLedger{Ledger: ledgermem.New(&ledgermem.Options{Traits: &traits}), method: method, err: err}
		r := newRunner(t, memory.New(), ledger, &dltbatch.Options{Strategy: queuer.Pipelined(5), Observer: seen})
		var batches []batch.Batch
		for i := range 5 {
			batches = append(batches, newBatch("s", batch.ID(fmt.Sprint("b", i))))
		}
		require.NoError(t, r.Add(t.Context(), batches...))
		keepRunning(t, r)
		waitIdle(t, r)
		for _, b := range batches {
			rec := awaitFinal(t, r, b)
			reports, err := r.Attempts(t.Context(), b.Key())
			require.NoError(t, err)
			line := fmt.Sprint(b.ID, rec.State, rec.Attempt)
			for _, report := range reports {
				line += fmt.Sprint(" ", report.Attempt, report.Kind)
				kinds = append(kinds, report.Kind)
			}
			became = append(became, line)
		}
		for _, k := range []batch.EventKind{batch.EventPaused, batch.EventInDoubt, batch.EventLaneHeld} {
			became = append(became, fmt.Sprint(k, len(seen.ofKind(k)) > 0))
		}
	})
	slices.Sort(kinds)
	return became, slices.Compact(kinds)
}
