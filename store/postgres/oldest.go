package postgres

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/internal/sqlstore"
)

// oldest remembers where Prune begins to look for old rows, of one kind. In front of that, in
// the index by age, are the rows removed before; while somebody holds a snapshot they stay
// there, dead, and a look from the beginning walks over all of them.
//
// Rows in front of it that are still there wait for the next look at everything: rows that
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
	// lookAtAll is the time between two looks at everything where there may be more of them.
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
	for _, o := range [...]*oldest{&s.oldBatches, &s.oldOrders} {
		o.mu.Lock()
		o.all = time.Time{}
		o.mu.Unlock()
	}
}

// found records the rows that a look has found.
func (o *oldest) found(old []aged) {
	if len(old) == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.removed += len(old)
	o.at = old[len(old)-1].at
}

// aged is a row that can be removed, and the time from which its age counts.
type aged struct{ seq, at int64 }

// old finds rows as old as until, oldest first.
func (t *session) old(ctx context.Context, o *oldest, statement string, until int64, limit int) (seqs []int64, err error) {
	from := o.from(until, time.Now())
	rows, err := sqlstore.Query(ctx, t, func(a *aged) []any { return []any{&a.seq, &a.at} }, statement, until, int64(limit), from)
	if err != nil {
		return nil, err
	}
	o.found(rows)
	for _, r := range rows {
		seqs = append(seqs, r.seq)
	}
	return seqs, nil
}
