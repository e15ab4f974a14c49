package main

import (
	"context"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

// Resolve gives evidence about attempts in doubt. It is optional; Traits.Resolves declares it.
// After LateArrival the answer "none" is final.
func (c *Client) Resolve(ctx context.Context, d dlt.Doubt) (dlt.Evidence, error) {
	statuses, err := c.askStates(ctx, []batch.Attempt{d.Attempt})
	if err != nil || len(statuses) == 0 {
		return dlt.CannotTell, err
	}
	return map[batch.Reported]dlt.Evidence{
		batch.ReportedUnknown: dlt.NotCommitted, batch.ReportedPending: dlt.InFlight,
		batch.ReportedCommitted: dlt.Committed, batch.ReportedInvalid: dlt.NotCommitted,
	}[statuses[0].Reported], nil
}
