package position

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// viewer makes reads at times that the test moves.
type viewer struct {
	t   *testing.T
	u   UnderWay
	now time.Time
}

func (v *viewer) begin() Search {
	v.t.Helper()
	l, due := v.u.Due(v.now, false, false)
	require.True(v.t, due)
	return l
}

// look makes the next read, which finds s, on server 1 unless s names another.
func (v *viewer) look(s ReadResult) (from int64, slow []int64) {
	v.t.Helper()
	v.now = v.now.Add(frontReadInterval)
	s.Incarnation = max(s.Incarnation, 1)
	v.u.Saw(v.begin(), s)
	return v.u.Where()
}

// Rows of slow transactions are remembered by number, and later rows are looked for from the
// oldest running transaction on.
func TestUnderWay(t *testing.T) {
	v := &viewer{t: t, now: time.Now()}
	from, slow := v.look(ReadResult{Rows: []Claimed{{7, 30}, {8, 10}}, Oldest: 20, Later: 31})
	require.EqualValues(t, 20, from)
	require.Equal(t, []int64{8}, slow)
	_, due := v.u.Due(v.now.Add(frontReadInterval-1), false, false)
	require.False(t, due)

	// A long transaction that writes anything stops from only for settledAfter.
	from, _ = v.look(ReadResult{Rows: []Claimed{{7, 30}, {8, 10}}, Oldest: 20, Later: 50})
	require.EqualValues(t, 20, from)
	v.now = v.now.Add(settledAfter)
	from, _ = v.look(ReadResult{Rows: []Claimed{{7, 30}, {8, 10}}, Oldest: 20, Later: 60})
	require.EqualValues(t, 31, from, "the next number of the first read")
	v.now = v.now.Add(settledAfter)
	from, slow = v.look(ReadResult{Rows: []Claimed{{7, 30}, {9, 58}}, Oldest: 20, Later: 70})
	require.EqualValues(t, 60, from)
	require.Equal(t, []int64{7, 9}, slow)

	// Too many slow rows are looked for by a common beginning.
	many := ReadResult{Oldest: 10_000, Later: 10_000}
	for i := range int64(MostSlow + 5) {
		many.Rows = append(many.Rows, Claimed{Seq: i + 1, Made: 100 + i})
	}
	from, slow = v.look(many)
	require.EqualValues(t, 100+MostSlow, from)
	require.Len(t, slow, MostSlow)

	// A claim that took longer has made a row above exactFrom. The read from exactFrom finds it.
	v.now = v.u.exactReadAt.Add(allReadInterval)
	require.True(t, v.u.LongReadDue(v.now, false))
	l := v.begin()
	require.EqualValues(t, 100+MostSlow, l.From, "Pending leaves it to Upkeep")
	v.u.Failed(l)
	l, due = v.u.Due(v.now, false, true)
	require.True(t, due)
	require.EqualValues(t, 20, l.From, "the oldest transaction of the last read from there")
	_, due = v.u.Due(v.now.Add(readTimeLimit-1), false, true)
	require.False(t, due, "somebody looks")
	require.False(t, v.u.LongReadDue(v.now, false))
	v.u.Failed(l)
	require.False(t, v.u.LongReadDue(v.now.Add(firstPause-1), false))
	v.now = v.now.Add(firstPause + upkeepFor)
	l = v.begin()
	require.EqualValues(t, 20, l.From, "nobody has called Upkeep for a while")
	v.u.Failed(l)
	require.False(t, v.u.LongReadDue(v.now.Add(2*firstPause-1), false), "the pause doubles")
	v.now = v.now.Add(2 * firstPause)
	require.True(t, v.u.LongReadDue(v.now, false))
	l, _ = v.u.Due(v.now, false, true)
	v.u.Saw(l, ReadResult{Rows: []Claimed{{5, 25}}, Oldest: 20_000, Later: 20_000, Incarnation: 1})
	from, slow = v.u.Where()
	require.EqualValues(t, 20_000, from)
	require.Equal(t, []int64{5}, slow)

	// While from is the number of the oldest transaction, no open row is before it.
	v.now = v.u.wholeReadAt.Add(wholeSearchInterval - 1)
	require.False(t, v.u.LongReadDue(v.now, false))
	require.True(t, v.u.LongReadDue(v.now, true), "a commit may be lost")
	l = v.begin()
	require.EqualValues(t, 20_000, l.From)
	v.u.Saw(l, ReadResult{Oldest: 20_001, Later: 20_001, Incarnation: 1})

	// A read from the beginning is due nevertheless, since a person may restore rows.
	v.now = v.u.wholeReadAt.Add(wholeSearchInterval)
	require.True(t, v.u.LongReadDue(v.now, false))
	l, due = v.u.Due(v.now, false, true)
	require.True(t, due)
	require.Zero(t, l.From)
	v.u.Saw(l, ReadResult{Rows: []Claimed{{6, 3}}, Oldest: 20_002, Later: 20_002, Incarnation: 1})
	from, slow = v.u.Where()
	require.EqualValues(t, 20_002, from)
	require.Equal(t, []int64{6}, slow)
	require.False(t, v.u.LongReadDue(v.now, false))
}

// Another server, and a server that has recovered from a crash, may assign numbers again.
func TestUnderWayOfAnotherServer(t *testing.T) {
	for name, other := range map[string]ReadResult{
		"another server": {Oldest: 3000, Later: 3000, Incarnation: 2},
		"after a crash":  {Oldest: 300, Later: 300, Incarnation: 1},
	} {
		t.Run(name, func(t *testing.T) {
			v := &viewer{t: t, now: time.Now()}
			from, _ := v.look(ReadResult{Rows: []Claimed{{7, 10}}, Oldest: 2000, Later: 2000})
			require.EqualValues(t, 2000, from)
			from, slow := v.look(other)
			require.Zero(t, from)
			require.Empty(t, slow)
			l, due := v.u.Due(v.now, false, false)
			require.True(t, due, "at once")
			other.Rows = []Claimed{{3, 250}}
			v.u.Saw(l, other)
			from, slow = v.u.Where()
			require.Equal(t, other.Oldest, from)
			require.Equal(t, []int64{3}, slow)
		})
	}

	// The first read from the beginning that sees the new incarnation is enough.
	v := &viewer{t: t, now: time.Now(), u: UnderWay{incarnation: 2, highestNext: 50}}
	from, slow := v.look(ReadResult{Rows: []Claimed{{4, 30}}, Oldest: 40, Later: 40, Incarnation: 3})
	require.EqualValues(t, 40, from)
	require.Equal(t, []int64{4}, slow)
}

// A read that does not end delays other reads for readTimeLimit, and does not count when it ends
// later.
func TestALookThatHangs(t *testing.T) {
	v := &viewer{t: t, now: time.Now()}
	hangs := v.begin()
	v.now = v.now.Add(readTimeLimit)
	v.look(ReadResult{Rows: []Claimed{{7, 10}}, Oldest: 2000, Later: 2000})
	v.u.Saw(hangs, ReadResult{Oldest: 1000, Later: 1000, Incarnation: 1})
	v.u.Failed(hangs)
	from, slow := v.u.Where()
	require.EqualValues(t, 2000, from)
	require.Equal(t, []int64{7}, slow)
}

// A quick read is enough only while no row is slow and no long read is overdue.
func TestAQuickLookIsNotEnoughForEver(t *testing.T) {
	v := &viewer{t: t, now: time.Now()}
	_, _, enough := v.u.Front(v.now, false)
	require.False(t, enough, "nobody has looked")
	l := v.begin()
	_, _, enough = v.u.Front(v.now, false)
	require.False(t, enough, "the first read may have failed")
	v.u.Saw(l, ReadResult{Oldest: 1 << 20, Later: 1 << 20, Incarnation: 1})
	from, incarnation, enough := v.u.Front(v.now.Add(wholeSearchInterval+upkeepFor-1), false)
	require.True(t, enough)
	require.EqualValues(t, 1, incarnation)
	require.EqualValues(t, 1<<20, from)
	_, _, enough = v.u.Front(v.now.Add(wholeSearchInterval+upkeepFor), false)
	require.False(t, enough)
	_, _, enough = v.u.Front(v.now.Add(allReadInterval+upkeepFor), true)
	require.False(t, enough, "a commit may be lost")

	// Some transaction writes elsewhere for long.
	v.now = v.now.Add(settledAfter)
	v.look(ReadResult{Oldest: 1 << 20, Later: 1<<20 + 50})
	v.now = v.now.Add(settledAfter)
	v.look(ReadResult{Oldest: 1 << 20, Later: 1<<20 + 90})
	exact := v.now
	from, _, enough = v.u.Front(exact.Add(allReadInterval+upkeepFor-1), false)
	require.True(t, enough)
	require.EqualValues(t, 1<<20+50, from)
	_, _, enough = v.u.Front(exact.Add(allReadInterval+upkeepFor), false)
	require.False(t, enough)

	v.look(ReadResult{Rows: []Claimed{{3, 5}}, Oldest: 1<<20 + 200, Later: 1<<20 + 200})
	_, _, enough = v.u.Front(v.now, false)
	require.False(t, enough, "a row is slow")
}
