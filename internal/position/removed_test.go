package position

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// While few rows were removed, each read begins at the beginning, so that it misses none. After
// many, a read begins at the last removed row; from time to time, and after the clock has stepped
// back, it begins at the beginning.
func TestRemovedRows(t *testing.T) {
	var o RemovedRows
	now := time.Now()
	const until = 10_000
	require.Equal(t, int64(math.MinInt64), o.From(until, now))
	o.Found(cheapRemoved-1, 0)
	o.Found(0, 0)
	require.Equal(t, int64(math.MinInt64), o.From(until, now))
	o.Found(2, 700)
	require.Equal(t, int64(700), o.From(until, now.Add(allReadInterval-1)), "the last one's equals may be left")
	require.Equal(t, int64(math.MinInt64), o.From(until, now.Add(allReadInterval)))
	require.Equal(t, int64(700), o.From(until, now.Add(allReadInterval+1)))
	require.Equal(t, int64(math.MinInt64), o.From(699, now.Add(allReadInterval+2)), "the clock was set back")
	require.Equal(t, int64(700), o.From(700, now.Add(allReadInterval+3)))
}
