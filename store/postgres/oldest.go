package postgres

import (
	"context"
	"math"
	"sync"
	"time"
)

// oldest is where Prune begins to look for what is old, of one kind. In front of that, in
// the index by age, is what was removed before; while somebody holds a snapshot it stays
// there, dead, and a look from the beginning passes over all of it.
//
// What lies in front of it all the same waits for the next look at everything: what was left
// out while it was in quarantine, or not settled, or locked, and what a clock that stepped
// back gave an earlier time.
type oldest struct {
	mu      sync.Mutex
	at      int64     // the time of what was removed last
	removed int       // by this store
	all     time.Time // when everything was looked at last
}

const (
	// fewRemoved is how many dead entries in front are none to speak of.
	fewRemoved = 2000
	// lookAtAll is how often everything is looked at where there may be more of them.
	lookAtAll = 5 * time.Minute
)

// from is where the next look for what is as old as until begins.
func (o *oldest) from(until int64, now time.Time) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.removed < fewRemoved || now.Sub(o.all) >= lookAtAll || o.at > until {
		o.all = now
		return math.MinInt64
	}
	return o.at
}

// forgetOldest makes the next looks begin at the beginning: a transaction that removes was
// rolled back, perhaps, and so what it had found is still there.
func (s *Store) forgetOldest() {
	for _, o := range [...]*oldest{&s.oldBatches, &s.oldOrders} {
		o.mu.Lock()
		o.all = time.Time{}
		o.mu.Unlock()
	}
}

// found takes note of what a look has found.
func (o *oldest) found(old []aged) {
	if len(old) == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.removed += len(old)
	o.at = old[len(old)-1].at
}

// aged is something that can be removed, and when it came to be so.
type aged struct{ seq, at int64 }

// old finds, oldest first, what is as old as until.
func (t *session) old(ctx context.Context, o *oldest, statement string, until int64, limit int) (seqs []int64, err error) {
	from := o.from(until, time.Now())
	rows, err := query(ctx, t, func(a *aged) []any { return []any{&a.seq, &a.at} }, statement, until, int64(limit), from)
	if err != nil {
		return nil, err
	}
	o.found(rows)
	for _, r := range rows {
		seqs = append(seqs, r.seq)
	}
	return seqs, nil
}
