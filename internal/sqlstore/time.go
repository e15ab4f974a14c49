package sqlstore

import (
	"math"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Times are columns of microseconds since 1970 in UTC; 0 is no time.

// ToMicro returns the value of the column for a time.
func ToMicro(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// FromMicro returns the time in a column.
func FromMicro(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// NeverDue is later than any time.
const NeverDue = math.MaxInt64

// Ahead returns q.Ahead in microseconds. If q.Ahead is 0 it returns a century, which is longer
// than the time until any check.
func Ahead(q store.PendingQuery) int64 {
	if q.Ahead <= 0 {
		return (100 * 365 * 24 * time.Hour).Microseconds()
	}
	return q.Ahead.Microseconds()
}

// DueAt returns the time at which the monitor asks about a row: its next check, and not before the
// end of a claim whose attempt has no report. It is [NeverDue] for a row that is not the
// monitor's.
func DueAt(r store.Row) int64 {
	switch {
	case r.State == batch.Submitting && !r.ClaimExpires.Equal(r.LastPost):
		return max(ToMicro(r.NextCheck), ToMicro(r.ClaimExpires))
	case r.Monitored(r.NextCheck): // true for the row's state at any time
		return ToMicro(r.NextCheck)
	}
	return NeverDue
}
