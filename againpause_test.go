package dltbatch_test

import (
	"context"
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
	"github.com/dltbatch/dltbatch/store/memory"
)

// sameAnswerLedger is a ledger that accepts each attempt, or leaves it in doubt, and then always
// gives the same answer about it, so that the batch is sent again.
type sameAnswerLedger struct {
	*ledgermem.Ledger
	reported  batch.Reported
	evidence  dlt.Evidence // the evidence, if the ledger is asked for any
	postError error        // to a POST

	mu        sync.Mutex
	postTimes []time.Time
}

func (l *sameAnswerLedger) Traits(batch.ServiceID) dlt.Traits {
	t := dlt.Traits{Name: "says always", Prepares: true}
	if t.Resolves = l.evidence != 0; !t.Resolves {
		t.ResendHarmlessFor = dlt.Forever
	}
	return t
}

func (*sameAnswerLedger) Prepare(context.Context, batch.Attempt) ([]byte, error) {
	return []byte("kept"), nil
}

func (l *sameAnswerLedger) Submit(context.Context, batch.Attempt) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.postTimes = append(l.postTimes, time.Now())
	return l.postError
}

func (l *sameAnswerLedger) BatchStatuses(_ context.Context, _ batch.ServiceID, attempts []batch.Attempt) (all []batch.Status, err error) {
	for _, a := range attempts {
		all = append(all, batch.Status{ID: a.ID, Reported: l.reported})
	}
	return all, nil
}

func (l *sameAnswerLedger) Resolve(context.Context, dlt.Doubt) (dlt.Evidence, error) {
	return l.evidence, nil
}

// However a batch comes to be sent again, from the second POST on there is a pause before the next
// one: no answer of a ledger makes a loop that keeps the database and the node busy. After a
// failure the first pause comes before the second POST, and it grows.
func TestEachWayToSendAgainHasAPause(t *testing.T) {
	const first, longest = time.Second, 8 * time.Second
	for name, l := range map[string]*sameAnswerLedger{
		"void":                   {reported: batch.ReportedVoid},
		"void, after a doubt":    {reported: batch.ReportedVoid, postError: dlt.ErrDoubt},
		"failed":                 {reported: batch.ReportedFailed},
		"failed, after a doubt":  {reported: batch.ReportedFailed, postError: dlt.ErrDoubt},
		"no trace":               {reported: batch.ReportedUnknown},
		"no trace, and a doubt":  {reported: batch.ReportedUnknown, postError: dlt.ErrDoubt},
		"stalled":                {reported: batch.ReportedStalled},
		"shown not to have been": {reported: batch.ReportedUnknown, evidence: dlt.NotCommitted},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l.Ledger = ledgermem.New(nil)
				r := newStartedRunner(t, memory.New(), l, &dltbatch.Options{Retry: dltbatch.RetryPolicy{Delay: first, MaxDelay: longest}})
				require.NoError(t, r.Add(t.Context(), newBatch("s", "a")))
				time.Sleep(time.Minute)
				l.mu.Lock()
				posts := slices.Clone(l.postTimes)
				l.mu.Unlock()
				require.Greater(t, len(posts), 5)
				fails, pause := l.reported == batch.ReportedFailed, time.Duration(0)
				if fails {
					pause = first
				}
				for i := range posts[1:] {
					assert.GreaterOrEqual(t, posts[i+1].Sub(posts[i]), pause*8/10, "after attempt %d", i+1)
					if pause = first; fails {
						pause = min(first<<(i+1), longest)
					}
				}
			})
		})
	}
}
