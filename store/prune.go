package store

import (
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// DefaultPrune is how many of each kind a Prune removes whose query has no limit.
const DefaultPrune = 500

// PruneQuery says what to remove.
type PruneQuery struct {
	// OlderThan is how long ago a batch or an order must have become final, an id been
	// written down or an act been done, on the database's clock.
	OlderThan time.Duration
	// Limit is how many of each kind at most. Defaults to [DefaultPrune].
	Limit int
	// Tombstone says for a service whether (key, hash) of its batches are kept, so that a
	// late Add of the same id does not send it again: for ledgers where a resend is not
	// harmless for ever. nil keeps none. It is pure and quick, runs inside the removing
	// transaction, and must not call the store.
	Tombstone func(batch.ServiceID) bool
}

// Bounded is the query with its defaults.
func (q PruneQuery) Bounded() PruneQuery {
	if q.Limit <= 0 {
		q.Limit = DefaultPrune
	}
	if q.Tombstone == nil {
		q.Tombstone = func(batch.ServiceID) bool { return false }
	}
	return q
}

// Pruned is how many of each kind one Prune removed.
type Pruned struct {
	Batches, Orders, StreamIDs, LaneActs int
}

// More reports whether there may be more to remove by the same query: the call came to its
// limit with one kind at least.
func (p Pruned) More(q PruneQuery) bool {
	return max(p.Batches, p.Orders, p.StreamIDs, p.LaneActs) >= q.Bounded().Limit
}
