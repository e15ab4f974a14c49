package integration

import (
	"context"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres"
)

// pickFrontIfIdle picks the first batch of a lane, unless a batch of the lane is under way.
func pickFrontIfIdle(l batch.Lane) []batch.Run {
	for _, b := range l.Batches {
		if !b.State.Claimable() {
			return nil
		}
	}
	if len(l.Batches) == 0 || !l.Batches[0].Ready {
		return nil
	}
	return []batch.Run{{0}}
}

// deliverAll claims as many batches of the lanes as it can, and records them as committed. It
// returns their number.
func deliverAll(ctx context.Context, st *postgres.Store, ttl time.Duration, lanes ...batch.ServiceID) (int, error) {
	c, err := st.Claim(ctx, store.ClaimQuery{Lanes: lanes, Limit: 100, Window: 1, TTL: ttl, Instance: "new"}, pickFrontIfIdle)
	if err != nil {
		return 0, err
	}
	var accepted, done []store.Outcome
	for _, r := range c.Runs {
		for _, b := range r.Batches {
			accepted = append(accepted, store.Outcome{Ref: b.Ref, Version: b.Version, Was: b.Was, By: batch.BySubmitter, Attempt: b.Attempt,
				Finding: store.Accepted, Check: time.Hour})
		}
	}
	applied, err := st.Record(ctx, accepted)
	for _, a := range applied {
		done = append(done, store.Outcome{Ref: a.Ref, Version: a.Row.Version, Was: &a.Row, By: batch.ByMonitor, Finding: store.IsCommitted})
	}
	if err == nil {
		_, err = st.Record(ctx, done)
	}
	return len(done), err
}

// pickFront picks the first batch of a lane if it is ready.
func pickFront(l batch.Lane) []batch.Run {
	if len(l.Batches) == 0 || !l.Batches[0].Ready {
		return nil
	}
	return []batch.Run{{0}}
}
