package queuer

import (
	"fmt"
	"slices"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/store"
)

// Strategy picks the batches that may leave a lane. Both methods are pure and quick, and may
// be called concurrently. Select runs inside the claiming transaction and must not call the
// store.
type Strategy interface {
	// Window returns how many queued batches of a lane Select wants to see, at least 1.
	Window() int
	// Select returns the runs that may leave now, as positions in the lane. An answer that
	// would break the lane's order holds the lane and is reported.
	Select(lane batch.Lane) []batch.Run
}

// Sparing is a [Strategy] that knows beforehand how many waiting batches it can use, so that
// the store reads no more than that.
type Sparing interface {
	Strategy
	// Wants returns how many waiting batches Select can use beside the lane's attempted
	// batches, which Select always sees. Select picks the same whether it sees this many or
	// more, up to Window. Waiting batches need not come last: an attempted batch that waits
	// again keeps its old place.
	Wants(attempted batch.Lane) int
}

// Serial sends one batch of a lane at a time, and the next only when it is final
// (docs/glossary.md#one-round-serial-queuer, with docs/design.md#decisions: a batch that is
// being submitted, is Valid, or is Invalid and not settled still holds its lane).
type Serial struct{}

// Window returns 1.
func (Serial) Window() int { return 1 }

// Select picks the front of a lane that has nothing under way.
func (Serial) Select(lane batch.Lane) []batch.Run {
	if !idle(lane) || len(lane.Batches) == 0 || !lane.Batches[0].Ready {
		return nil
	}
	return []batch.Run{{0}}
}

// idle reports whether a lane has nothing under way.
func idle(lane batch.Lane) bool {
	for _, b := range lane.Batches {
		if !b.State.Claimable() {
			return false
		}
	}
	return true
}

// Wants returns 1 for a lane that has nothing under way, else 0.
func (Serial) Wants(attempted batch.Lane) int {
	if !idle(attempted) {
		return 0
	}
	return 1 // it may stand before an attempted batch that waits again
}

// Wants wraps the Wants method of a [Sparing] strategy for a store, as [Choose] wraps Select.
// It returns nil for other strategies. If the method panics, the store reads the whole window.
func Wants(s Strategy, keepsOrder func(batch.ServiceID) bool) func(batch.Lane) int {
	sparing, ok := s.(Sparing)
	if !ok {
		return nil
	}
	keeps := keeping(s, keepsOrder)
	return func(lane batch.Lane) (n int) {
		if err := loop.Contain(func() error {
			lane.KeepsOrder = keeps(lane.Service)
			n = sparing.Wants(lane)
			return nil
		}); err != nil {
			return s.Window()
		}
		return n
	}
}

// Choose wraps a strategy for a store. An answer that fails [batch.Lane.Check], or a panic,
// picks nothing and is reported. keepsOrder is dlt.Traits.KeepsOrder of a service's ledger;
// nil means that no ledger keeps order.
func Choose(s Strategy, keepsOrder func(batch.ServiceID) bool, report func(batch.ServiceID, error)) store.Choose {
	keeps := keeping(s, keepsOrder)
	sets := new(scratch)
	show := clone // the strategy must not change the lane that Choose checks and the store uses
	switch own := s.(type) {
	case Serial, Pipelined:
		show = as
	case *Parallel:
		show, sets = as, &own.sets // the memory that Select has just used, while it is in the CPU's cache
	}
	return func(lane batch.Lane) (runs []batch.Run) {
		before := sets.take()
		err := loop.Contain(func() error {
			lane.KeepsOrder = keeps(lane.Service)
			runs = s.Select(show(lane))
			return lane.CheckIn(before, runs)
		})
		sets.put(before)
		if err != nil {
			report(lane.Service, fmt.Errorf("strategy: %w", err))
			return nil
		}
		return runs
	}
}

// keeping returns a function that reports whether a service's ledger keeps order; it is always
// false for a strategy that does not rely on order.
func keeping(s Strategy, keepsOrder func(batch.ServiceID) bool) func(batch.ServiceID) bool {
	reliant := ReliesOnOrder(s)
	return func(service batch.ServiceID) bool {
		return reliant && keepsOrder != nil && keepsOrder(service)
	}
}

// as shows a lane to the strategies of this package, which do not change it.
func as(lane batch.Lane) batch.Lane { return lane }

// clone returns a lane that shares no memory with the given one.
func clone(lane batch.Lane) batch.Lane {
	lane.Batches = slices.Clone(lane.Batches)
	for i := range lane.Batches {
		f := &lane.Batches[i].Footprint
		f.Reads, f.Writes = slices.Clone(f.Reads), slices.Clone(f.Writes)
	}
	return lane
}
