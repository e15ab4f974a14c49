package postgres

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Slow rows are known one by one, and newer rows are looked for from where the oldest
// transaction began.
func TestUnderWay(t *testing.T) {
	var u underWay
	const patience = lookAtAll
	now := time.Now()
	look := func(s sight) (int64, []int64) {
		t.Helper()
		now = now.Add(lookAgain)
		from, _, due := u.due(now, patience)
		require.True(t, due)
		s.started = max(s.started, 1)
		u.saw(from, s, now)
		return u.where()
	}
	from, slow := look(sight{rows: []claimed{{7, 30}, {8, 10}}, oldest: 20, later: 31})
	require.EqualValues(t, 20, from)
	require.Equal(t, []int64{8}, slow)
	_, _, due := u.due(now.Add(lookAgain-1), patience)
	require.False(t, due)

	// A transaction that writes elsewhere for long holds it up for no longer than it must.
	from, _ = look(sight{rows: []claimed{{7, 30}, {8, 10}}, oldest: 20, later: 50})
	require.EqualValues(t, 20, from)
	now = now.Add(settledAfter)
	from, _ = look(sight{rows: []claimed{{7, 30}, {8, 10}}, oldest: 20, later: 60})
	require.EqualValues(t, 31, from, "the next one of the first look")
	now = now.Add(settledAfter)
	from, slow = look(sight{rows: []claimed{{7, 30}, {9, 58}}, oldest: 20, later: 70})
	require.EqualValues(t, 60, from)
	require.Equal(t, []int64{7, 9}, slow)

	// Many are looked for together.
	many := sight{oldest: 10_000, later: 10_000}
	for i := range int64(mostSlow + 5) {
		many.rows = append(many.rows, claimed{seq: i + 1, made: 100 + i})
	}
	from, slow = look(many)
	require.EqualValues(t, 100+mostSlow, from)
	require.Len(t, slow, mostSlow)

	// A row of a claim that took longer is above exact, and found from there.
	now = u.all.Add(lookAtAll)
	require.False(t, u.late(now, lookAtAll+1))
	require.True(t, u.late(now, lookAtAll))
	from, slow, due = u.due(now, patience)
	require.True(t, due)
	require.EqualValues(t, 20, from, "the oldest transaction of the last look from there")
	_, _, due = u.due(now.Add(time.Hour), patience)
	require.False(t, due, "somebody looks")
	u.failed()
	require.False(t, u.late(now.Add(allAgain-1), patience))
	now = now.Add(allAgain)
	from, _, due = u.due(now, patience)
	require.True(t, due)
	require.EqualValues(t, 20, from)
	u.saw(from, sight{rows: []claimed{{5, 25}}, oldest: 20_000, later: 20_000, started: 1}, now)
	from, slow = u.where()
	require.EqualValues(t, 20_000, from)
	require.Equal(t, []int64{5}, slow)

	// While from comes from the oldest transaction there is nothing to look for behind it.
	now = now.Add(10 * lookAtAll)
	require.False(t, u.late(now, patience))
	from, _, due = u.due(now, patience)
	require.True(t, due)
	require.EqualValues(t, 20_000, from)
	u.saw(from, sight{oldest: 20_001, later: 20_001, started: 1}, now)

	// Another server may give out numbers again.
	from, slow = look(sight{oldest: 300, started: 2})
	require.Zero(t, from)
	require.Empty(t, slow)
	now = now.Add(-lookAgain)
	from, slow = look(sight{rows: []claimed{{3, 250}}, oldest: 300, started: 2})
	require.EqualValues(t, 300, from, "at once")
	require.Equal(t, []int64{3}, slow)

	// A new server is seen, too, where its first look finds rows.
	u = underWay{started: 2}
	from, slow = look(sight{rows: []claimed{{4, 30}}, oldest: 40, started: 3})
	require.EqualValues(t, 40, from)
	require.Equal(t, []int64{4}, slow)
}

// A quick look is enough where no row is slow, and from is exact, or was compared with exact
// not long ago: a claim may have been made by a transaction that took long.
func TestAQuickLookIsNotEnoughForEver(t *testing.T) {
	var u underWay
	const patience = lookAtAll + besideFirst
	now := time.Now()
	_, _, enough := u.front(now)
	require.False(t, enough, "nobody has looked")
	_, _, due := u.due(now, patience)
	require.True(t, due)
	_, _, enough = u.front(now)
	require.False(t, enough, "the first look may have failed")
	u.saw(0, sight{oldest: 1 << 20, later: 1 << 20, started: 1}, now)
	from, started, enough := u.front(now.Add(time.Hour))
	require.True(t, enough)
	require.EqualValues(t, 1, started)
	require.EqualValues(t, 1<<20, from)

	// A transaction writes elsewhere, for long.
	exact := now.Add(settledAfter)
	u.saw(1<<20, sight{oldest: 1 << 20, later: 1<<20 + 50, started: 1}, exact)
	u.saw(1<<20, sight{oldest: 1 << 20, later: 1<<20 + 90, started: 1}, exact.Add(settledAfter))
	exact = exact.Add(settledAfter)
	from, _, enough = u.front(exact.Add(patience - 1))
	require.True(t, enough)
	require.EqualValues(t, 1<<20+50, from)
	_, _, enough = u.front(exact.Add(patience))
	require.False(t, enough)

	u.saw(1<<20, sight{rows: []claimed{{3, 5}}, oldest: 1<<20 + 200, started: 1}, now)
	_, _, enough = u.front(now)
	require.False(t, enough, "one is slow")
}
