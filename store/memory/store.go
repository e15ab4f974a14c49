// Package memory is a store that keeps everything in the process: for tests, simulations and
// programs that can afford to lose its contents. It behaves like the database drivers in
// everything except durability, and passes the same suite (store/storetest).
package memory

import (
	"context"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store"
)

var (
	_ store.Store = (*Store)(nil)
	_ order.Store = (*Store)(nil)
)

// Store is a [store.Store] in memory. All methods may be called concurrently; only one of them
// runs at a time. Only an Add waits for something else: for a [Tx] that has one of its ids. A
// method whose context is already done returns the context's error and changes nothing.
//
// Its clock is [time.Now], so under testing/synctest it uses the bubble's time. The same calls at
// the same times give the same results.
type Store struct {
	mu     sync.Mutex
	offset time.Duration // how far the store's clock is ahead of time.Now: see StepClock

	lastNumber         int64 // the number of the last entry
	byID               map[batch.ID]*entry
	byChange           map[dataChangeKey]*entry // the batches that have a DataChangeID
	lanes              map[batch.ServiceID]*lane
	openLaneNames      queueNames[*lane]
	all                list[*entry]             // in the order of their keys; List reads it
	byTag              map[string]*list[*entry] // the batches by the value of a tag, in the order of all
	final              list[*entry]             // the final batches that are not in quarantine, by the time they became final; Prune reads it
	inFlight           map[batch.ID]*entry
	tombstones         map[batch.ID]*tombstone
	tombstonesByChange map[dataChangeKey]*tombstone // the tombstones that have a DataChangeID

	controls map[batch.Scope]batch.Control // the controls that are or were set
	laneActs map[batch.Scope][]batch.Act

	streams map[string]*stream
	log     []loggedID // the ids of all streams, in the order in which they were written

	listeners []*store.Listener // in the order in which they began to listen

	orders orders
	texts  map[store.TextKind]map[string]store.Text // texts by kind and name

	openTxs map[*Tx]bool
}

// New returns an empty store. There is nothing to close.
func New() *Store {
	return &Store{
		byID:               map[batch.ID]*entry{},
		byChange:           map[dataChangeKey]*entry{},
		lanes:              map[batch.ServiceID]*lane{},
		all:                list[*entry]{before: isEarlierInOrder},
		byTag:              map[string]*list[*entry]{},
		final:              list[*entry]{before: isEarlierFinal},
		inFlight:           map[batch.ID]*entry{},
		tombstones:         map[batch.ID]*tombstone{},
		tombstonesByChange: map[dataChangeKey]*tombstone{},
		controls:           map[batch.Scope]batch.Control{},
		laneActs:           map[batch.Scope][]batch.Act{},
		streams:            map[string]*stream{},
		orders:             newOrders(),
		texts:              map[store.TextKind]map[string]store.Text{},
		openTxs:            map[*Tx]bool{},
	}
}

// Abilities returns all abilities.
func (s *Store) Abilities() store.Abilities { return store.AllAbilities }

// Upkeep does nothing and returns no warnings.
func (s *Store) Upkeep(context.Context) ([]store.Warning, error) { return nil, nil }

// StepClock moves the store's clock by d, forwards or back, as a database's clock may jump:
// for tests. The process's clock, [time.Now], stays as it is.
func (s *Store) StepClock(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offset += d
}

// now returns the store's clock, to the microsecond as in the databases. s.mu is held.
func (s *Store) now() time.Time {
	return time.Now().Add(s.offset).UTC().Truncate(time.Microsecond)
}
