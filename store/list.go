package store

import (
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// ListQuery selects records; zero fields select all.
type ListQuery struct {
	Service *batch.ServiceID
	States  []batch.State
	// Open selects batches that are not final, in any state.
	Open bool
	// Quarantined selects batches that a policy set aside. The cost grows with their number.
	Quarantined bool
	// OlderThan and NewerThan bound the age, counted from CreatedAt on the database's clock:
	// at least OlderThan, and less than NewerThan. 0 is no bound.
	OlderThan, NewerThan time.Duration
	// Tag selects the batches that were added with this tag, by an index. A Tag without a name
	// selects the batches that have the value under any name. The cost grows only with the batches
	// that have the tag. The zero value selects all; a bad tag gives a [*batch.InputError].
	Tag batch.Tag
	// NewestFirst lists the latest order keys first; a cursor then goes on to earlier ones.
	NewestFirst bool
	// Limit is the largest number of records. Defaults to 100, at most 1,000. A page has fewer
	// records if they have more than [MaxListReceipts] receipts; its cursor goes on after them.
	Limit int
	// After goes on from an earlier call's cursor.
	After Cursor
}

// Bounded returns the query with a limit: the default if it has none, and at most the maximum.
func (q ListQuery) Bounded() ListQuery {
	q.Limit = boundedLimit(q.Limit, 100, 1000)
	return q
}

// Validate reports whether the query can be answered. The error is a [*batch.InputError].
func (q ListQuery) Validate() error {
	if q.Tag == (batch.Tag{}) {
		return nil
	}
	return q.Tag.Validate()
}

// MaxListReceipts is the largest number of receipts in the records of one page, not counting those
// of its first record. With [MaxReceiptData] it bounds the bytes of a page.
const MaxListReceipts = 1000

// Cut returns how many of the first records of a list make one page: at most q.Limit of a bounded
// query, and at least one. receipts are the numbers of receipts of the records.
func (q ListQuery) Cut(receipts []int64) int {
	var total int64
	for n, count := range receipts {
		if total += count; n > 0 && (n >= q.Limit || total > MaxListReceipts) {
			return n
		}
	}
	return len(receipts)
}

// CountsQuery selects lanes to count; the zero value begins after the service "".
type CountsQuery struct {
	// Service selects this lane only.
	Service *batch.ServiceID
	// After is the last service of the previous call. Start means that there was no previous call,
	// because the service "" is a service like any other.
	After batch.ServiceID
	Start bool
	// Limit is how many lanes at most. Defaults to 100, at most 1,000.
	Limit int
	// Cap bounds the count of waiting batches in each lane. Defaults to 1,000, at most
	// 100,000.
	Cap int
}

// Bounded returns the query with Limit and Cap: each is the default if it is not set, and at most
// its maximum.
func (q CountsQuery) Bounded() CountsQuery {
	q.Limit, q.Cap = boundedLimit(q.Limit, 100, 1000), boundedLimit(q.Cap, 1000, 100_000)
	return q
}

// boundedLimit returns n, at most highest. If n is not positive it returns byDefault.
func boundedLimit(n, byDefault, highest int) int {
	if n <= 0 {
		return byDefault
	}
	return min(n, highest)
}

// LaneCounts are the open batches of one lane.
type LaneCounts struct {
	Service batch.ServiceID `json:"service"`
	// Attempted counts the open batches that were ever claimed, by state. It has no states without
	// batches.
	Attempted map[batch.State]int `json:"attempted"`
	// Waiting counts the open batches that were never claimed.
	// Where it equals the query's Cap there may be more.
	Waiting int `json:"waiting"`
}
