package engine

import (
	"context"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/health"
	"github.com/dltbatch/dltbatch/internal/inhand"
	"github.com/dltbatch/dltbatch/store"
)

// Events hands on what happens, to the observers, the log and Health.
type Events interface {
	// Begin begins a Run. Until its end events carry the values of ctx. reliant says that the strategy relies
	// on the ledger's order.
	Begin(ctx context.Context, reliant bool) Notices
	Report(e batch.Event)
	Trouble(part string, err error)
	LaneHeld(s batch.ServiceID, err error)
	Warned(all []store.Warning)
	// TraceRequest returns the function that begins the span of a POST; nil where nobody wants one.
	TraceRequest() func(context.Context, []store.Claim) (context.Context, func(error))
	// Calls returns what observes calls; nil where nobody does.
	Calls() func(context.Context, batch.Call)
	// TakeFlow returns the flow since it was taken last.
	TakeFlow(now time.Time) (store.Flow, bool)
	// Health returns what the events say about it.
	Health(now time.Time) health.Health
}

// Notices hands on what happens in one Run.
type Notices interface {
	Claimed(ctx context.Context, run store.ClaimedRun)
	Written(ctx context.Context, w inhand.Recorded)
	Paused(s batch.ServiceID, all bool, err error)
	Resumed(s batch.ServiceID, all bool)
	Unserved(s batch.ServiceID, err error)
	// End ends the Run: requests that ignore their context may outlive it, and say nothing then.
	End()
}
