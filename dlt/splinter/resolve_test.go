package splinter_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/splinter"
	"github.com/dltbatch/dltbatch/dlt/splinter/splintertest"
	"github.com/dltbatch/dltbatch/internal/pipes"
	"github.com/dltbatch/dltbatch/store/memory"
)

const (
	testLateArrival = 150 * time.Millisecond
	testMargin      = 50 * time.Millisecond
)

// testNetwork is a network, a client of its first service, and the engine's memory.
type testNetwork struct {
	testing.TB
	network               *splintertest.Network
	memoryNet             *pipes.Net // nil if the network uses TCP
	client                *splinter.Client
	service               batch.ServiceID
	fault                 atomic.Pointer[splintertest.Fault] // fault of the POSTs
	rejectsPosts          atomic.Bool
	hidesStatuses         atomic.Bool // subscriptions are refused, and so are their replays
	refusedCount          atomic.Int64
	refusesCircuitQueries atomic.Bool // the client may not ask for the services of a circuit
	knownIDs              []batch.ID
}

// newTestNetwork returns a world without sockets, for virtual time.
func newTestNetwork(t testing.TB, o splintertest.Options, journal dlt.Journal) *testNetwork {
	wire := &pipes.Net{}
	o.Addrs, o.Listen = []string{"n0.test:80", "n1.test:80"}, wire.Listen
	return openTestNetwork(t, o, journal, wire)
}

func openTestNetwork(t testing.TB, o splintertest.Options, journal dlt.Journal, wire *pipes.Net) *testNetwork {
	w := &testNetwork{TB: t, memoryNet: wire}
	o.Faults = &splintertest.Faults{
		Request: func(p splintertest.RequestPoint) splintertest.Fault {
			if f := w.fault.Load(); f != nil && p.Operation == splintertest.OpSubmit {
				return *f
			}
			if w.hidesStatuses.Load() && p.Operation == splintertest.OpEvents {
				w.refusedCount.Add(1)
				return splintertest.Fault{Answer: splintertest.AnswerError, Status: http.StatusInternalServerError}
			}
			return splintertest.Fault{}
		},
		Batch: func(batch.ID, int) splintertest.BatchFault {
			return splintertest.BatchFault{Reject: w.rejectsPosts.Load()}
		},
	}
	o.Authorize = func(_ string, op splintertest.Operation) bool {
		return op != splintertest.OpCircuit || !w.refusesCircuitQueries.Load()
	}
	w.network = splintertest.Start(t, &o)
	w.service = w.network.Service(0)
	w.client = w.newClient(clientOptions(journal))
	return w
}

// newClient returns a client of the first node.
func (w *testNetwork) newClient(o *splinter.Options) *splinter.Client {
	w.Helper()
	if w.memoryNet != nil {
		o.Client = &http.Client{Transport: &http.Transport{DialContext: w.memoryNet.Dial}}
		w.Cleanup(o.Client.CloseIdleConnections)
	}
	return newClient(w, w.network.URL(0), o)
}

func clientOptions(journal dlt.Journal) *splinter.Options {
	return &splinter.Options{
		LateArrival: testLateArrival, ClockMargin: testMargin, CoordinatorTimeout: 20 * time.Millisecond, Replay: true,
		ProbeInterval: 5 * time.Millisecond, Journal: journal, StreamLease: 300 * time.Millisecond,
	}
}

// postedAttempt is a batch with the times when it was claimed and when its POST ended.
type postedAttempt struct {
	batch.Batch
	number             int
	claimedAt, endedAt time.Time
}

func (w *testNetwork) post(b batch.Batch, timeout time.Duration) (postedAttempt, error) {
	ctx, cancel := context.WithTimeout(w.Context(), timeout)
	defer cancel()
	d := postedAttempt{Batch: b, number: 1, claimedAt: time.Now()}
	err := w.client.Submit(ctx, firstAttempt(b))
	d.endedAt = time.Now()
	return d, err
}

func (w *testNetwork) reported(b batch.Batch) batch.Reported {
	w.Helper()
	st, err := w.client.BatchStatuses(w.Context(), b.Service, []batch.Attempt{firstAttempt(b)})
	require.NoError(w, err)
	require.Len(w, st, 1)
	return st[0].Reported
}

func (w *testNetwork) waitForStatus(b batch.Batch, want batch.Reported) {
	w.Helper()
	require.Eventually(w, func() bool { return w.reported(b) == want }, 30*time.Second, time.Millisecond, "never %s", want)
}

// newCommittedBatch sends a batch and waits until it is committed. It is then a witness.
func (w *testNetwork) newCommittedBatch() batch.Batch {
	w.Helper()
	b := incBatch(w, w.service, "x")
	_, err := w.post(b, 5*time.Second)
	require.NoError(w, err)
	w.waitForStatus(b, batch.ReportedCommitted)
	w.knownIDs = append([]batch.ID{b.ID}, w.knownIDs...)
	return b
}

// restartNode restarts the node, which forgets, and closes the client's connections.
func (w *testNetwork) restartNode() {
	w.network.Restart(0)
	w.client.CloseIdleConnections()
}

// postWithoutAnswer makes a POST that ends in doubt.
func (w *testNetwork) postWithoutAnswer(taken splintertest.Acceptance) postedAttempt {
	w.Helper()
	w.fault.Store(&splintertest.Fault{Answer: splintertest.AnswerReset, Acceptance: taken})
	d, err := w.post(incBatch(w, w.service, "x"), 5*time.Second)
	require.Equal(w, batch.KindDoubt, dlt.Kind(err), "%v", err)
	w.fault.Store(nil)
	return d
}

func (w *testNetwork) resolve(d postedAttempt) dlt.Evidence {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 5*time.Second)
	defer cancel()
	a := firstAttempt(d.Batch)
	a.Number = d.number
	found, err := w.client.Resolve(ctx, dlt.Doubt{
		Attempt: a, Since: time.Since(d.claimedAt), Ended: time.Since(d.endedAt), Witnesses: w.knownIDs,
	})
	require.NoError(w, err)
	return found
}

// pollUntil calls f repeatedly until it returns true or the time is over, and reports whether it
// returned true.
func pollUntil(pause, bound time.Duration, f func() bool) bool {
	end := time.NewTimer(bound)
	defer end.Stop()
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for !f() {
		select {
		case <-tick.C:
		case <-end.C:
			return false
		}
	}
	return true
}

// requireEvidence asks until it gets the evidence want. The contrary must never come.
func (w *testNetwork) requireEvidence(d postedAttempt, want dlt.Evidence) {
	w.Helper()
	contrary := dlt.Committed
	if want == dlt.Committed {
		contrary = dlt.NotCommitted
	}
	require.True(w, pollUntil(5*time.Millisecond, time.Minute, func() bool {
		found := w.resolve(d)
		require.NotEqual(w, contrary, found)
		return found == want
	}), "never %s", want)
}

// requireNoEvidence asks for much longer than LateArrival: neither Committed nor NotCommitted may
// come.
func (w *testNetwork) requireNoEvidence(d postedAttempt) {
	w.Helper()
	pollUntil(10*time.Millisecond, 2*testLateArrival, func() bool {
		found := w.resolve(d)
		require.NotEqual(w, dlt.NotCommitted, found)
		require.NotEqual(w, dlt.Committed, found)
		return false
	})
}

// startEvents runs Events until the end of the test, and opens a new stream when one ends.
func (w *testNetwork) startEvents(c *splinter.Client) {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	done, live := make(chan struct{}), make(chan struct{}, 1)
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_ = c.Events(ctx, []batch.ServiceID{w.service}, func(e dlt.Event) error {
				if e.Live {
					select {
					case live <- struct{}{}:
					default:
					}
				}
				return nil
			})
			pause := time.NewTimer(5 * time.Millisecond)
			select {
			case <-pause.C:
			case <-ctx.Done():
			}
		}
	}()
	w.Cleanup(func() { cancel(); <-done })
	<-live
}

// waitUntilLogCovers waits until the log covers the time from since ago to now, in a span that
// began after a time.
func waitUntilLogCovers(t testing.TB, st *memory.Store, service batch.ServiceID, since time.Duration, after time.Time) {
	t.Helper()
	require.True(t, pollUntil(5*time.Millisecond, 5*time.Second, func() bool {
		f, err := st.FindStream(t.Context(), "scabbard "+string(service), nil)
		require.NoError(t, err)
		return f.Covered && f.Since >= since && f.Until < 100*time.Millisecond && f.Since < time.Since(after)
	}), "the log does not cover %s", since)
}

func TestResolveByWitness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestNetwork(t, splintertest.Options{}, nil)
		w.newCommittedBatch()
		d := w.postWithoutAnswer(splintertest.NotAccepted)
		require.Equal(t, dlt.InFlight, w.resolve(d), "before LateArrival")
		w.requireEvidence(d, dlt.NotCommitted)
		assert.GreaterOrEqual(t, time.Since(d.endedAt), testLateArrival)

		w.knownIDs = nil
		w.hidesStatuses.Store(true)
		w.requireNoEvidence(d) // there is no witness
	})
}

func TestResolveWithoutProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestNetwork(t, splintertest.Options{}, nil)
		w.hidesStatuses.Store(true)
		w.newCommittedBatch()
		d := w.postWithoutAnswer(splintertest.AcceptedFirst)
		w.waitForStatus(d.Batch, batch.ReportedCommitted)
		w.restartNode()
		require.Equal(t, batch.ReportedUnknown, w.reported(d.Batch))
		w.requireNoEvidence(d) // the witness was committed before the restart, which forgot both batches
	})
}

func TestResolveEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestNetwork(t, splintertest.Options{HistorySize: 4}, nil)
		w.hidesStatuses.Store(true)
		w.newCommittedBatch()
		d := w.postWithoutAnswer(splintertest.AcceptedFirst)
		for range 3 {
			w.waitForStatus(d.Batch, batch.ReportedCommitted)
			b := incBatch(t, w.service, "y")
			_, err := w.post(b, time.Second)
			require.NoError(t, err)
			w.waitForStatus(b, batch.ReportedCommitted)
		}
		w.requireEvidence(d, dlt.Committed) // the witness was evicted first
		b := incBatch(t, w.service, "y")
		_, err := w.post(b, time.Second)
		require.NoError(t, err)
		w.waitForStatus(b, batch.ReportedCommitted)
		w.requireNoEvidence(d)
	})
}

// A witness that was sent again after a restart proves nothing about the time before it.
func TestResolveWitnessSeenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestNetwork(t, splintertest.Options{}, nil)
		w.hidesStatuses.Store(true)
		witness := w.newCommittedBatch()
		d := w.postWithoutAnswer(splintertest.AcceptedFirst)
		w.waitForStatus(d.Batch, batch.ReportedCommitted)
		w.restartNode()
		_, err := w.post(witness, time.Second)
		require.NoError(t, err)
		w.requireNoEvidence(d)
	})
}

func TestResolveByLog(t *testing.T) {
	for name, version := range map[string]int{"v1": 1, "v2": 2} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := memory.New()
				w := newTestNetwork(t, splintertest.Options{Circuits: []splintertest.Circuit{{ID: "aaaaa-bbbbb", Version: version}}}, st)
				w.startEvents(w.client)
				waitUntilLogCovers(t, st, w.service, 2*testMargin, time.Time{})

				d := w.postWithoutAnswer(splintertest.AcceptedFirst)
				w.waitForStatus(d.Batch, batch.ReportedCommitted)
				restarted := time.Now()
				w.restartNode()
				w.requireEvidence(d, dlt.Committed)

				waitUntilLogCovers(t, st, w.service, 2*testMargin, restarted) // the stream broke, so the span began anew
				w.refusesCircuitQueries.Store(true)
				gone := w.postWithoutAnswer(splintertest.NotAccepted)
				w.requireEvidence(gone, dlt.NotCommitted)
				assert.GreaterOrEqual(t, time.Since(gone.endedAt), testLateArrival+testMargin)
				require.NoError(t, w.network.Check(map[batch.ServiceID][]batch.ID{w.service: {d.ID}}))
			})
		})
	}
}

// If the stream broke in the meantime, the log has a gap and is no proof.
func TestResolveWithAGapInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		w := newTestNetwork(t, splintertest.Options{}, st)
		w.startEvents(w.client)
		waitUntilLogCovers(t, st, w.service, 2*testMargin, time.Time{})
		w.refusesCircuitQueries.Store(true)
		d := w.postWithoutAnswer(splintertest.NotAccepted)
		cut := time.Now()
		w.network.CutStreams(0)
		waitUntilLogCovers(t, st, w.service, 0, cut)
		w.requireNoEvidence(d)
	})
}

func TestResolveRolledBack(t *testing.T) {
	for name, journal := range map[string]bool{"with a log": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var st *memory.Store
				var j dlt.Journal
				if journal {
					st = memory.New()
					j = st
				}
				w := newTestNetwork(t, splintertest.Options{}, j)
				if journal {
					w.startEvents(w.client)
					waitUntilLogCovers(t, st, w.service, 2*testMargin, time.Time{})
				}
				w.rejectsPosts.Store(true)
				b := incBatch(t, w.service, "x")
				d, err := w.post(b, time.Second)
				require.NoError(t, err)
				w.waitForStatus(b, batch.ReportedValid)
				require.Equal(t, dlt.InFlight, w.resolve(d), "it may be committed yet")
				w.rejectsPosts.Store(false)
				if !journal {
					w.hidesStatuses.Store(true)
					w.requireNoEvidence(d)
					return
				}
				w.requireEvidence(d, dlt.NotCommitted)
				// When it is sent again, the batch is committed
				// (docs/ledgers/splinter.md#the-same-bytes-again): the evidence was right.
				_, err = w.post(b, time.Second)
				require.NoError(t, err)
				w.waitForStatus(b, batch.ReportedCommitted)
				assert.EqualValues(t, 1, w.network.State(w.service)["x"])
			})
		})
	}
}

// A second copy of a committed batch makes the batch Invalid
// (docs/ledgers/splinter.md#the-same-bytes-again).
func TestResolveInvalidOfALaterAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		w := newTestNetwork(t, splintertest.Options{}, st)
		b := buildBatch(t, w.service, newTransaction(splintertest.Create("x", 1)))
		d, err := w.post(b, time.Second)
		require.NoError(t, err)
		w.waitForStatus(b, batch.ReportedCommitted)
		_, err = w.post(b, time.Second)
		require.NoError(t, err)
		w.waitForStatus(b, batch.ReportedInvalid)
		d.number = 2
		w.hidesStatuses.Store(true)
		w.requireNoEvidence(d)
		w.hidesStatuses.Store(false)
		w.startEvents(w.client) // the replay shows that the first copy was committed
		w.requireEvidence(d, dlt.Committed)
	})
}

// A batch that no handler serves stalls the service. Batches that are posted in the meantime are
// accepted long after the client has left (docs/ledgers/splinter.md#submitting).
func TestResolveBehindAStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const stall = 80 * time.Millisecond
		w := newTestNetwork(t, splintertest.Options{UnservedHold: stall}, nil)
		w.newCommittedBatch()
		poison := newTransaction(splintertest.Set("x", 1))
		poison.FamilyName = "nobody"
		bad := buildBatch(t, w.service, poison)
		_, err := w.post(bad, time.Second)
		require.NoError(t, err)
		require.Eventually(t, func() bool { return w.network.QueueLen(w.service) == 0 }, 30*time.Second, time.Millisecond)
		b := incBatch(t, w.service, "x")
		ctx, cancel := context.WithCancel(t.Context())
		d := postedAttempt{Batch: b, number: 1, claimedAt: time.Now()}
		go func() {
			defer cancel()
			pollUntil(time.Millisecond, 5*time.Second, func() bool { return w.network.Posts(b.ID) == 1 })
		}()
		err = w.client.Submit(ctx, firstAttempt(b))
		d.endedAt = time.Now()
		require.Equal(t, batch.KindDoubt, dlt.Kind(err), "the client left, the node goes on: %v", err)
		w.requireEvidence(d, dlt.Committed)
		assert.EqualValues(t, 2, w.network.State(w.service)["x"])
		assert.Equal(t, batch.ReportedPending, w.reported(bad), "dropped without a word")
	})
}

func TestResolveJournalFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestNetwork(t, splintertest.Options{}, brokenJournal{})
		w.newCommittedBatch()
		d := w.postWithoutAnswer(splintertest.NotAccepted)
		found, err := w.client.Resolve(t.Context(), dlt.Doubt{Attempt: firstAttempt(d.Batch), Since: time.Hour, Ended: time.Hour, Witnesses: w.knownIDs})
		assert.Equal(t, dlt.CannotTell, found)
		assert.ErrorIs(t, err, errJournal)
	})
}
