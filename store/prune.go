package store

import (
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// DefaultPrune is how many of each kind a Prune removes where its query has no limit.
const DefaultPrune = 500

// PruneQuery selects the things to remove.
type PruneQuery struct {
	// OlderThan is the least age, on the database's clock: since a batch or an order became
	// final, an id was written down or an act was done.
	OlderThan time.Duration
	// Limit is the largest number of each kind. Defaults to [DefaultPrune].
	Limit int
	// Tombstone reports whether the batches of a service leave tombstones, so that a late Add of
	// the same id does not send the batch again. That is so for every ledger on which the batch
	// could take effect again (dlt.Traits.AddAgainHarmless). ledger is the name of the ledger that
	// the store has recorded for the service; "" if it has recorded none ([CanKeepTexts]). With a
	// nil Tombstone no batch leaves one. Tombstone is pure and quick, is called inside the
	// removing transaction, and must not call the store.
	Tombstone func(service batch.ServiceID, ledger string) bool
}

// Bounded returns the query with the defaults of the fields that are not set.
func (q PruneQuery) Bounded() PruneQuery {
	if q.Limit <= 0 {
		q.Limit = DefaultPrune
	}
	if q.Tombstone == nil {
		q.Tombstone = func(batch.ServiceID, string) bool { return false }
	}
	return q
}

// Pruned counts the removals of one Prune by kind.
type Pruned struct {
	Batches, Orders, StreamIDs, LaneActs int
}

// More reports whether the same query may find more to remove: the call reached its limit with
// at least one kind.
func (p Pruned) More(q PruneQuery) bool {
	return max(p.Batches, p.Orders, p.StreamIDs, p.LaneActs) >= q.Bounded().Limit
}
