package engine

import (
	"context"
	"sync/atomic"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/store"
)

// guard contains panics in the caller's ledger where no other code would, and reports panics
// that nobody would notice.
type guard struct {
	dlt.Ledger
	trouble func(error)
	traits  *atomic.Bool // a panic of Traits was reported; it is called too often to report each
}

// Traits returns the ledger's traits. After a panic it returns the most careful traits
// possible.
func (g guard) Traits(s batch.ServiceID) (t dlt.Traits) {
	if err := loop.Contain(func() error { t = g.Ledger.Traits(s); return nil }); err != nil {
		if !g.traits.Swap(true) { // before the report: the observer may call Traits again
			g.trouble(err)
		}
		return dlt.Traits{Name: "unknown", LateArrival: dlt.Forever / 4, Grace: dlt.Forever / 4}
	}
	return t
}

// Submit makes one attempt. A panic counts as doubt.
func (g guard) Submit(ctx context.Context, a batch.Attempt) (err error) {
	panicked := loop.Contain(func() error { err = g.Ledger.Submit(ctx, a); return nil })
	if panicked != nil {
		g.trouble(panicked)
		return &dlt.Error{Op: "submit", Kind: dlt.ErrDoubt, Err: panicked}
	}
	return err
}

// SubmitList makes one attempt of each batch. A panic counts as doubt about all.
func (g guard) SubmitList(ctx context.Context, list []batch.Attempt) (err error) {
	panicked := loop.Contain(func() error { err = g.Ledger.SubmitList(ctx, list); return nil })
	if panicked != nil {
		g.trouble(panicked)
		return &dlt.Error{Op: "submit", Kind: dlt.ErrDoubt, Err: panicked}
	}
	return err
}

func (g guard) resend(s batch.ServiceID) store.Resend {
	t := g.Traits(s)
	return store.Resend{HarmlessFor: t.ResendHarmlessFor, LateArrival: t.LateArrival}
}

func (g guard) maxInFlight(s batch.ServiceID) int { return g.Traits(s).MaxInFlightPerService }

func (g guard) keepsOrder(s batch.ServiceID) bool { return g.Traits(s).KeepsOrder }
