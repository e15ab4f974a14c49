package sim

import (
	"context"
	"math/rand/v2"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
)

// lanes is a world's strategy, and the footprints of its batches.
type lanes struct {
	strategy queuer.Strategy
	also     queuer.Strategy // strategy of every other claim; without a name: there is one strategy
	most     int             // batches of a lane in flight; 0 is no bound
	all      bool            // the strategy sees every batch that may leave
	declared map[batch.ID]batch.Footprint
	rng      *rand.Rand
	list     int  // batches that one request carries at most
	keeps    bool // the ledger keeps the order of submission, and the strategy relies on it
}

// serialLanes have batches that declare nothing.
func serialLanes() *lanes { return &lanes{strategy: queuer.Serial()} }

// parallelLanes have batches with mixed footprints, seen through windows of many sizes.
func parallelLanes(seed uint64) *lanes {
	l := &lanes{declared: map[batch.ID]batch.Footprint{}, rng: rand.New(rand.NewPCG(seed, 9))}
	queued := 0
	if l.all = l.rng.IntN(2) == 0; !l.all {
		queued, l.most = 1+l.rng.IntN(6), l.rng.IntN(4)
	}
	l.strategy = queuer.Parallel(queued)
	return l
}

// mixedLanes have two strategies at work at once, as in a rolling deploy that changes the
// strategy.
func mixedLanes(seed uint64) *lanes {
	l := parallelLanes(seed)
	l.also = queuer.Serial()
	return l
}

// pipelinedLanes have batches that declare nothing, several of them under way.
func pipelinedLanes(seed uint64) *lanes {
	r := rand.New(rand.NewPCG(seed, 11))
	return &lanes{strategy: queuer.Pipelined(1 + r.IntN(7)), most: r.IntN(2) * r.IntN(5), list: r.IntN(5), keeps: true}
}

// declare makes up a batch's footprint: mostly addresses out of a few, some of them prefixes
// of others, now and then nothing.
func (l *lanes) declare(b *batch.Batch) {
	if l.declared == nil {
		return
	}
	b.Footprint = declaration(l.rng)
	l.declared[b.ID] = b.Footprint
}

func declaration(r *rand.Rand) (f batch.Footprint) {
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

// conflict reports whether the order of two batches of a lane matters.
func (l *lanes) conflict(a, b batch.ID) bool {
	return l.declared == nil || l.declared[a].Conflicts(l.declared[b])
}

// checkClaim checks a claim against the open batches: every earlier batch of the lane that
// conflicts with it is final, and no conflicting batch is under way.
func (w *world) checkClaim(c store.Claim) {
	if w.lanes.declared == nil || w.moved[c.Key.ID] {
		return
	}
	order := w.acked[c.Key.Service]
	for _, id := range order {
		if id == c.Key.ID || w.moved[id] || !w.lanes.conflict(id, c.Key.ID) {
			continue
		}
		rec, err := w.store.Get(context.Background(), batch.Key{Service: c.Key.Service, ID: id})
		if err != nil {
			w.fail("get: %w", err)
			return
		}
		if !rec.Final() && (w.before(c.Key.Service, id, c.Key.ID) || !rec.State.Claimable()) {
			w.fail("promise 2: %s is claimed, and conflicts with %s, which is %s", c.Key, id, rec.State)
		}
	}
}

// checkFront checks a claim of Serial against the open batches: every earlier batch is final,
// and no batch is under way.
func (w *world) checkFront(c store.Claim) {
	order := w.acked[c.Key.Service]
	for _, id := range order {
		if id == c.Key.ID || w.moved[id] || w.moved[c.Key.ID] {
			continue
		}
		rec, err := w.store.Get(context.Background(), batch.Key{Service: c.Key.Service, ID: id})
		if err != nil {
			w.fail("get: %w", err)
			return
		}
		if !rec.Final() && (w.before(c.Key.Service, id, c.Key.ID) || !rec.State.Claimable()) {
			w.fail("promise 2: %s is claimed by itself, and %s is %s", c.Key, id, rec.State)
		}
	}
}

// overtaken returns a batch of the log that belongs after another batch, and "" if there is
// none.
func (w *world) overtaken(service batch.ServiceID, log []batch.ID, other batch.ID) batch.ID {
	for _, id := range log {
		if w.before(service, other, id) && !w.moved[id] && w.lanes.conflict(id, other) {
			return id
		}
	}
	return ""
}

// held reports whether a batch waits for a person, or for a batch that does: with Serial, any
// batch of its lane.
func (w *world) held(service batch.ServiceID, id batch.ID, seen map[batch.ID]bool) bool {
	for _, other := range w.acked[service] {
		if seen[other] || other == id || w.lanes.all && !w.lanes.conflict(id, other) {
			continue
		}
		rec, err := w.store.Get(context.Background(), batch.Key{Service: service, ID: other})
		if err != nil || rec.Final() {
			continue
		}
		seen[other] = true
		before := !w.before(service, id, other) || w.moved[id] // a batch that was requeued to the end waits for later ones, too
		if rec.Decision != "" || w.lanes.all && before && w.held(service, other, seen) {
			return true
		}
	}
	return false
}
