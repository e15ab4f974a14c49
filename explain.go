package dltbatch

import (
	"context"
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/explain"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
)

// Explain returns why a batch does not move and how it would. It works in any process, whether
// or not Run runs there. It reads and changes nothing; its answer was true at one moment, and
// assumes this Runner's strategy. Explain returns [batch.ErrNotFound] or the store's error, which
// is [store.ErrUnsupported] where the store is no [store.Inspector].
func (r *Runner) Explain(ctx context.Context, key batch.Key) (batch.Explanation, error) {
	q := r.claimQuery()
	look, err := r.store.Look(ctx, key, q.Window)
	if err != nil {
		return batch.Explanation{Key: key}, fmt.Errorf("explain %s: %w", key, err)
	}
	silent := func(batch.ServiceID, error) {} // the rounds report it
	e := explain.Of(look, q, queuer.Choose(r.o.Strategy, r.keepsOrder, silent))
	if look.Row.Final() || e.Cause == batch.CauseClaimed {
		return e, nil
	}
	unserved, err := r.serves(ctx, key.Service)
	if err != nil {
		return e, fmt.Errorf("explain %s: %w", key, err)
	}
	if unserved != nil {
		e.Owner, e.Cause, e.Remedy, e.Decision = batch.ByOperator, batch.CauseUnserved, batch.RemedyLedger, unserved.Error()
		e.Text = explain.Sentence(e)
	}
	return e, nil
}

// serves returns why this Runner's ledger does not serve a service; nil where it does.
func (r *Runner) serves(ctx context.Context, s batch.ServiceID) (unserved, err error) {
	traits, unserved := checkService(r.store.given(), r.ledger.Ledger, s, r.o)
	if unserved != nil {
		return unserved, nil
	}
	return r.elsewhere(ctx, s, traits.Name)
}

// elsewhere returns an error if another ledger than the named one serves a service. It records nothing.
func (r *Runner) elsewhere(ctx context.Context, s batch.ServiceID, ledger string) (unserved, err error) {
	by, err := r.store.Serve(ctx, []store.Served{{Service: s}})
	if err != nil {
		return nil, err
	}
	return otherLedger(by[0], ledger), nil
}

// claimQuery is the query of this Runner's claims, without lanes and limit.
func (r *Runner) claimQuery() store.ClaimQuery {
	return store.ClaimQuery{
		Window: max(1, r.o.Strategy.Window()), TTL: r.o.ClaimTTL, Resend: r.resend, MaxInFlight: r.maxInFlight,
		Budget: r.o.budget, Instance: r.o.Instance, StuckAfter: r.o.StuckAfter,
	}
}

func (r *Runner) resend(s batch.ServiceID) store.Resend {
	t := r.ledger.Traits(s)
	return store.Resend{HarmlessFor: t.ResendHarmlessFor, LateArrival: t.LateArrival}
}

func (r *Runner) maxInFlight(s batch.ServiceID) int { return r.ledger.Traits(s).MaxInFlightPerService }

func (r *Runner) keepsOrder(s batch.ServiceID) bool { return r.ledger.Traits(s).KeepsOrder }
