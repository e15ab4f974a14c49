package postgres

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/internal/sqlstore"
)

// A look for few rows begins at the beginning, so that it misses none; a look for many begins
// at the last removed row, except now and then, and after a clock stepped back.
func TestOldest(t *testing.T) {
	var o oldest
	now := time.Now()
	const until = 10_000
	require.Equal(t, int64(math.MinInt64), o.from(until, now))
	o.found(make([]sqlstore.Aged, fewRemoved-1))
	o.found(nil)
	require.Equal(t, int64(math.MinInt64), o.from(until, now))
	o.found([]sqlstore.Aged{{Seq: 1, At: 500}, {Seq: 2, At: 700}})
	require.Equal(t, int64(700), o.from(until, now.Add(lookAtAll-1)), "the last one's equals may be left")
	require.Equal(t, int64(math.MinInt64), o.from(until, now.Add(lookAtAll)))
	require.Equal(t, int64(700), o.from(until, now.Add(lookAtAll+1)))
	require.Equal(t, int64(math.MinInt64), o.from(699, now.Add(lookAtAll+2)), "the clock was set back")
	require.Equal(t, int64(700), o.from(700, now.Add(lookAtAll+3)))
}
