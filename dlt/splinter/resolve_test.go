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
	late   = 150 * time.Millisecond
	margin = 50 * time.Millisecond
)

// world is a network, a client of its first service, and the engine's memory.
type world struct {
	testing.TB
	net     *splintertest.Network
	wire    *pipes.Net // nil if the network uses TCP
	c       *splinter.Client
	service batch.ServiceID
	fault   atomic.Pointer[splintertest.Fault] // fault of the POSTs
	reject  atomic.Bool
	blind   atomic.Bool // subscriptions are refused, and so are their replays
	refused atomic.Int64
	alone   atomic.Bool // the client may not ask for the services of a circuit
	known   []batch.ID
}

// newWorld returns a world without sockets, for virtual time.
func newWorld(t testing.TB, o splintertest.Options, journal dlt.Journal) *world {
	wire := &pipes.Net{}
	o.Addrs, o.Listen = []string{"n0.test:80", "n1.test:80"}, wire.Listen
	return openWorld(t, o, journal, wire)
}

func openWorld(t testing.TB, o splintertest.Options, journal dlt.Journal, wire *pipes.Net) *world {
	w := &world{TB: t, wire: wire}
	o.Faults = &splintertest.Faults{
		Request: func(p splintertest.RequestPoint) splintertest.Fault {
			if f := w.fault.Load(); f != nil && p.Operation == splintertest.OpSubmit {
				return *f
			}
			if w.blind.Load() && p.Operation == splintertest.OpEvents {
				w.refused.Add(1)
				return splintertest.Fault{Answer: splintertest.AnswerError, Status: http.StatusInternalServerError}
			}
			return splintertest.Fault{}
		},
		Batch: func(batch.ID, int) splintertest.BatchFault { return splintertest.BatchFault{Reject: w.reject.Load()} },
	}
	o.Authorize = func(_ string, op splintertest.Operation) bool { return op != splintertest.OpCircuit || !w.alone.Load() }
	w.net = splintertest.Start(t, &o)
	w.service = w.net.Service(0)
	w.c = w.client(options(journal))
	return w
}

// client returns a client of the first node.
func (w *world) client(o *splinter.Options) *splinter.Client {
	w.Helper()
	if w.wire != nil {
		o.Client = &http.Client{Transport: &http.Transport{DialContext: w.wire.Dial}}
		w.Cleanup(o.Client.CloseIdleConnections)
	}
	return newClient(w, w.net.URL(0), o)
}

func options(journal dlt.Journal) *splinter.Options {
	return &splinter.Options{
		LateArrival: late, ClockMargin: margin, CoordinatorTimeout: 20 * time.Millisecond, Replay: true,
		ProbeInterval: 5 * time.Millisecond, Journal: journal, StreamLease: 300 * time.Millisecond,
	}
}

// doubtful is a batch with the times when it was claimed and when its POST ended.
type doubtful struct {
	batch.Batch
	number         int
	claimed, ended time.Time
}

func (w *world) post(b batch.Batch, timeout time.Duration) (doubtful, error) {
	ctx, cancel := context.WithTimeout(w.Context(), timeout)
	defer cancel()
	d := doubtful{Batch: b, number: 1, claimed: time.Now()}
	err := w.c.Submit(ctx, attempt(b))
	d.ended = time.Now()
	return d, err
}

func (w *world) said(b batch.Batch) batch.Reported {
	w.Helper()
	st, err := w.c.BatchStatuses(w.Context(), b.Service, []batch.Attempt{attempt(b)})
	require.NoError(w, err)
	require.Len(w, st, 1)
	return st[0].Reported
}

func (w *world) becomes(b batch.Batch, want batch.Reported) {
	w.Helper()
	require.Eventually(w, func() bool { return w.said(b) == want }, 30*time.Second, time.Millisecond, "never %s", want)
}

// committed sends a batch and waits until it is committed. It is then a witness.
func (w *world) committed() batch.Batch {
	w.Helper()
	b := inc(w, w.service, "x")
	_, err := w.post(b, 5*time.Second)
	require.NoError(w, err)
	w.becomes(b, batch.ReportedCommitted)
	w.known = append([]batch.ID{b.ID}, w.known...)
	return b
}

// restart restarts the node, which forgets, and closes the client's connections.
func (w *world) restart() {
	w.net.Restart(0)
	w.c.CloseIdleConnections()
}

// lost makes a POST that ends in doubt.
func (w *world) lost(taken splintertest.Acceptance) doubtful {
	w.Helper()
	w.fault.Store(&splintertest.Fault{Answer: splintertest.AnswerReset, Acceptance: taken})
	d, err := w.post(inc(w, w.service, "x"), 5*time.Second)
	require.Equal(w, batch.KindDoubt, dlt.Kind(err), "%v", err)
	w.fault.Store(nil)
	return d
}

func (w *world) resolve(d doubtful) dlt.Evidence {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 5*time.Second)
	defer cancel()
	a := attempt(d.Batch)
	a.Number = d.number
	found, err := w.c.Resolve(ctx, dlt.Doubt{
		Attempt: a, Since: time.Since(d.claimed), Ended: time.Since(d.ended), Witnesses: w.known,
	})
	require.NoError(w, err)
	return found
}

// every calls f repeatedly until it returns true or the time is over, and reports whether it
// returned true.
func every(pause, bound time.Duration, f func() bool) bool {
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

// resolves asks until it gets the evidence want. The contrary must never come.
func (w *world) resolves(d doubtful, want dlt.Evidence) {
	w.Helper()
	contrary := dlt.Committed
	if want == dlt.Committed {
		contrary = dlt.NotCommitted
	}
	require.True(w, every(5*time.Millisecond, time.Minute, func() bool {
		found := w.resolve(d)
		require.NotEqual(w, contrary, found)
		return found == want
	}), "never %s", want)
}

// never asks for much longer than LateArrival: neither Committed nor NotCommitted may come.
func (w *world) never(d doubtful) {
	w.Helper()
	every(10*time.Millisecond, 2*late, func() bool {
		found := w.resolve(d)
		require.NotEqual(w, dlt.NotCommitted, found)
		require.NotEqual(w, dlt.Committed, found)
		return false
	})
}

// streaming runs Events until the end of the test, and opens a new stream when one ends.
func (w *world) streaming(c *splinter.Client) {
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

// covered waits until the log covers the time from since ago to now, in a span that began after a
// time.
func covered(t testing.TB, st *memory.Store, service batch.ServiceID, since time.Duration, after time.Time) {
	t.Helper()
	require.True(t, every(5*time.Millisecond, 5*time.Second, func() bool {
		f, err := st.FindStream(t.Context(), "scabbard "+string(service), nil)
		require.NoError(t, err)
		return f.Covered && f.Since >= since && f.Until < 100*time.Millisecond && f.Since < time.Since(after)
	}), "the log does not cover %s", since)
}

func TestResolveByWitness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, splintertest.Options{}, nil)
		w.committed()
		d := w.lost(splintertest.NotAccepted)
		require.Equal(t, dlt.InFlight, w.resolve(d), "before LateArrival")
		w.resolves(d, dlt.NotCommitted)
		assert.GreaterOrEqual(t, time.Since(d.ended), late)

		w.known = nil
		w.blind.Store(true)
		w.never(d) // there is no witness
	})
}

func TestResolveWithoutProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, splintertest.Options{}, nil)
		w.blind.Store(true)
		w.committed()
		d := w.lost(splintertest.AcceptedFirst)
		w.becomes(d.Batch, batch.ReportedCommitted)
		w.restart()
		require.Equal(t, batch.ReportedUnknown, w.said(d.Batch))
		w.never(d) // the witness was committed before the restart, which forgot both batches
	})
}

func TestResolveEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, splintertest.Options{HistorySize: 4}, nil)
		w.blind.Store(true)
		w.committed()
		d := w.lost(splintertest.AcceptedFirst)
		for range 3 {
			w.becomes(d.Batch, batch.ReportedCommitted)
			b := inc(t, w.service, "y")
			_, err := w.post(b, time.Second)
			require.NoError(t, err)
			w.becomes(b, batch.ReportedCommitted)
		}
		w.resolves(d, dlt.Committed) // the witness was evicted first
		b := inc(t, w.service, "y")
		_, err := w.post(b, time.Second)
		require.NoError(t, err)
		w.becomes(b, batch.ReportedCommitted)
		w.never(d)
	})
}

// A witness that was sent again after a restart proves nothing about the time before it.
func TestResolveWitnessSeenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, splintertest.Options{}, nil)
		w.blind.Store(true)
		witness := w.committed()
		d := w.lost(splintertest.AcceptedFirst)
		w.becomes(d.Batch, batch.ReportedCommitted)
		w.restart()
		_, err := w.post(witness, time.Second)
		require.NoError(t, err)
		w.never(d)
	})
}

func TestResolveByLog(t *testing.T) {
	for name, version := range map[string]int{"v1": 1, "v2": 2} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := memory.New()
				w := newWorld(t, splintertest.Options{Circuits: []splintertest.Circuit{{ID: "aaaaa-bbbbb", Version: version}}}, st)
				w.streaming(w.c)
				covered(t, st, w.service, 2*margin, time.Time{})

				d := w.lost(splintertest.AcceptedFirst)
				w.becomes(d.Batch, batch.ReportedCommitted)
				restarted := time.Now()
				w.restart()
				w.resolves(d, dlt.Committed)

				covered(t, st, w.service, 2*margin, restarted) // the stream broke, so the span began anew
				w.alone.Store(true)
				gone := w.lost(splintertest.NotAccepted)
				w.resolves(gone, dlt.NotCommitted)
				assert.GreaterOrEqual(t, time.Since(gone.ended), late+margin)
				require.NoError(t, w.net.Check(map[batch.ServiceID][]batch.ID{w.service: {d.ID}}))
			})
		})
	}
}

// If the stream broke in the meantime, the log has a gap and is no proof.
func TestResolveAcrossAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		w := newWorld(t, splintertest.Options{}, st)
		w.streaming(w.c)
		covered(t, st, w.service, 2*margin, time.Time{})
		w.alone.Store(true)
		d := w.lost(splintertest.NotAccepted)
		cut := time.Now()
		w.net.CutStreams(0)
		covered(t, st, w.service, 0, cut)
		w.never(d)
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
				w := newWorld(t, splintertest.Options{}, j)
				if journal {
					w.streaming(w.c)
					covered(t, st, w.service, 2*margin, time.Time{})
				}
				w.reject.Store(true)
				b := inc(t, w.service, "x")
				d, err := w.post(b, time.Second)
				require.NoError(t, err)
				w.becomes(b, batch.ReportedValid)
				require.Equal(t, dlt.InFlight, w.resolve(d), "it may be committed yet")
				w.reject.Store(false)
				if !journal {
					w.blind.Store(true)
					w.never(d)
					return
				}
				w.resolves(d, dlt.NotCommitted)
				// When it is sent again, the batch is committed
				// (docs/ledgers/splinter.md#the-same-bytes-again): the evidence was right.
				_, err = w.post(b, time.Second)
				require.NoError(t, err)
				w.becomes(b, batch.ReportedCommitted)
				assert.EqualValues(t, 1, w.net.State(w.service)["x"])
			})
		})
	}
}

// A second copy of a committed batch makes the batch Invalid
// (docs/ledgers/splinter.md#the-same-bytes-again).
func TestResolveInvalidAfterTheSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		w := newWorld(t, splintertest.Options{}, st)
		b := build(t, w.service, tx(splintertest.Create("x", 1)))
		d, err := w.post(b, time.Second)
		require.NoError(t, err)
		w.becomes(b, batch.ReportedCommitted)
		_, err = w.post(b, time.Second)
		require.NoError(t, err)
		w.becomes(b, batch.ReportedInvalid)
		d.number = 2
		w.blind.Store(true)
		w.never(d)
		w.blind.Store(false)
		w.streaming(w.c) // the replay shows that the first copy was committed
		w.resolves(d, dlt.Committed)
	})
}

// A batch that no handler serves stalls the service. Batches that are posted in the meantime are
// accepted long after the client has left (docs/ledgers/splinter.md#submitting).
func TestResolveBehindAStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const stall = 80 * time.Millisecond
		w := newWorld(t, splintertest.Options{UnservedHold: stall}, nil)
		w.committed()
		poison := tx(splintertest.Set("x", 1))
		poison.FamilyName = "nobody"
		bad := build(t, w.service, poison)
		_, err := w.post(bad, time.Second)
		require.NoError(t, err)
		require.Eventually(t, func() bool { return w.net.QueueLen(w.service) == 0 }, 30*time.Second, time.Millisecond)
		b := inc(t, w.service, "x")
		ctx, cancel := context.WithCancel(t.Context())
		d := doubtful{Batch: b, number: 1, claimed: time.Now()}
		go func() {
			defer cancel()
			every(time.Millisecond, 5*time.Second, func() bool { return w.net.Posts(b.ID) == 1 })
		}()
		err = w.c.Submit(ctx, attempt(b))
		d.ended = time.Now()
		require.Equal(t, batch.KindDoubt, dlt.Kind(err), "the client left, the node goes on: %v", err)
		w.resolves(d, dlt.Committed)
		assert.EqualValues(t, 2, w.net.State(w.service)["x"])
		assert.Equal(t, batch.ReportedPending, w.said(bad), "dropped without a word")
	})
}

func TestResolveJournalFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, splintertest.Options{}, brokenJournal{})
		w.committed()
		d := w.lost(splintertest.NotAccepted)
		found, err := w.c.Resolve(t.Context(), dlt.Doubt{Attempt: attempt(d.Batch), Since: time.Hour, Ended: time.Hour, Witnesses: w.known})
		assert.Equal(t, dlt.CannotTell, found)
		assert.ErrorIs(t, err, errJournal)
	})
}
