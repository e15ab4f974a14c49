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
// not see: they are behind exact. The next look from there finds them, at most about
// lookAtAll later. It passes over what was finished since the long transaction began, which
// may take seconds; so Upkeep makes it, and Pending only where nobody calls Upkeep.
type underWay struct {
	mu      sync.Mutex
	from    int64
	exact   int64   // an open row below it is among slow, whatever transactions do
	slow    []int64 // rows, by their numbers
	started int64   // when the server was; one that was started later may give out lower numbers
	looking bool    // somebody does, and will say what was seen
	next    time.Time
	all     time.Time // when exact and from were one
	tried   time.Time // when somebody last began to look from exact because of its age

	mark, settled int64 // of transactions: the next one at since, and at an earlier time
	since         time.Time
}

const (
	// lookAgain is how often from is moved.
	lookAgain = 500 * time.Millisecond
	// allAgain is when somebody looks from exact again after that has failed.
	allAgain = time.Minute
	// besideFirst is for how long Pending leaves it to Upkeep to look from exact.
	besideFirst = time.Minute
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

// late reports that a look from exact is due, which takes long.
func (u *underWay) late(now time.Time, patience time.Duration) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.isLate(now, patience)
}

func (u *underWay) isLate(now time.Time, patience time.Duration) bool {
	return u.exact < u.from && now.Sub(u.all) >= patience && now.Sub(u.tried) >= allAgain
}

// due is where to look for what moves that, if it is time to. Whoever is told to look calls
// saw, or failed, before anybody else is.
func (u *underWay) due(now time.Time, patience time.Duration) (from int64, slow []int64, due bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.looking:
		return 0, nil, false
	case u.isLate(now, patience):
		u.tried, from = now, u.exact
	case now.Before(u.next):
		return 0, nil, false
	default:
		from = u.from
	}
	u.looking, u.next = true, now.Add(lookAgain)
	return from, u.slow, true
}

// failed takes note that a look saw nothing.
func (u *underWay) failed() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.looking = false
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
	u.looking = false
	if s.started != u.started {
		u.started = s.started
		u.from, u.exact, u.slow, u.settled, u.mark = 0, 0, nil, 0, 0
		u.since, u.tried = time.Time{}, time.Time{}
		if from != 0 {
			u.next = time.Time{} // to look at all at once
		}
	}
	if u.from < from {
		return
	}
	if now.Sub(u.since) >= settledAfter {
		u.settled, u.mark, u.since = u.mark, s.later, now
	}
	to := max(s.oldest, u.settled)
	slices.SortFunc(s.rows, func(a, b claimed) int { return cmp.Compare(a.made, b.made) })
	if len(s.rows) > mostSlow {
		to = min(to, s.rows[mostSlow].made)
	}
	if from <= u.exact {
		u.exact, u.all = min(s.oldest, to), now
	} else if to < u.from {
		return
	}
	u.from, u.slow = to, nil
	for _, r := range s.rows {
		if r.made < to {
			u.slow = append(u.slow, r.seq)
		}
	}
}

// lookUnderWay finds out where to look for rows of the monitor, now and then, and after
// patience from exact on.
func (t *session) lookUnderWay(ctx context.Context, patience time.Duration) error {
	from, slow, due := t.s.monitored.due(time.Now(), patience)
	if !due {
		return nil
	}
	var s sight
	found, err := query(ctx, t, func(c *claimed) []any { return []any{&c.seq, &c.made, &s.oldest, &s.later, &s.started} },
		sqlUnderWay, from, ints(slow), int64(mostSlow+1))
	if err != nil {
		t.s.monitored.failed()
		return err
	}
	for _, c := range found {
		if c.seq != 0 {
			s.rows = append(s.rows, c)
		}
	}
	t.s.monitored.saw(from, s, time.Now())
	return nil
}

// front is where a quick look for rows begins, on which server, and whether it is enough: no
// row is known to be slow, and nothing can be in front of it, or could not a while ago.
func (u *underWay) front(now time.Time) (from, started int64, enough bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.from, u.started, u.started != 0 && len(u.slow) == 0 && (u.exact >= u.from || now.Sub(u.all) < lookAtAll+besideFirst)
}

// nothingUnderWay reports that nothing is, in one round trip, which some drivers need for
// a statement that has no arguments. Its text changes where from moves: drivers that prepare
// it do so twice a second at most.
func (s *Store) nothingUnderWay(ctx context.Context) bool {
	from, started, enough := s.monitored.front(time.Now())
	return enough && s.nothing(ctx, strings.NewReplacer("$1", strconv.FormatInt(from, 10), "$2", strconv.FormatInt(started, 10)).Replace(s.sql(sqlAnyAttempted)))
}
