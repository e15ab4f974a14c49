package position

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// searcher makes reads at times that the test moves.
type searcher struct {
	t        *testing.T
	underWay UnderWay
	now      time.Time
}

func (v *searcher) beginSearch() Search {
	v.t.Helper()
	l, due := v.underWay.Due(v.now, false, false)
	require.True(v.t, due)
	return l
}

// search makes the next read, which finds s, on server 1 unless s names another.
func (v *searcher) search(s ReadResult) (from int64, slow []int64) {
	v.t.Helper()
	v.now = v.now.Add(frontReadInterval)
	s.Incarnation = max(s.Incarnation, 1)
	v.underWay.Saw(v.beginSearch(), s)
	return v.underWay.Where()
}

// Rows of slow transactions are remembered by number, and later rows are looked for from the
// oldest running transaction on.
func TestUnderWay(t *testing.T) {
	v := &searcher{t: t, now: time.Now()}
	from, slow := v.search(ReadResult{Rows: []NumberedRow{{7, 30}, {8, 10}}, OldestRunning: 20, NextNumber: 31})
	require.EqualValues(t, 20, from)
	require.Equal(t, []int64{8}, slow)
	_, due := v.underWay.Due(v.now.Add(frontReadInterval-1), false, false)
	require.False(t, due)

	// A long transaction that writes anything stops from only for settledAfter.
	from, _ = v.search(ReadResult{Rows: []NumberedRow{{7, 30}, {8, 10}}, OldestRunning: 20, NextNumber: 50})
	require.EqualValues(t, 20, from)
	v.now = v.now.Add(settledAfter)
	from, _ = v.search(ReadResult{Rows: []NumberedRow{{7, 30}, {8, 10}}, OldestRunning: 20, NextNumber: 60})
	require.EqualValues(t, 31, from, "the next number of the first read")
	v.now = v.now.Add(settledAfter)
	from, slow = v.search(ReadResult{Rows: []NumberedRow{{7, 30}, {9, 58}}, OldestRunning: 20, NextNumber: 70})
	require.EqualValues(t, 60, from)
	require.Equal(t, []int64{7, 9}, slow)

	// Too many slow rows are looked for by a common beginning.
	many := ReadResult{OldestRunning: 10_000, NextNumber: 10_000}
	for i := range int64(MostSlow + 5) {
		many.Rows = append(many.Rows, NumberedRow{Seq: i + 1, MadeBy: 100 + i})
	}
	from, slow = v.search(many)
	require.EqualValues(t, 100+MostSlow, from)
	require.Len(t, slow, MostSlow)

	// A claim that took longer has made a row above exactReadFrom. The read from exactReadFrom
	// finds it.
	v.now = v.underWay.exactReadAt.Add(allReadInterval)
	require.True(t, v.underWay.LongReadDue(v.now, false))
	l := v.beginSearch()
	require.EqualValues(t, 100+MostSlow, l.From, "Pending leaves it to Upkeep")
	v.underWay.Failed(l)
	l, due = v.underWay.Due(v.now, false, true)
	require.True(t, due)
	require.EqualValues(t, 20, l.From, "the oldest transaction of the last read from there")
	_, due = v.underWay.Due(v.now.Add(readTimeLimit-1), false, true)
	require.False(t, due, "somebody looks")
	require.False(t, v.underWay.LongReadDue(v.now, false))
	v.underWay.Failed(l)
	require.False(t, v.underWay.LongReadDue(v.now.Add(firstLongReadPause-1), false))
	v.now = v.now.Add(firstLongReadPause + upkeepValidFor)
	l = v.beginSearch()
	require.EqualValues(t, 20, l.From, "nobody has called Upkeep for a while")
	v.underWay.Failed(l)
	require.False(t, v.underWay.LongReadDue(v.now.Add(2*firstLongReadPause-1), false), "the pause doubles")
	v.now = v.now.Add(2 * firstLongReadPause)
	require.True(t, v.underWay.LongReadDue(v.now, false))
	l, _ = v.underWay.Due(v.now, false, true)
	v.underWay.Saw(l, ReadResult{Rows: []NumberedRow{{5, 25}}, OldestRunning: 20_000, NextNumber: 20_000, Incarnation: 1})
	from, slow = v.underWay.Where()
	require.EqualValues(t, 20_000, from)
	require.Equal(t, []int64{5}, slow)

	// While from is the number of the oldest transaction, no open row is before it.
	v.now = v.underWay.wholeReadAt.Add(wholeSearchInterval - 1)
	require.False(t, v.underWay.LongReadDue(v.now, false))
	require.True(t, v.underWay.LongReadDue(v.now, true), "a commit may be lost")
	l = v.beginSearch()
	require.EqualValues(t, 20_000, l.From)
	v.underWay.Saw(l, ReadResult{OldestRunning: 20_001, NextNumber: 20_001, Incarnation: 1})

	// A read from the beginning is due nevertheless, since a person may restore rows.
	v.now = v.underWay.wholeReadAt.Add(wholeSearchInterval)
	require.True(t, v.underWay.LongReadDue(v.now, false))
	l, due = v.underWay.Due(v.now, false, true)
	require.True(t, due)
	require.Zero(t, l.From)
	v.underWay.Saw(l, ReadResult{Rows: []NumberedRow{{6, 3}}, OldestRunning: 20_002, NextNumber: 20_002, Incarnation: 1})
	from, slow = v.underWay.Where()
	require.EqualValues(t, 20_002, from)
	require.Equal(t, []int64{6}, slow)
	require.False(t, v.underWay.LongReadDue(v.now, false))
}

// Another server, and a server that has recovered from a crash, may assign numbers again.
func TestUnderWayOfAnotherServer(t *testing.T) {
	for name, other := range map[string]ReadResult{
		"another server": {OldestRunning: 3000, NextNumber: 3000, Incarnation: 2},
		"after a crash":  {OldestRunning: 300, NextNumber: 300, Incarnation: 1},
	} {
		t.Run(name, func(t *testing.T) {
			v := &searcher{t: t, now: time.Now()}
			from, _ := v.search(ReadResult{Rows: []NumberedRow{{7, 10}}, OldestRunning: 2000, NextNumber: 2000})
			require.EqualValues(t, 2000, from)
			from, slow := v.search(other)
			require.Zero(t, from)
			require.Empty(t, slow)
			l, due := v.underWay.Due(v.now, false, false)
			require.True(t, due, "at once")
			other.Rows = []NumberedRow{{3, 250}}
			v.underWay.Saw(l, other)
			from, slow = v.underWay.Where()
			require.Equal(t, other.OldestRunning, from)
			require.Equal(t, []int64{3}, slow)
		})
	}

	// The first read from the beginning that sees the new incarnation is enough.
	v := &searcher{t: t, now: time.Now(), underWay: UnderWay{incarnation: 2, highestNext: 50}}
	from, slow := v.search(ReadResult{Rows: []NumberedRow{{4, 30}}, OldestRunning: 40, NextNumber: 40, Incarnation: 3})
	require.EqualValues(t, 40, from)
	require.Equal(t, []int64{4}, slow)
}

// A read that does not end delays other reads for readTimeLimit, and does not count when it ends
// later.
func TestAReadThatHangs(t *testing.T) {
	v := &searcher{t: t, now: time.Now()}
	hangs := v.beginSearch()
	v.now = v.now.Add(readTimeLimit)
	v.search(ReadResult{Rows: []NumberedRow{{7, 10}}, OldestRunning: 2000, NextNumber: 2000})
	v.underWay.Saw(hangs, ReadResult{OldestRunning: 1000, NextNumber: 1000, Incarnation: 1})
	v.underWay.Failed(hangs)
	from, slow := v.underWay.Where()
	require.EqualValues(t, 2000, from)
	require.Equal(t, []int64{7}, slow)
}

// A quick read is enough only while no row is slow and no long read is overdue.
func TestAQuickReadIsNotEnoughForEver(t *testing.T) {
	v := &searcher{t: t, now: time.Now()}
	_, _, enough := v.underWay.Front(v.now, false)
	require.False(t, enough, "nobody has looked")
	l := v.beginSearch()
	_, _, enough = v.underWay.Front(v.now, false)
	require.False(t, enough, "the first read may have failed")
	v.underWay.Saw(l, ReadResult{OldestRunning: 1 << 20, NextNumber: 1 << 20, Incarnation: 1})
	from, incarnation, enough := v.underWay.Front(v.now.Add(wholeSearchInterval+upkeepValidFor-1), false)
	require.True(t, enough)
	require.EqualValues(t, 1, incarnation)
	require.EqualValues(t, 1<<20, from)
	_, _, enough = v.underWay.Front(v.now.Add(wholeSearchInterval+upkeepValidFor), false)
	require.False(t, enough)
	_, _, enough = v.underWay.Front(v.now.Add(allReadInterval+upkeepValidFor), true)
	require.False(t, enough, "a commit may be lost")

	// Some transaction writes elsewhere for long.
	v.now = v.now.Add(settledAfter)
	v.search(ReadResult{OldestRunning: 1 << 20, NextNumber: 1<<20 + 50})
	v.now = v.now.Add(settledAfter)
	v.search(ReadResult{OldestRunning: 1 << 20, NextNumber: 1<<20 + 90})
	exact := v.now
	from, _, enough = v.underWay.Front(exact.Add(allReadInterval+upkeepValidFor-1), false)
	require.True(t, enough)
	require.EqualValues(t, 1<<20+50, from)
	_, _, enough = v.underWay.Front(exact.Add(allReadInterval+upkeepValidFor), false)
	require.False(t, enough)

	v.search(ReadResult{Rows: []NumberedRow{{3, 5}}, OldestRunning: 1<<20 + 200, NextNumber: 1<<20 + 200})
	_, _, enough = v.underWay.Front(v.now, false)
	require.False(t, enough, "a row is slow")
}
