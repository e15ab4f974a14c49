package engine

import (
	"context"
	"testing"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/store"
)

// idleLedger and idleStore do nothing, and allocate nothing.
type idleLedger struct{ dlt.Ledger }

func (idleLedger) Traits(batch.ServiceID) dlt.Traits {
	return dlt.Traits{Name: "l", Routed: true}
}

func (idleLedger) Submit(context.Context, batch.Attempt) error { return nil }

type idleStore struct{ store.Store }

func (idleStore) Checked(context.Context, []store.Due) error                         { return nil }
func (idleStore) Lanes(context.Context, store.LanesQuery) ([]batch.ServiceID, error) { return nil, nil }

// If no observer wants calls, a call allocates nothing, in a loop or outside.
func TestACallThatNobodySeesIsFree(t *testing.T) {
	ctx := t.Context()
	outside := meteredStore{Store: substitutedStore{Store: idleStore{}}}
	inside := meteredStore{Store: outside.Store, meter: newStoreMeter(nil, newVitals()), loop: "queuer"}
	known := newServices(idleLedger{}, nil)
	known.storeJudgement("s", dlt.Traits{Name: "l", Routed: true}, nil)
	ledger := ledger{idleLedger{}, known, newLedgerMeter(nil, inside.vitals), &admission{services: known}}
	for name, call := range map[string]func() error{
		"a store, outside": func() error { return outside.Checked(ctx, nil) },
		"a store, inside":  func() error { return inside.Checked(ctx, nil) },
		"a query, outside": func() error { _, err := outside.Lanes(ctx, store.LanesQuery{}); return err },
		"a query, inside":  func() error { _, err := inside.Lanes(ctx, store.LanesQuery{}); return err },
		"a ledger":         func() error { return ledger.Submit(ctx, batch.Attempt{Key: batch.Key{Service: "s"}}) },
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
