package dltbatch

import (
	"context"
	"testing"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

func quiet(t testing.TB) *Runner {
	t.Helper()
	r, err := New(memory.New(), ledgermem.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var happened = batch.Event{Kind: batch.EventState, Key: batch.Key{Service: "s", ID: "b"}, State: batch.Pending, Attempt: 1}

// Where nobody looks, an event costs no allocation.
func TestAnEventThatNobodySeesIsFree(t *testing.T) {
	r, ctx := quiet(t), t.Context()
	if n := testing.AllocsPerRun(100, func() { r.observe(ctx, happened) }); n != 0 {
		t.Errorf("%v allocations an event", n)
	}
}

// idleLedger and idleStore do nothing, and allocate nothing.
type idleLedger struct{ dlt.Ledger }

func (idleLedger) Submit(context.Context, batch.Attempt) error { return nil }

type idleStore struct{ store.Full }

func (idleStore) Checked(context.Context, []store.Due) error                         { return nil }
func (idleStore) Lanes(context.Context, store.LanesQuery) ([]batch.ServiceID, error) { return nil, nil }

// Where nobody looks, no call costs an allocation, in a loop or outside.
func TestACallThatNobodySeesIsFree(t *testing.T) {
	ctx := t.Context()
	outside := watchedStore{Store: wholeStore(idleStore{})}
	inside := watchedStore{Store: outside.Store, v: newVitals(nil), loop: "queuer"}
	ledger := watchedLedger{idleLedger{}, inside.v}
	for name, call := range map[string]func() error{
		"a store, outside": func() error { return outside.Checked(ctx, nil) },
		"a store, inside":  func() error { return inside.Checked(ctx, nil) },
		"a query, outside": func() error { _, err := outside.Lanes(ctx, store.LanesQuery{}); return err },
		"a query, inside":  func() error { _, err := inside.Lanes(ctx, store.LanesQuery{}); return err },
		"a ledger":         func() error { return ledger.Submit(ctx, batch.Attempt{}) },
	} {
		if n := testing.AllocsPerRun(100, func() {
			if err := call(); err != nil {
				t.Error(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations a call", name, n)
		}
	}
}

func BenchmarkEventThatNobodySees(b *testing.B) {
	r, ctx := quiet(b), context.Background()
	b.ReportAllocs()
	for b.Loop() {
		r.observe(ctx, happened)
	}
}
