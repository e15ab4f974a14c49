package ordertest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store"
)

// fixture is the store of one test, with helpers.
type fixture struct {
	*testing.T
	promise string // the tested promise, in words

	harness Harness
	store   Store
	ctx     context.Context // the context of the whole test

	// unit is the tests' unit of time: the clock is moved by whole units, and durations are
	// fractions of it.
	unit   time.Duration
	offset time.Duration // how far the store's clock was moved
}

// Errorf names the promise that the store breaks, and then the failure. The assertions of package
// testify call it.
func (f *fixture) Errorf(format string, args ...any) {
	f.Helper()
	f.T.Errorf("the store breaks a promise, %s"+format, append([]any{f.promise}, args...)...)
}

// now returns about the time of the store's clock.
func (f *fixture) now() time.Time { return time.Now().Add(f.offset).UTC() }

// units returns the duration of n units.
func (f *fixture) units(n float64) time.Duration { return time.Duration(n * float64(f.unit)) }

// passUnits lets n units of the store's time pass. A negative n needs a clock that can be set.
func (f *fixture) passUnits(n int) { f.stepClock(time.Duration(n) * f.unit) }

// tick makes the next call later than the one before, even on a coarse clock.
func (f *fixture) tick() { f.stepClock(2 * time.Millisecond) }

func (f *fixture) stepClock(d time.Duration) {
	f.Helper()
	if f.harness.StepClock != nil {
		f.harness.StepClock(d)
		f.offset += d
		return
	}
	require.Positive(f, d, "a clock that cannot be set does not go back")
	select {
	case <-time.After(d):
	case <-f.ctx.Done():
	}
}

// newOrder returns an order of a party.
func newOrder(party batch.ServiceID, id order.ID) order.Order {
	return order.Order{ID: id, Party: party, Payload: []byte("payload of " + string(id))}
}

// newOrders returns n orders of a party. Their ids sort in the reverse of their order.
func newOrders(party batch.ServiceID, prefix string, n int) []order.Order {
	os := make([]order.Order, n)
	for i := range os {
		os[i] = newOrder(party, order.ID(fmt.Sprintf("%s%05d", prefix, n-i)))
	}
	return os
}

func orderIDs(os []order.Order) []order.ID {
	is := make([]order.ID, len(os))
	for i, o := range os {
		is[i] = o.ID
	}
	return is
}

func recordIDs(rs []order.Record) []order.ID {
	is := make([]order.ID, len(rs))
	for i, r := range rs {
		is[i] = r.ID
	}
	return is
}

func queuedIDs(os []order.Waiting) []order.ID {
	is := make([]order.ID, len(os))
	for i, o := range os {
		is[i] = o.ID
	}
	return is
}

func refIDs(rs []order.Ref) []order.ID {
	is := make([]order.ID, len(rs))
	for i, r := range rs {
		is[i] = r.ID
	}
	return is
}

func refsOf(os []order.Waiting) []order.Ref {
	rs := make([]order.Ref, len(os))
	for i, o := range os {
		rs[i] = order.Ref{ID: o.ID, Version: o.Version}
	}
	return rs
}

// verdictsOn returns the same verdict for each of the orders.
func verdictsOn(rs []order.Ref, v order.Verdict) []order.Verdict {
	vs := make([]order.Verdict, len(rs))
	for i, r := range rs {
		vs[i] = v
		vs[i].Ref = r
	}
	return vs
}

// newBatch returns a batch of a party.
func newBatch(party batch.ServiceID, id batch.ID) batch.Batch {
	return batch.Batch{Service: party, ID: id, Payload: []byte("payload of " + string(id))}
}

func (f *fixture) add(os ...order.Order) {
	f.Helper()
	require.NoError(f, f.store.AddOrders(f.ctx, os...))
}

// nextOrders returns the orders of the party's next batch.
func (f *fixture) nextOrders(party batch.ServiceID, maxOrders int) []order.Waiting {
	f.Helper()
	os := must(f.store.NextOrders(f.ctx, party, order.NextQuery{Max: maxOrders}))(f)
	return os
}

// prepare makes a batch of the party's next orders.
func (f *fixture) prepare(party batch.ServiceID, id batch.ID, maxOrders int) (batch.Batch, []order.Ref) {
	f.Helper()
	b, rs := newBatch(party, id), refsOf(f.nextOrders(party, maxOrders))
	require.NotEmpty(f, rs)
	require.True(f, must(f.store.PrepareBatch(f.ctx, b, rs))(f))
	return b, rs
}

// finish makes the batch final. It must be the first of its lane.
func (f *fixture) finish(b batch.Batch, finding store.Finding) {
	f.Helper()
	got, err := f.store.Claim(f.ctx, store.ClaimQuery{Lanes: []batch.ServiceID{b.Service}, Limit: 1, Window: 1, TTL: f.units(1.5)},
		func(l batch.Lane) []batch.Run {
			for i, w := range l.Batches {
				if w.ID == b.ID {
					return []batch.Run{{i}}
				}
			}
			return nil
		})
	require.NoError(f, err)
	require.Len(f, got.Runs, 1)
	c := got.Runs[0].Batches[0]
	o := store.Outcome{Ref: c.Ref, Version: c.Version, By: batch.BySubmitter, Finding: finding}
	if finding == store.IsCommitted {
		o.Finding = store.Accepted
		f.write(o)
		o.Finding, o.By = finding, batch.ByMonitor
		o.Version++
	} else {
		o.Error = &batch.SubmissionError{Kind: batch.KindRejected, Message: "no"}
	}
	f.write(o)
}

// write records an outcome.
func (f *fixture) write(o store.Outcome) {
	f.Helper()
	applied := must(f.store.Record(f.ctx, []store.Outcome{o}))(f)
	require.Equal(f, store.Written, applied[0].Result, "%v", applied[0].Err)
}

// settleable returns the batch whose orders are to be settled. There must be exactly one.
func (f *fixture) settleable() order.Batch {
	f.Helper()
	found := must(f.store.SettleableBatches(f.ctx, 9))(f)
	require.Len(f, found, 1)
	return found[0]
}

// settlement returns a settlement with the same verdict about all orders of a batch.
func settlement(b order.Batch, v order.Verdict) order.Settlement {
	return order.Settlement{Batch: b.Record.Key, Version: b.Record.Version, Orders: verdictsOn(b.Orders, v)}
}

// settle writes one settlement.
func (f *fixture) settle(s order.Settlement) bool {
	f.Helper()
	done := must(f.store.SettleOrders(f.ctx, []order.Settlement{s}))(f)
	require.Len(f, done, 1)
	return done[0]
}

// list returns the records of a party's orders, in their order.
func (f *fixture) list(party batch.ServiceID) []order.Record {
	f.Helper()
	rs, next := must2(f.store.ListOrders(f.ctx, order.ListQuery{Party: &party, Limit: 1000}))(f)
	require.Empty(f, next)
	return rs
}

// record returns the record of one order.
func (f *fixture) record(party batch.ServiceID, id order.ID) order.Record {
	f.Helper()
	for _, r := range f.list(party) {
		if r.ID == id {
			return r
		}
	}
	require.Fail(f, "no such order", "%s", id)
	return order.Record{}
}

// parties returns all that Parties returns.
func (f *fixture) parties() []order.PartyLoad {
	f.Helper()
	ps := must(f.store.Parties(f.ctx, order.PartiesQuery{Start: true, Limit: 1000, Cap: 1000}))(f)
	return ps
}

func partyNames(ps []order.PartyLoad) []batch.ServiceID {
	names := []batch.ServiceID{}
	for _, p := range ps {
		names = append(names, p.Party)
	}
	return names
}

// must returns the value of a call that may not fail: must(call())(t).
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		require.NoError(t, err)
		return v
	}
}

// must2 is must for two values.
func must2[A, B any](a A, b B, err error) func(testing.TB) (A, B) {
	return func(t testing.TB) (A, B) {
		t.Helper()
		require.NoError(t, err)
		return a, b
	}
}
