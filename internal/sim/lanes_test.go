package sim

import (
	"context"
	"math/rand/v2"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
)

// laneSetup is the strategy of a world, and the footprints of its batches.
type laneSetup struct {
	strategy             queuer.Strategy
	secondStrategy       queuer.Strategy // the strategy of a random half of the claims; without a name there is only one strategy
	maxInFlight          int             // the largest number of a lane's batches in flight; 0 is no bound
	seesAllBatches       bool            // true if the strategy sees every batch that may leave
	footprints           map[batch.ID]batch.Footprint
	rng                  *rand.Rand
	maxBatchesPerRequest int  // the most batches in one request
	keepsOrder           bool // true if the ledger keeps the order of submission and the strategy relies on it
}

// serialLanes returns lanes whose batches declare nothing.
func serialLanes() *laneSetup { return &laneSetup{strategy: queuer.Serial()} }

// parallelLanes returns lanes whose batches have various footprints, which are seen through
// windows of many sizes.
func parallelLanes(seed uint64) *laneSetup {
	l := &laneSetup{footprints: map[batch.ID]batch.Footprint{}, rng: rand.New(rand.NewPCG(seed, 9))}
	queued := 0
	if l.seesAllBatches = l.rng.IntN(2) == 0; !l.seesAllBatches {
		queued, l.maxInFlight = 1+l.rng.IntN(6), l.rng.IntN(4)
	}
	l.strategy = queuer.Parallel(queued)
	return l
}

// mixedLanes returns lanes in which two strategies work at once, as in a rolling deploy that
// changes the strategy.
func mixedLanes(seed uint64) *laneSetup {
	l := parallelLanes(seed)
	l.secondStrategy = queuer.Serial()
	return l
}

// pipelinedLanes returns lanes whose batches declare nothing, with several batches under way.
func pipelinedLanes(seed uint64) *laneSetup {
	r := rand.New(rand.NewPCG(seed, 11))
	return &laneSetup{strategy: queuer.Pipelined(1 + r.IntN(7)), maxInFlight: r.IntN(2) * r.IntN(5), maxBatchesPerRequest: r.IntN(5), keepsOrder: true}
}

// setFootprint chooses a batch's footprint: mostly a few of a small set of addresses, some of
// which are prefixes of others, and sometimes nothing.
func (l *laneSetup) setFootprint(b *batch.Batch) {
	if l.footprints == nil {
		return
	}
	b.Footprint = randomFootprint(l.rng)
	l.footprints[b.ID] = b.Footprint
}

func randomFootprint(r *rand.Rand) (f batch.Footprint) {
	if r.IntN(12) == 0 {
		return f
	}
	word := func() string {
		a := []byte{"abcd"[r.IntN(4)], "0123"[r.IntN(4)]}
		return string(a[:2-r.IntN(8)/7])
	}
	f.Writes = append(f.Writes, word())
	for range r.IntN(3) {
		f.Reads = append(f.Reads, word())
	}
	return f
}

// conflicts reports whether the order of two batches of a lane matters.
func (l *laneSetup) conflicts(a, b batch.ID) bool {
	return l.footprints == nil || l.footprints[a].Conflicts(l.footprints[b])
}

// checkClaim checks a claim against the open batches: every earlier batch of the lane that
// conflicts with the claimed one is final, and no conflicting batch is under way.
func (w *world) checkClaim(c store.Claim) {
	if w.lanes.footprints == nil || w.placeIsMoved[c.Key.ID] {
		return
	}
	order := w.addedBatches[c.Key.Service]
	for _, id := range order {
		if id == c.Key.ID || w.placeIsMoved[id] || !w.lanes.conflicts(id, c.Key.ID) {
			continue
		}
		rec, err := w.store.Get(context.Background(), batch.Key{Service: c.Key.Service, ID: id})
		if err != nil {
			w.fail("get: %w", err)
			return
		}
		if !rec.Final() && (w.belongsBefore(c.Key.Service, id, c.Key.ID) || !rec.State.Claimable()) {
			w.fail("promise 2: %s is claimed, and conflicts with %s, which is %s", c.Key, id, rec.State)
		}
	}
}

// checkSerialClaim checks a claim of Serial against the open batches: every earlier batch is
// final, and no batch is under way.
func (w *world) checkSerialClaim(c store.Claim) {
	order := w.addedBatches[c.Key.Service]
	for _, id := range order {
		if id == c.Key.ID || w.placeIsMoved[id] || w.placeIsMoved[c.Key.ID] {
			continue
		}
		rec, err := w.store.Get(context.Background(), batch.Key{Service: c.Key.Service, ID: id})
		if err != nil {
			w.fail("get: %w", err)
			return
		}
		if !rec.Final() && (w.belongsBefore(c.Key.Service, id, c.Key.ID) || !rec.State.Claimable()) {
			w.fail("promise 2: %s is claimed by itself, and %s is %s", c.Key, id, rec.State)
		}
	}
}

// firstOvertaker returns the first batch of the log that conflicts with other and belongs after
// other; "" if there is none.
func (w *world) firstOvertaker(service batch.ServiceID, log []batch.ID, other batch.ID) batch.ID {
	for _, id := range log {
		if w.belongsBefore(service, other, id) && !w.placeIsMoved[id] && w.lanes.conflicts(id, other) {
			return id
		}
	}
	return ""
}

// waitsForPerson reports whether a batch waits for a person, or for another batch that does. With
// Serial that may be any earlier batch of its lane.
func (w *world) waitsForPerson(service batch.ServiceID, id batch.ID, seen map[batch.ID]bool) bool {
	for _, other := range w.addedBatches[service] {
		if seen[other] || other == id || w.lanes.seesAllBatches && !w.lanes.conflicts(id, other) {
			continue
		}
		rec, err := w.store.Get(context.Background(), batch.Key{Service: service, ID: other})
		if err != nil || rec.Final() {
			continue
		}
		seen[other] = true
		before := !w.belongsBefore(service, id, other) || w.placeIsMoved[id] // a batch that was requeued to the end also waits for later batches
		if rec.Decision != "" || w.lanes.seesAllBatches && before && w.waitsForPerson(service, other, seen) {
			return true
		}
	}
	return false
}
