package queuer

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/store"
)

// Strategy picks the batches that may leave a lane: data and pure functions. [Serial], [Pipelined]
// and [Parallel] make the strategies of this package; one of your own is a Strategy with its own
// name. The functions are quick, and may be called concurrently. They run inside the claiming
// transaction, and must not call the store.
type Strategy struct {
	// Name is for logs, errors and the record of an instance's settings. It must differ from the
	// names of this package's strategies.
	Name string
	// Window is how many queued batches of a lane Select wants to see, at least 1.
	Window int
	// Select returns the runs that may leave now, as positions in the lane. An answer that
	// would break the lane's order holds the lane and is reported.
	Select func(lane batch.Lane) []batch.Run
	// Wants returns how many waiting batches Select can use beside the lane's attempted
	// batches, which Select always sees, so that the store reads no more than that. Select picks
	// the same whether it sees this many or more, up to Window. Waiting batches need not come
	// last: an attempted batch that waits again keeps its old place. nil means always the whole
	// window.
	Wants func(attempted batch.Lane) int
	// ReliesOnOrder is true if batches may leave before the batches ahead of them are final,
	// because the ledger keeps the order of submission. The lanes that Select sees tell whether
	// their ledger does (batch.Lane.KeepsOrder). The queuer leaves a lane alone until every batch
	// of its last run has an answer.
	ReliesOnOrder bool

	builtin builtin
}

// builtin has this package's facts about its own strategies. They change no answer.
type builtin struct {
	selectAddress uintptr // address of this package's Select; 0 for a strategy of another package
	isSerial      bool
	sets          *footprintSets // the sets that Select uses
}

// markBuiltin records that Select is this package's.
func markBuiltin(s Strategy) Strategy {
	s.builtin.selectAddress = reflect.ValueOf(s.Select).Pointer()
	return s
}

// isBuiltin reports whether Select is this package's. The application may have set another Select
// in a copy of a strategy of this package, and nothing is known about that.
func (s Strategy) isBuiltin() bool {
	return s.builtin.selectAddress != 0 && s.builtin.selectAddress == reflect.ValueOf(s.Select).Pointer()
}

// Check returns a [*batch.InputError] for a strategy that cannot work.
func (s Strategy) Check() error {
	switch {
	case s.Name == "" || !s.isBuiltin() && (s.Name == nameSerial || s.Name == namePipelined || s.Name == nameParallel):
		return &batch.InputError{Field: "Strategy.Name", Value: s.Name, Want: "a name, and not one of package queuer's"}
	case s.Window < 1:
		return &batch.InputError{Field: "Strategy.Window", Value: fmt.Sprint(s.Window), Want: "at least 1"}
	case s.Select == nil:
		return &batch.InputError{Field: "Strategy.Select", Value: "nil", Want: "a func"}
	}
	return batch.CheckText("Strategy.Name", s.Name, batch.MaxIDLen)
}

// OneRun reports whether no other batch of a lane leaves while a run of it is out.
func (s Strategy) OneRun() bool { return s.isBuiltin() && s.builtin.isSerial || s.ReliesOnOrder }

// The names of this package's strategies. They are stored.
const (
	nameSerial    = "serial"
	namePipelined = "pipelined"
	nameParallel  = "parallel"
)

// Named returns the strategy of this package with a name and a window, as another process recorded
// them; ok is false for any other name.
func Named(name string, window int) (s Strategy, ok bool) {
	switch {
	case window < 1:
		return s, false
	case name == nameSerial:
		return Serial(), true
	case name == namePipelined:
		return Pipelined(window), true
	case name == nameParallel:
		return Parallel(window), true
	}
	return s, false
}

// Serial sends one batch of a lane at a time, and the next only when it is final
// (docs/glossary.md#one-round-serial-queuer, with docs/design.md#decisions: a batch that is
// being submitted, is Valid, or is Invalid and not settled still holds its lane).
func Serial() Strategy {
	return markBuiltin(Strategy{Name: nameSerial, Window: 1, Select: selectSerial, Wants: serialWants, builtin: builtin{isSerial: true}})
}

// selectSerial picks the front of a lane if nothing of the lane is under way.
func selectSerial(lane batch.Lane) []batch.Run {
	if !noneUnderWay(lane) || len(lane.Batches) == 0 || !lane.Batches[0].Ready {
		return nil
	}
	return []batch.Run{{0}}
}

// noneUnderWay reports whether a lane has nothing under way.
func noneUnderWay(lane batch.Lane) bool {
	for _, b := range lane.Batches {
		if !b.State.Claimable() {
			return false
		}
	}
	return true
}

// serialWants returns 1 for a lane that has nothing under way, else 0.
func serialWants(attempted batch.Lane) int {
	if !noneUnderWay(attempted) {
		return 0
	}
	return 1 // it may stand before an attempted batch that waits again
}

// Wants wraps the Wants of a strategy for a store, as [Choose] wraps Select.
// It returns nil for a strategy without. If Wants panics, the store reads the whole window.
func Wants(s Strategy, keepsOrder func(batch.ServiceID) bool) func(batch.Lane) int {
	if s.Wants == nil {
		return nil
	}
	keeps := orderKeeper(s, keepsOrder)
	return func(lane batch.Lane) (n int) {
		if err := loop.Contain(func() error {
			lane.KeepsOrder = keeps(lane.Service)
			n = s.Wants(lane)
			return nil
		}); err != nil {
			return s.Window
		}
		return n
	}
}

// Choose wraps a strategy for a store. An answer that fails [batch.Lane.Check], or a panic,
// picks nothing and is reported. keepsOrder is dlt.Traits.KeepsOrder of a service's ledger;
// nil means that no ledger keeps order.
func Choose(s Strategy, keepsOrder func(batch.ServiceID) bool, report func(batch.ServiceID, error)) store.Choose {
	keeps := orderKeeper(s, keepsOrder)
	show := cloneLane // the strategy must not change the lane that Choose checks and the store uses
	if s.isBuiltin() {
		show = sameLane
	}
	sets := s.builtin.sets // the memory that Select has just used, and that is still in the CPU's cache
	if sets == nil {
		sets = new(footprintSets)
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

// orderKeeper returns a function that reports whether a service's ledger keeps order; it is always
// false for a strategy that does not rely on order.
func orderKeeper(s Strategy, keepsOrder func(batch.ServiceID) bool) func(batch.ServiceID) bool {
	return func(service batch.ServiceID) bool {
		return s.ReliesOnOrder && keepsOrder != nil && keepsOrder(service)
	}
}

// sameLane returns the lane itself, for the strategies of this package, which do not change it.
func sameLane(lane batch.Lane) batch.Lane { return lane }

// cloneLane returns a lane that shares no memory with the given one.
func cloneLane(lane batch.Lane) batch.Lane {
	lane.Batches = slices.Clone(lane.Batches)
	for i := range lane.Batches {
		f := &lane.Batches[i].Footprint
		f.Reads, f.Writes = slices.Clone(f.Reads), slices.Clone(f.Writes)
	}
	return lane
}
