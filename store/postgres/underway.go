package postgres

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// underWay is where the monitor's rows are among all that were claimed, by the numbers of
// the transactions that made the rows, which an index holds. In front of them are those that
// are final; while somebody holds a snapshot they stay there, dead, and a look from the
// beginning passes over all of them.
//
// An open row whose transaction has a number below from is among slow. That is exact while
// from comes from the oldest transaction that runs. A transaction that writes elsewhere for
// long would keep from where it is. So a number that was the next one more than settledAfter
// ago is good for from, too. A claim that takes longer to commit makes rows that this does
// not see; the next look at all rows finds them, at most about lookAtAll later.
type underWay struct {
	mu      sync.Mutex
	from    int64
	slow    []int64 // rows, by their numbers
	started int64   // when the server was; one that was started later may give out lower numbers
	next    time.Time
	all     time.Time // when all was looked at
	tried   time.Time // when that was begun

	mark, settled int64 // of transactions: the next one at since, and at an earlier time
	since         time.Time
}

const (
	// lookAgain is how often from is moved.
	lookAgain = 500 * time.Millisecond
	// allAgain is when all is looked at again after that has failed.
	allAgain = time.Minute
	// settledAfter is after how long every claim is taken to have ended.
	settledAfter = 5 * time.Second
	// mostSlow is how many rows are known one by one.
	mostSlow = 1000
)

// where is where to look.
func (u *underWay) where() (from int64, slow []int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.from, u.slow
}

// due is where to look for what moves that, if it is time to.
func (u *underWay) due(now time.Time) (from int64, slow []int64, due bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if now.Before(u.next) {
		return 0, nil, false
	}
	u.next = now.Add(lookAgain)
	if now.Sub(u.all) >= lookAtAll && now.Sub(u.tried) >= allAgain {
		u.tried = now
		return 0, nil, true
	}
	return u.from, u.slow, true
}

// claimed is an open row and the transaction that made it, of a look that saw all from there
// on, of the oldest up to mostSlow+1, and what it looked for by number.
type claimed struct{ seq, made int64 }

// sight is what one statement saw.
type sight struct {
	rows          []claimed
	oldest, later int64 // running transaction, and the next one that will be
	started       int64
}

// saw takes note of what was seen by who looked from there.
func (u *underWay) saw(from int64, s sight, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if s.started != u.started {
		u.from, u.slow, u.settled, u.mark, u.since = 0, nil, 0, 0, time.Time{}
		u.started = s.started
		if from != 0 {
			u.all, u.tried, u.next = time.Time{}, time.Time{}, time.Time{} // to look at all at once
		}
	}
	if u.from < from {
		return // it was reset since
	}
	if from == 0 {
		u.all = now
	}
	if now.Sub(u.since) >= settledAfter {
		u.settled, u.mark, u.since = u.mark, s.later, now
	}
	to := max(s.oldest, u.settled)
	slices.SortFunc(s.rows, func(a, b claimed) int { return cmp.Compare(a.made, b.made) })
	if len(s.rows) > mostSlow {
		to = min(to, s.rows[mostSlow].made)
	}
	if to < u.from && from != 0 {
		return
	}
	u.from, u.slow = to, nil
	for _, r := range s.rows {
		if r.made < to {
			u.slow = append(u.slow, r.seq)
		}
	}
}

// lookUnderWay finds out where to look for rows of the monitor, now and then.
func (t *session) lookUnderWay(ctx context.Context) error {
	u := &t.s.monitored
	from, slow, due := u.due(time.Now())
	if !due {
		return nil
	}
	var s sight
	found, err := query(ctx, t, func(c *claimed) []any { return []any{&c.seq, &c.made, &s.oldest, &s.later, &s.started} },
		sqlUnderWay, from, ints(slow), int64(mostSlow+1))
	if err != nil {
		return err
	}
	for _, c := range found {
		if c.seq != 0 {
			s.rows = append(s.rows, c)
		}
	}
	u.saw(from, s, time.Now())
	return nil
}

// front is where a quick look for rows begins, on which server, and whether it is enough: no
// row is known to be slow, and all were looked at not long ago.
func (u *underWay) front(now time.Time) (from, started int64, enough bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.from, u.started, len(u.slow) == 0 && now.Sub(u.all) < lookAtAll
}

// nothingUnderWay reports that nothing is, in one round trip, which some drivers need for
// a statement that has no arguments. Its text changes where from moves: drivers that prepare
// it do so twice a second at most.
func (s *Store) nothingUnderWay(ctx context.Context) bool {
	from, started, enough := s.monitored.front(time.Now())
	return enough && s.nothing(ctx, strings.NewReplacer("$1", strconv.FormatInt(from, 10), "$2", strconv.FormatInt(started, 10)).Replace(s.sql(sqlAnyAttempted)))
}
