package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// ErrSlowClaims is a [store.Warning]: claims read over finished rows that the server could not
// clean up, and their number grows while this lasts. The results of the claims are right. Either a
// transaction that added batches stays open, or a transaction that writes anything stays open and
// the server does not show which transactions add (pg_locks).
var ErrSlowClaims = errors.New("dltbatch: claims pass over finished rows")

// ErrHiddenBatch is a [store.Warning], kept for an hour: a claim that read a whole lane, as one
// does every few minutes, found an open batch in a part of the lane where this process had ruled
// out any, so other claims passed over it. Somebody has written to the tables without this
// package, or has restored a part of them, or the package has a fault.
var ErrHiddenBatch = errors.New("dltbatch: an open batch stood before the open work of its lane")

const (
	// slowClaimsAfter is how long the place of no lane moves before Upkeep reports slow claims.
	slowClaimsAfter = 10 * time.Second
	// hiddenErrorLifetime is how long Upkeep reports a hidden batch.
	hiddenErrorLifetime = time.Hour
)

// hiddenBatch is a batch that claims could not see.
type hiddenBatch struct {
	foundAt time.Time
	service batch.ServiceID
}

// Upkeep is [store.Store].Upkeep. It makes the slow read of [position.UnderWay], and checks
// whether the database is still the same.
func (s *Store) Upkeep(ctx context.Context) (warnings []store.Warning, err error) {
	if s.positions.UnderWay.LongReadDue(time.Now(), s.opts.AllowAsynchronousCommit) {
		if err := s.read(ctx, "look for rows under way", func(ctx context.Context, t *session) error {
			return t.lookUnderWay(ctx, true)
		}); err != nil {
			return nil, err
		}
	}
	if r := s.refusedWrites.Load(); r != nil {
		warnings = append(warnings, store.Warning{Name: "read only", Err: fmt.Errorf("for %s: %w", time.Since(r.since).Round(time.Second), r.err)})
	}
	s.readIdentity(ctx)
	if err := s.replacedError(time.Now()); err != nil {
		warnings = append(warnings, store.Warning{Name: "replaced", Err: err})
	}
	if err := s.commitMemory.recentLoss(time.Now()); err != nil {
		warnings = append(warnings, store.Warning{Name: "lost commits", Err: err})
	}
	warnings = append(warnings, s.unusable.Warnings(time.Now())...)
	if err := s.slowClaimsError(); err != nil {
		warnings = append(warnings, store.Warning{Name: "slow claims", Err: err})
	}
	if h := s.lastHidden.Load(); h != nil && time.Since(h.foundAt) < hiddenErrorLifetime {
		warnings = append(warnings, store.Warning{Name: "hidden batch", Err: fmt.Errorf("%w: of service %q, %s ago",
			ErrHiddenBatch, string(h.service), time.Since(h.foundAt).Round(time.Minute))})
	}
	return warnings, nil
}

func (s *Store) slowClaimsError() error {
	switch stall := s.positions.Lanes.Stall(time.Now()); {
	case stall.Lasted < slowClaimsAfter:
		return nil
	case len(stall.Holders) > 0:
		return fmt.Errorf("%w: for %s they have waited for transactions that added and are open, in pg_locks %s",
			ErrSlowClaims, stall.Lasted.Round(time.Second), strings.Join(stall.Holders, " "))
	default:
		return fmt.Errorf("%w: for %s a transaction that writes is open, and the server does not show who adds",
			ErrSlowClaims, stall.Lasted.Round(time.Second))
	}
}
