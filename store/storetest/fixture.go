package storetest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// fixture is the store of one test, and the model of the store's contents.
type fixture struct {
	*testing.T
	openAnother func(t *testing.T) Harness // opens another store

	promise   string // the promise that the test shows, in words
	harness   Harness
	store     store.Store
	abilities store.Abilities
	ctx       context.Context

	// timeUnit is the tests' unit of time. Durations are odd fractions of it, and the clock moves
	// by whole units. So the two clocks, which differ by a little, always agree whether a duration
	// is over.
	timeUnit    time.Duration
	clockOffset time.Duration // how far the test has moved the store's clock

	batches    map[batch.ID]*modelBatch
	tombstones map[batch.ID]*modelTombstone

	controls map[batch.Scope]batch.Control
	versions map[batch.Scope][]seenVersion
	laneActs map[batch.Scope][]batch.Act
}

// Errorf begins with the promise that the store breaks. The assertions of package testify call it.
func (f *fixture) Errorf(format string, args ...any) {
	f.Helper()
	f.T.Errorf("the store breaks a promise, %s"+format, append([]any{f.promise}, args...)...)
}

// modelBatch is the model of one stored batch.
type modelBatch struct {
	batch        batch.Batch
	created      time.Time
	ref          store.Ref
	row          store.Row
	acts         []batch.Act
	reports      []batch.Report
	lastReturned *store.Row // the row as the store last returned it
	passedCount  int        // how many times it was passed back
}

// lastReturnedRef returns the ref that the store returns for the batch.
func (s *modelBatch) lastReturnedRef() store.Ref {
	return store.Ref{Key: s.batch.Key(), Row: s.ref.Row, Created: s.created, TraceParent: s.batch.TraceParent}
}

// now returns the time of the store's clock, nearly.
func (f *fixture) now() time.Time { return time.Now().Add(f.clockOffset).UTC() }

// units returns a duration of n units.
func (f *fixture) units(n float64) time.Duration { return time.Duration(n * float64(f.timeUnit)) }

// passUnits lets n units of the store's time pass. n is negative only if the clock can be set.
func (f *fixture) passUnits(n int) { f.stepClock(time.Duration(n) * f.timeUnit) }

// tick makes the next call later than the call before, even on the coarsest clock.
func (f *fixture) tick() { f.stepClock(2 * time.Millisecond) }

func (f *fixture) stepClock(d time.Duration) {
	f.Helper()
	if f.harness.StepClock != nil {
		f.harness.StepClock(d)
		f.clockOffset += d
		return
	}
	require.Positive(f, d, "a clock that cannot be set does not go back")
	select {
	case <-time.After(d):
	case <-f.ctx.Done():
	}
}

// isNear reports whether two times differ only by the difference of the clocks.
func (f *fixture) isNear(a, b time.Time) bool {
	if a.IsZero() || b.IsZero() {
		return a.IsZero() && b.IsZero()
	}
	return f.areNear(a.Sub(b), 0)
}

func (f *fixture) areNear(a, b time.Duration) bool { return (a - b).Abs() < f.timeUnit/8 }

// newBatch returns a batch of a service. About half of all ids have a trace context, and other ids
// have tags.
func newBatch(service batch.ServiceID, id batch.ID) batch.Batch {
	b := batch.Batch{Service: service, ID: id, Payload: []byte("payload of " + string(id))}
	if n := len(id); n > 0 && id[n-1]%2 == 0 {
		b.TraceParent = traceParent(string(id))
	}
	if n := len(id); n > 0 && id[n-1]%3 == 0 {
		b.Tags = batch.Tags{"invoice": string(id), "of": "storetest"}
	}
	return b
}

// traceParent returns a trace context that differs for each text.
func traceParent(of string) string {
	h := sha256.Sum256([]byte(of))
	return fmt.Sprintf("00-%x-%x-01", h[:16], h[16:24])
}

// newBatches returns n batches of a service. The order of their ids is opposite to the order of
// the batches.
func newBatches(service batch.ServiceID, prefix string, n int) []batch.Batch {
	bs := make([]batch.Batch, n)
	for i := range bs {
		bs[i] = newBatch(service, batch.ID(fmt.Sprintf("%s%05d", prefix, n-i)))
	}
	return bs
}

func batchIDs(bs []batch.Batch) []batch.ID {
	is := make([]batch.ID, len(bs))
	for i, b := range bs {
		is[i] = b.ID
	}
	return is
}

func recordIDs(rs []batch.Record) []batch.ID {
	is := make([]batch.ID, len(rs))
	for i, r := range rs {
		is[i] = r.ID
	}
	return is
}

func inFlightIDs(rs []store.InFlight) []batch.ID {
	is := make([]batch.ID, len(rs))
	for i, r := range rs {
		is[i] = r.Key.ID
	}
	return is
}

func claimedIDs(c store.Claimed) []batch.ID {
	is := []batch.ID{}
	for _, r := range c.Runs {
		for _, b := range r.Batches {
			is = append(is, b.Key.ID)
		}
	}
	return is
}

func laneIDs(l batch.Lane) []batch.ID {
	is := make([]batch.ID, len(l.Batches))
	for i, b := range l.Batches {
		is[i] = b.ID
	}
	return is
}

// chooseEveryReady takes all ready batches, in one run.
func chooseEveryReady(l batch.Lane) []batch.Run {
	var run batch.Run
	for i, b := range l.Batches {
		if b.Ready {
			run = append(run, i)
		}
	}
	return []batch.Run{run}
}

func chooseNothing(batch.Lane) []batch.Run { return nil }

// chooseOnly returns a strategy that puts the named batches into one run, and no others.
func chooseOnly(want ...batch.ID) store.Choose {
	wanted := make(map[batch.ID]bool, len(want))
	for _, id := range want {
		wanted[id] = true
	}
	return func(l batch.Lane) []batch.Run {
		var run batch.Run
		for i, b := range l.Batches {
			if wanted[b.ID] {
				run = append(run, i)
			}
		}
		return []batch.Run{run}
	}
}

// forEver is how long bytes may be sent again to a ledger that never executes them twice
// (dlt.Forever).
const forEver = time.Duration(math.MaxInt64)

func resendRule(harmless, late time.Duration) func(batch.ServiceID) store.Resend {
	return func(batch.ServiceID) store.Resend { return store.Resend{HarmlessFor: harmless, LateArrival: late} }
}

// get returns the record of a batch of the model, after comparing the two.
func (f *fixture) get(id batch.ID) batch.Record {
	f.Helper()
	s := f.batches[id]
	require.NotNil(f, s, "the model does not know %s", id)
	r := must(f.store.Get(f.ctx, s.batch.Key()))(f)
	f.requireSameRecord(s, r)
	return r
}

// requireAbsent checks that nothing is stored under the keys of the batches.
func (f *fixture) requireAbsent(bs ...batch.Batch) {
	f.Helper()
	for _, b := range bs {
		r, err := f.store.Get(f.ctx, b.Key())
		if t := f.tombstones[b.ID]; t != nil && t.batch.Key() == b.Key() {
			require.NoError(f, err, "%s has a tombstone", b.Key())
			f.requireSameAsTombstone(r)
			continue
		}
		require.ErrorIsf(f, err, batch.ErrNotFound, "is %s stored?", b.Key())
	}
}

// viewLane returns a lane as a claim sees it, and changes nothing. Every ready batch of the lane
// must be resendable.
func (f *fixture) viewLane(service batch.ServiceID, window int) batch.Lane {
	f.Helper()
	var seen batch.Lane
	f.claim(store.ClaimQuery{
		Lanes: []batch.ServiceID{service}, Limit: 1, Window: window, TTL: f.units(1.5), Resend: resendRule(f.units(1000.5), 0),
	}, func(l batch.Lane) []batch.Run {
		seen = l
		return nil
	})
	return seen
}

// must returns the value of a call that must not fail: must(call())(t).
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		require.NoError(t, err)
		return v
	}
}

// must2 is must for a call with two values.
func must2[A, B any](a A, b B, err error) func(testing.TB) (A, B) {
	return func(t testing.TB) (A, B) {
		t.Helper()
		require.NoError(t, err)
		return a, b
	}
}
