package postgres

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What is slow is known one by one, and what may have been made since is looked for from
// where the oldest transaction began.
func TestUnderWay(t *testing.T) {
	var u underWay
	now := time.Now()
	look := func(s sight) (int64, []int64) {
		t.Helper()
		now = now.Add(lookAgain)
		from, _, due := u.due(now)
		require.True(t, due)
		s.started = max(s.started, 1)
		u.saw(from, s, now)
		return u.where()
	}
	from, slow := look(sight{rows: []claimed{{7, 30}, {8, 10}}, oldest: 20, later: 31})
	require.EqualValues(t, 20, from)
	require.Equal(t, []int64{8}, slow)
	_, _, due := u.due(now.Add(lookAgain - 1))
	require.False(t, due)

	// A transaction that writes somewhere for long holds it up for no longer than it must.
	from, slow = look(sight{rows: []claimed{{7, 30}, {8, 10}}, oldest: 20, later: 50})
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

	// All is looked at now and then.
	now = u.all.Add(lookAtAll)
	from, slow, due = u.due(now)
	require.True(t, due)
	require.Zero(t, from)
	require.Empty(t, slow)
	u.saw(from, sight{oldest: 20_000, started: 1}, now)
	from, slow = u.where()
	require.EqualValues(t, 20_000, from)
	require.Empty(t, slow)

	// Another server may give out numbers again.
	from, _ = look(sight{oldest: 300, started: 2})
	require.Zero(t, from)
	from, slow = look(sight{rows: []claimed{{3, 250}}, oldest: 300, started: 2})
	require.EqualValues(t, 300, from)
	require.Equal(t, []int64{3}, slow)
}
