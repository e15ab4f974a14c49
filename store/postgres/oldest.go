package postgres

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/internal/sqlstore"
)

// oldest remembers where Prune begins to look for old rows, of one kind. In front of that place,
// in the index by age, are the rows removed before; while somebody holds a snapshot they stay
// there, dead, and a look from the beginning walks over all of them.
//
// Live rows in front of that place wait for the next look at everything: rows that
// were in quarantine, not settled or locked, and rows with an earlier time from a clock that
// stepped back.
type oldest struct {
	mu      sync.Mutex
	at      int64     // the time of the row removed last
	removed int       // by this store
	all     time.Time // the time of the last look at everything
}

const (
	// fewRemoved is how many dead entries in front cost too little to matter.
	fewRemoved = 2000
	// lookAtAll is the time between two looks at everything, if more dead entries may be in front.
	lookAtAll = 5 * time.Minute
)

// from is the time from which the next look for rows as old as until begins.
func (o *oldest) from(until int64, now time.Time) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.removed < fewRemoved || now.Sub(o.all) >= lookAtAll || o.at > until {
		o.all = now
		return math.MinInt64
	}
	return o.at
}

// forgetOldest makes the next looks begin at the beginning: a transaction that removes may
// have been rolled back, and then the rows that it had found are still there.
func (s *Store) forgetOldest() {
	for i := range s.oldest {
		o := &s.oldest[i]
		o.mu.Lock()
		o.all = time.Time{}
		o.mu.Unlock()
	}
}

// found records the rows that a look has found.
func (o *oldest) found(old []sqlstore.Aged) {
	if len(old) == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.removed += len(old)
	o.at = old[len(old)-1].At
}

// Old finds rows from where the last look ended.
func (t *session) Old(ctx context.Context, of sqlstore.Aging, until int64, limit int) ([]sqlstore.Aged, error) {
	statement := [...]string{sqlstore.AgingBatches: sqlPrunable, sqlstore.AgingOrders: sqlPrunableOrders, sqlstore.AgingIDs: sqlOldStreamIDs}[of]
	o := &t.s.oldest[of]
	rows, err := sqlstore.Query[sqlstore.Aged](ctx, t, statement, until, int64(limit), o.from(until, time.Now()))
	if err == nil {
		o.found(rows)
	}
	return rows, err
}

// pruning is tx for removals. After a rollback it forgets where the next looks begin, since the
// rows that the transaction had found are still there.
func (s *Store) pruning(ctx context.Context, op string, do func(ctx context.Context, t *session) error) error {
	begun := false
	err := s.tx(ctx, op, func(ctx context.Context, t *session) error {
		if begun {
			s.forgetOldest()
		}
		begun = true
		return do(ctx, t)
	})
	if err != nil {
		s.forgetOldest()
	}
	return err
}
