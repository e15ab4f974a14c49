package ask_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/ask"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/store"
)

// withEightHands returns settings of a monitor with eight hands. made counts its questions, by the
// calls that ask for a row's traits. The store's checks are hours away.
func withEightHands(w *monitorTest, made *atomic.Int64) func(*ask.Options) {
	w.traitsOf = func(batch.ServiceID) dlt.Traits {
		made.Add(1)
		return w.traits
	}
	return func(o *ask.Options) {
		o.Connections, o.RequestTimeout = 8, 15*time.Second
		o.Rules.PollInterval = time.Minute
	}
}

// addAccepted tells the table that the ledger has accepted n batches, and that their acceptances
// are written.
func (w *monitorTest) addAccepted(n int, service func(i int) batch.ServiceID) {
	for i := range n {
		id := batch.ID(fmt.Sprint(i))
		w.addAnswered(service(i), id, 0)
		w.addStored(service(i), id)
	}
}

func sameService(int) batch.ServiceID { return "s" }

// Questions for which no hand is free are made again ten times a second, not whenever the table is
// read. Otherwise they would keep a core busy and the table locked while requests hang.
func TestQuestionsWithoutAHandAreMadeSeldom(t *testing.T) {
	tier.Plain(t)
	synctest.Test(t, func(t *testing.T) {
		const open, seconds = 9_990, 3
		w := newMonitorTest()
		w.answer = func(ctx context.Context, _ batch.ServiceID, _ []batch.Attempt) ([]batch.Status, error) {
			<-ctx.Done() // returns after 15 s
			return nil, ctx.Err()
		}
		var made atomic.Int64
		_, stop := w.start(t, withEightHands(w, &made))
		sleepAndWait(time.Second)
		w.addAccepted(open, sameService)
		made.Store(0)
		sleepAndWait(seconds * time.Second)
		assert.LessOrEqual(t, made.Load(), int64(11*open*seconds))
		assert.GreaterOrEqual(t, made.Load(), int64(9*open*seconds), "the others are not forgotten")
		stop()
	})
}

// While hands are busy without hanging, each hand that becomes free takes the next request at
// once. No request waits for the pause, and each is made only once or twice, however few rows it
// holds.
func TestAHandThatBecomesFreeTakesTheNextQuestions(t *testing.T) {
	tier.Plain(t)
	const took = 5 * time.Millisecond
	for _, c := range []struct {
		name     string
		open     int
		requests int
		service  func(i int) batch.ServiceID
	}{
		{"a request asks about 50", 9_990, 9_990/dlt.DefaultMaxIDs + 1, sameService},
		{"a request asks about one service", 2_000, 2_000, func(i int) batch.ServiceID { return batch.ServiceID(fmt.Sprint("s", i)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newMonitorTest()
				w.traits.GroupsByService = c.requests == c.open
				w.answer = func(_ context.Context, _ batch.ServiceID, as []batch.Attempt) ([]batch.Status, error) {
					time.Sleep(took)
					return committedStatuses(as), nil
				}
				var made atomic.Int64
				_, stop := w.start(t, withEightHands(w, &made))
				sleepAndWait(time.Second)
				w.addAccepted(c.open, c.service)
				made.Store(0)
				pauses := c.requests * int(took) / 8 / int(100*time.Millisecond) // the pauses that pass while the requests are made
				sleepAndWait(firstPoll + time.Duration(c.requests/8+3)*took)
				assert.Len(t, w.findings(), c.open)
				assert.LessOrEqual(t, len(w.queries), c.requests+8)
				assert.LessOrEqual(t, made.Load(), int64((4+pauses)*c.open))
				stop()
			})
		})
	}
}

// A ledger may answer twice about a batch, for example by two nodes. A commit always counts, and
// Unknown replaces no other answer, in any order.
func TestOfTwoAnswersTheCommitCounts(t *testing.T) {
	for _, all := range [][]batch.Reported{
		{batch.ReportedCommitted, batch.ReportedUnknown}, {batch.ReportedUnknown, batch.ReportedCommitted},
		{batch.ReportedCommitted, batch.ReportedPending}, {batch.ReportedPending, batch.ReportedCommitted, batch.ReportedUnknown},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newMonitorTest()
			w.answer = func(_ context.Context, _ batch.ServiceID, attempts []batch.Attempt) (out []batch.Status, err error) {
				for _, r := range all {
					for _, a := range attempts {
						out = append(out, batch.Status{ID: a.ID, Reported: r})
					}
				}
				return out, nil
			}
			_, stop := w.start(t, nil)
			w.addAccepted(1, sameService)
			sleepAndWait(time.Minute)
			stop()
			if got := w.outcomes; assert.NotEmpty(t, got, "%v", all) {
				assert.Equal(t, store.IsCommitted, got[0].Finding, "%v", all)
			}
		})
	}
}

// Unknown may come from a node that is behind. Any other answer about the same batch counts
// instead, in any order.
func TestOfTwoAnswersUnknownNeverCounts(t *testing.T) {
	for word, want := range map[batch.Reported]store.Finding{batch.ReportedValid: store.IsValid, batch.ReportedInvalid: store.IsInvalid, batch.ReportedCommitted: store.IsCommitted} {
		for _, all := range [][]batch.Reported{{word, batch.ReportedUnknown}, {batch.ReportedUnknown, word}, {batch.ReportedUnknown, word, batch.ReportedUnknown}} {
			synctest.Test(t, func(t *testing.T) {
				w := newMonitorTest()
				w.traits.ResendHarmlessFor, w.traits.Grace, w.traits.LateArrival = dlt.Forever, 0, 0
				w.answer = func(_ context.Context, _ batch.ServiceID, attempts []batch.Attempt) (out []batch.Status, err error) {
					for _, r := range all {
						for _, a := range attempts {
							out = append(out, batch.Status{ID: a.ID, Reported: r})
						}
					}
					return out, nil
				}
				_, stop := w.start(t, nil)
				w.addAccepted(1, sameService)
				sleepAndWait(time.Minute)
				stop()
				if assert.NotEmpty(t, w.outcomes, "%v", all) {
					assert.Equal(t, want, w.outcomes[0].Finding, "%v", all)
				}
			})
		}
	}
}
