package postgres

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// viewer makes looks at a time that it moves.
type viewer struct {
	t   *testing.T
	u   underWay
	now time.Time
}

func (v *viewer) begin() look {
	v.t.Helper()
	l, due := v.u.due(v.now, false, false)
	require.True(v.t, due)
	return l
}

// look makes the next look, which sees s, on server 1 or on the server of s.
func (v *viewer) look(s sight) (from int64, slow []int64) {
	v.t.Helper()
	v.now = v.now.Add(lookAgain)
	s.started = max(s.started, 1)
	v.u.saw(v.begin(), s)
	return v.u.where()
}

// Rows of slow transactions are known one by one, and later rows are looked for from the
// oldest running transaction on.
func TestUnderWay(t *testing.T) {
	v := &viewer{t: t, now: time.Now()}
	from, slow := v.look(sight{rows: []claimed{{7, 30}, {8, 10}}, oldest: 20, later: 31})
	require.EqualValues(t, 20, from)
	require.Equal(t, []int64{8}, slow)
	_, due := v.u.due(v.now.Add(lookAgain-1), false, false)
	require.False(t, due)

	// A transaction that writes somewhere for long holds it up for no longer than it must.
	from, _ = v.look(sight{rows: []claimed{{7, 30}, {8, 10}}, oldest: 20, later: 50})
	require.EqualValues(t, 20, from)
	v.now = v.now.Add(settledAfter)
	from, _ = v.look(sight{rows: []claimed{{7, 30}, {8, 10}}, oldest: 20, later: 60})
	require.EqualValues(t, 31, from, "the next number of the first look")
	v.now = v.now.Add(settledAfter)
	from, slow = v.look(sight{rows: []claimed{{7, 30}, {9, 58}}, oldest: 20, later: 70})
	require.EqualValues(t, 60, from)
	require.Equal(t, []int64{7, 9}, slow)

	// Many are looked for together.
	many := sight{oldest: 10_000, later: 10_000}
	for i := range int64(mostSlow + 5) {
		many.rows = append(many.rows, claimed{seq: i + 1, made: 100 + i})
	}
	from, slow = v.look(many)
	require.EqualValues(t, 100+mostSlow, from)
	require.Len(t, slow, mostSlow)

	// A claim that took longer made a row above exact, and is found from there.
	v.now = v.u.all.Add(lookAtAll)
	require.True(t, v.u.late(v.now, false))
	l := v.begin()
	require.EqualValues(t, 100+mostSlow, l.from, "Pending leaves it to Upkeep")
	v.u.failed(l)
	l, due = v.u.due(v.now, false, true)
	require.True(t, due)
	require.EqualValues(t, 20, l.from, "the oldest transaction of the last look from there")
	_, due = v.u.due(v.now.Add(lookFor-1), false, true)
	require.False(t, due, "somebody looks")
	require.False(t, v.u.late(v.now, false))
	v.u.failed(l)
	require.False(t, v.u.late(v.now.Add(firstPause-1), false))
	v.now = v.now.Add(firstPause + upkeepFor)
	l = v.begin()
	require.EqualValues(t, 20, l.from, "nobody has called Upkeep for a while")
	v.u.failed(l)
	require.False(t, v.u.late(v.now.Add(2*firstPause-1), false), "the pause doubles")
	v.now = v.now.Add(2 * firstPause)
	require.True(t, v.u.late(v.now, false))
	l, _ = v.u.due(v.now, false, true)
	v.u.saw(l, sight{rows: []claimed{{5, 25}}, oldest: 20_000, later: 20_000, started: 1})
	from, slow = v.u.where()
	require.EqualValues(t, 20_000, from)
	require.Equal(t, []int64{5}, slow)

	// While from comes from the oldest transaction no open row is in front of it.
	v.now = v.u.whole.Add(lookWhole - 1)
	require.False(t, v.u.late(v.now, false))
	require.True(t, v.u.late(v.now, true), "a commit may be lost")
	l = v.begin()
	require.EqualValues(t, 20_000, l.from)
	v.u.saw(l, sight{oldest: 20_001, later: 20_001, started: 1})

	// But a person may restore rows.
	v.now = v.u.whole.Add(lookWhole)
	require.True(t, v.u.late(v.now, false))
	l, due = v.u.due(v.now, false, true)
	require.True(t, due)
	require.Zero(t, l.from)
	v.u.saw(l, sight{rows: []claimed{{6, 3}}, oldest: 20_002, later: 20_002, started: 1})
	from, slow = v.u.where()
	require.EqualValues(t, 20_002, from)
	require.Equal(t, []int64{6}, slow)
	require.False(t, v.u.late(v.now, false))
}

// Another server, and one that recovered from a crash, may give out numbers again.
func TestUnderWayOfAnotherServer(t *testing.T) {
	for name, other := range map[string]sight{
		"another server": {oldest: 3000, later: 3000, started: 2},
		"after a crash":  {oldest: 300, later: 300, started: 1},
	} {
		t.Run(name, func(t *testing.T) {
			v := &viewer{t: t, now: time.Now()}
			from, _ := v.look(sight{rows: []claimed{{7, 10}}, oldest: 2000, later: 2000})
			require.EqualValues(t, 2000, from)
			from, slow := v.look(other)
			require.Zero(t, from)
			require.Empty(t, slow)
			l, due := v.u.due(v.now, false, false)
			require.True(t, due, "at once")
			other.rows = []claimed{{3, 250}}
			v.u.saw(l, other)
			from, slow = v.u.where()
			require.Equal(t, other.oldest, from)
			require.Equal(t, []int64{3}, slow)
		})
	}

	// The first look from the beginning that sees it is enough.
	v := &viewer{t: t, now: time.Now(), u: underWay{started: 2, later: 50}}
	from, slow := v.look(sight{rows: []claimed{{4, 30}}, oldest: 40, later: 40, started: 3})
	require.EqualValues(t, 40, from)
	require.Equal(t, []int64{4}, slow)
}

// A look that does not end holds up others for a while, and does not count when it ends later.
func TestALookThatHangs(t *testing.T) {
	v := &viewer{t: t, now: time.Now()}
	hangs := v.begin()
	v.now = v.now.Add(lookFor)
	v.look(sight{rows: []claimed{{7, 10}}, oldest: 2000, later: 2000})
	v.u.saw(hangs, sight{oldest: 1000, later: 1000, started: 1})
	v.u.failed(hangs)
	from, slow := v.u.where()
	require.EqualValues(t, 2000, from)
	require.Equal(t, []int64{7}, slow)
}

// A quick look is enough where no row is slow and no long look is overdue.
func TestAQuickLookIsNotEnoughForEver(t *testing.T) {
	v := &viewer{t: t, now: time.Now()}
	_, _, enough := v.u.front(v.now, false)
	require.False(t, enough, "nobody has looked")
	l := v.begin()
	_, _, enough = v.u.front(v.now, false)
	require.False(t, enough, "the first look may have failed")
	v.u.saw(l, sight{oldest: 1 << 20, later: 1 << 20, started: 1})
	from, started, enough := v.u.front(v.now.Add(lookWhole+upkeepFor-1), false)
	require.True(t, enough)
	require.EqualValues(t, 1, started)
	require.EqualValues(t, 1<<20, from)
	_, _, enough = v.u.front(v.now.Add(lookWhole+upkeepFor), false)
	require.False(t, enough)
	_, _, enough = v.u.front(v.now.Add(lookAtAll+upkeepFor), true)
	require.False(t, enough, "a commit may be lost")

	// Somebody writes elsewhere, for long.
	v.now = v.now.Add(settledAfter)
	v.look(sight{oldest: 1 << 20, later: 1<<20 + 50})
	v.now = v.now.Add(settledAfter)
	v.look(sight{oldest: 1 << 20, later: 1<<20 + 90})
	exact := v.now
	from, _, enough = v.u.front(exact.Add(lookAtAll+upkeepFor-1), false)
	require.True(t, enough)
	require.EqualValues(t, 1<<20+50, from)
	_, _, enough = v.u.front(exact.Add(lookAtAll+upkeepFor), false)
	require.False(t, enough)

	v.look(sight{rows: []claimed{{3, 5}}, oldest: 1<<20 + 200, later: 1<<20 + 200})
	_, _, enough = v.u.front(v.now, false)
	require.False(t, enough, "a row is slow")
}
