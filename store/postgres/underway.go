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

// underWay remembers where the monitor's rows are among all claimed rows. An index holds the
// number of the transaction that made each row. In front of the monitor's rows are final rows;
// while somebody holds a snapshot they stay there, dead, and a look from the beginning walks
// over all of them.
//
// An open row whose transaction has a number below from is in slow. That is exact while from
// comes from the oldest running transaction. But a long transaction that writes elsewhere
// would stop from. So a number that was the next number more than settledAfter ago also serves
// as from. A claim that takes longer to commit makes rows that this misses: they are above
// exact. The next look from exact finds them, at most about lookAtAll later. That look walks
// over all rows that became final since the long transaction began, which may take seconds; so
// Upkeep makes it, and Pending only where nobody calls Upkeep.
type underWay struct {
	mu      sync.Mutex
	from    int64
	exact   int64   // every open row below it is in slow, however long a transaction runs
	slow    []int64 // rows, by their numbers
	started int64   // the server's start; another server may give out lower numbers
	looking bool    // a look is under way, and ends with saw or failed
	next    time.Time
	all     time.Time // the time of the last look from exact
	tried   time.Time // when a look from exact last began because of its age

	mark, settled int64 // transaction numbers: the next number at since, and at an earlier time
	since         time.Time
}

const (
	// lookAgain is how often from is moved.
	lookAgain = 500 * time.Millisecond
	// allAgain is the wait before another look from exact after one has failed.
	allAgain = time.Minute
	// besideFirst is how long Pending leaves the look from exact to Upkeep.
	besideFirst = time.Minute
	// settledAfter is the time after which every claim is taken to have ended.
	settledAfter = 5 * time.Second
	// mostSlow is how many rows are known one by one.
	mostSlow = 1000
)

// where returns where to look.
func (u *underWay) where() (from int64, slow []int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.from, u.slow
}

// late reports that a look from exact, which takes long, is due.
func (u *underWay) late(now time.Time, patience time.Duration) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.isLate(now, patience)
}

func (u *underWay) isLate(now time.Time, patience time.Duration) bool {
	return u.exact < u.from && now.Sub(u.all) >= patience && now.Sub(u.tried) >= allAgain
}

// due returns where to look in order to move from, if it is time to. A caller that gets true
// calls saw or failed; until then no other caller gets true.
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

// failed records that a look saw nothing.
func (u *underWay) failed() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.looking = false
}

// claimed is an open row and the number of the transaction that made it. A look returns all
// rows from its beginning on, oldest first up to mostSlow+1, and the rows that it looked for
// by number.
type claimed struct{ seq, made int64 }

// sight is the result of one look.
type sight struct {
	rows          []claimed
	oldest, later int64 // the oldest running transaction, and the next number to be given out
	started       int64
}

// saw records the result of a look that began at from.
func (u *underWay) saw(from int64, s sight, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.looking = false
	if s.started != u.started {
		u.started = s.started
		u.from, u.exact, u.slow, u.settled, u.mark = 0, 0, nil, 0, 0
		u.since, u.tried = time.Time{}, time.Time{}
		if from != 0 {
			u.next = time.Time{} // so that the next look at everything comes at once
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

// lookUnderWay now and then looks for the place of the monitor's rows, and after patience from
// exact on.
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

// front returns where a quick look for rows begins, on which server, and whether it is enough:
// no row is known to be slow, and none can be in front of it, or could not a while ago.
func (u *underWay) front(now time.Time) (from, started int64, enough bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.from, u.started, u.started != 0 && len(u.slow) == 0 && (u.exact >= u.from || now.Sub(u.all) < lookAtAll+besideFirst)
}

// nothingUnderWay reports that no row is under way, in one round trip, which some drivers
// grant only to a statement without arguments. Its text changes when from moves: drivers that
// prepare it do so twice a second at most.
func (s *Store) nothingUnderWay(ctx context.Context) bool {
	from, started, enough := s.monitored.front(time.Now())
	return enough && s.nothing(ctx, strings.NewReplacer("$1", strconv.FormatInt(from, 10), "$2", strconv.FormatInt(started, 10)).Replace(s.sql(sqlAnyAttempted)))
}
