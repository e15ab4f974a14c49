package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// modelSeeds is how many random histories are compared with the model.
const modelSeeds = 16

func modelTests() []test {
	var tests []test
	for seed := range uint64(modelSeeds) {
		tests = append(tests, test{name: fmt.Sprintf("history by seed %d", seed), run: func(f *fixture) {
			h := randomHistory{f, rand.New(rand.NewPCG(seed, 1))}
			steps := 120
			if f.harness.NoClock {
				steps = 40 // time passes in real time
			}
			for range steps {
				h.step()
			}
			h.compareAll()
		}})
	}
	return tests
}

// randomHistory makes random calls to a store, and does the same in the store's model.
type randomHistory struct {
	*fixture
	random *rand.Rand
}

func (h randomHistory) chance(percent int) bool { return h.random.IntN(100) < percent }

// randomIDs returns n ids of batches of the model.
func (h randomHistory) randomIDs(n int) []batch.ID {
	all := h.modelBatches(func(*modelBatch) bool { return true })
	var is []batch.ID
	for i := 0; i < n && len(all) > 0; i++ {
		is = append(is, all[h.random.IntN(len(all))].batch.ID)
	}
	return is
}

func (h randomHistory) step() {
	h.Helper()
	h.tick()
	switch n := h.random.IntN(100); {
	case n < 12:
		h.addSome()
	case n < 35:
		h.claimSome()
	case n < 39:
		if h.hasAbilities(store.CanKeepPrepared) {
			h.keepSome()
		}
	case n < 70:
		h.recordSome()
	case n < 76:
		h.pending(1+h.random.IntN(4), h.units(1.5))
	case n < 78:
		h.pendingOf(1+h.random.IntN(4), h.units(1.5), []batch.ServiceID{"s", "", "none", "t"}[:1+h.random.IntN(4)]...)
	case n < 82:
		h.setNextCheck(h.units(float64(h.random.IntN(3))+0.5), h.randomIDs(2)...)
	case n < 91:
		if h.hasAbilities(store.CanOperate) {
			h.operateOnOne()
		}
	case n < 93:
		if h.hasAbilities(store.CanPrune) {
			h.pruneSome()
		}
	case n < 95:
		if h.hasAbilities(store.CanControl) {
			h.steerOne()
		}
	case n < 98:
		h.passUnits(1 + h.random.IntN(2))
	default:
		if h.harness.StepClock != nil {
			h.passUnits(-1)
		}
	}
}

func (h randomHistory) addSome() {
	var bs []batch.Batch
	for range 1 + h.random.IntN(3) {
		id := batch.ID(fmt.Sprintf("%03d", h.random.IntN(60)))
		b := newBatch([]batch.ServiceID{"s", "", "t"}[h.random.IntN(3)], id)
		if s := h.batches[id]; s != nil {
			b.Service = s.batch.Service
		} else if old, ok := h.tombstones[id]; ok {
			b.Service = old.batch.Service
		}
		if h.chance(30) {
			b.Footprint = batch.Footprint{Reads: []string{"0"}, Writes: []string{string(id)}}
			b.Budget.Attempts = h.random.IntN(3)
		}
		if h.chance(30) {
			b.DataChangeID = "change of " + string(id)
			if alias := batch.ID("again " + string(id)); h.chance(30) && h.batches[alias] == nil {
				b.ID = alias // the same payload under another id, as from a caller that retries
				if old, ok := h.tombstones[alias]; ok {
					b.Service = old.batch.Service
				}
			}
			id = b.ID
		}
		for _, other := range bs {
			if other.ID == id {
				b = other
			}
		}
		bs = append(bs, b)
	}
	if h.addFindsEnded(bs...) {
		h.requireAddRefused(bs...)
		return
	}
	h.add(bs...)
}

func (h randomHistory) claimSome() {
	q := store.ClaimQuery{Limit: 1 + h.random.IntN(5), Window: 1 + h.random.IntN(3), TTL: h.units(1.5)}
	for _, i := range h.random.Perm(4)[:1+h.random.IntN(4)] {
		q.Lanes = append(q.Lanes, []batch.ServiceID{"s", "", "t", "none"}[i])
	}
	if h.chance(90) {
		q.Resend = resendRule(h.units(float64(3+h.random.IntN(20))), h.units(0.75))
	}
	if h.chance(30) {
		q.Resend = resendRule(forEver, 0)
	}
	if h.chance(40) {
		most := h.random.IntN(5)
		q.MaxInFlight = func(batch.ServiceID) int { return most }
	}
	salt := h.random.Uint64()
	h.claim(q, func(l batch.Lane) []batch.Run { // the same result in every call
		r := rand.New(rand.NewPCG(salt, uint64(len(l.Service))))
		var runs []batch.Run
		for range r.IntN(3) {
			var run batch.Run
			for i := range l.Batches {
				if r.IntN(3) > 0 {
					run = append(run, i)
				}
			}
			runs = append(runs, run)
		}
		return runs
	})
}

func (h randomHistory) keepSome() {
	var kept []store.Prepared
	for _, id := range h.randomIDs(1 + h.random.IntN(3)) {
		p := h.prepared(id, fmt.Sprint("prepared ", h.random.IntN(100)))
		if h.chance(15) {
			p.Version -= int64(h.random.IntN(3))
		}
		if h.chance(30) {
			p.Row = 0
		}
		kept = append(kept, p)
	}
	h.keepBytes(kept...)
}

func (h randomHistory) recordSome() {
	var os []store.Outcome
	for _, id := range h.randomIDs(1 + h.random.IntN(3)) {
		os = append(os, h.randomOutcome(id))
	}
	h.record(os...)
	if h.chance(20) {
		h.record(os...)
	}
}

// randomOutcome returns an outcome that some process could report, mostly by an actor that may
// report it.
func (h randomHistory) randomOutcome(id batch.ID) store.Outcome {
	row := h.batches[id].row
	o := h.monitorOutcome(id, store.IsPending+store.Finding(h.random.IntN(9)))
	if h.chance(15) {
		o.Finding = store.Failed + store.Finding(h.random.IntN(2))
	}
	if row.Live(h.now()) {
		o = h.submitterOutcome(id, store.Accepted+store.Finding(h.random.IntN(5)))
		o.Back = []batch.State{batch.Queued, batch.Delayed, batch.Unknown, batch.Valid}[h.random.IntN(4)]
	}
	if h.chance(10) {
		o.By = batch.Actor(h.random.IntN(5))
	}
	if h.chance(15) {
		o.Version -= int64(h.random.IntN(3))
	}
	if h.chance(30) {
		o.Row = 0
	}
	o.Attempt = []int{0, row.Attempt, 1}[h.random.IntN(3)]
	o.Spend, o.Last = h.chance(30), h.chance(15)
	o.RolledBack = h.chance(30)
	if h.chance(30) {
		o.Endpoint = fmt.Sprint("node", h.random.IntN(2))
	}
	o.Policy = batch.Policy(h.random.IntN(4))
	if h.chance(30) {
		o.Report = &batch.Report{Attempt: row.Attempt, Kind: batch.KindBusy, StatusCode: 503, Took: time.Second, Text: string(id)}
	}
	o.Delay = h.units(float64(h.random.IntN(3)) + 0.5)
	if h.chance(30) {
		o.StuckAfter = h.units(0.5)
	}
	o.Check = h.units(float64(h.random.IntN(2)) + 0.5)
	if h.chance(50) {
		o.Settle = 0
	}
	if h.chance(70) {
		o.Error = &batch.SubmissionError{Kind: batch.KindDoubt, Message: fmt.Sprintf("%s of %s", o.Finding, id)}
	}
	if h.chance(20) {
		o.Receipts = []batch.Receipt{{TransactionID: string(id), Message: "m", Data: []byte(id)}}
	}
	return o
}

func (h randomHistory) operateOnOne() {
	for _, id := range h.randomIDs(1) {
		switch h.random.IntN(5) {
		case 0:
			_ = h.cancel(id, "reason") // compared with the rule, even if the store refuses it
		case 1:
			_ = h.requeue(id, h.units(0.25))
		case 2:
			_ = h.acquit(id)
		case 3:
			_ = h.decide(id, append(batch.Rulings(), "pending")[h.random.IntN(4)], "reason")
		case 4:
			_ = h.withdraw(id)
		}
	}
}

// steerOne closes a lane or all lanes, or opens all.
func (h randomHistory) steerOne() {
	service := []batch.ServiceID{"s", "", "t"}[h.random.IntN(3)]
	switch h.random.IntN(5) {
	case 0:
		h.pause(batch.Only(service))
	case 1:
		h.pause(batch.Everything())
	case 2:
		h.setPolicy(service, batch.Policy(h.random.IntN(4)))
	default:
		h.resume(batch.Everything())
		for _, s := range []batch.ServiceID{"s", "", "t"} {
			h.resume(batch.Only(s))
			h.release(s)
		}
	}
}

func (h randomHistory) pruneSome() { h.prune(h.units(0.75), h.chance(50)) }

// prune removes everything that is old enough from the store and the model, and compares the
// numbers.
func (f *fixture) prune(older time.Duration, tombstones bool) int {
	f.Helper()
	f.endWithout(store.CanPrune)
	until := f.now().Add(-older)
	old := f.modelBatches(func(s *modelBatch) bool { return s.row.Prunable(false) && !s.row.FinalAt.After(until) })
	acts := 0
	for scope, all := range f.laneActs {
		f.laneActs[scope] = slices.DeleteFunc(slices.Clone(all), func(a batch.Act) bool { return !a.At.After(until) })
		acts += len(all) - len(f.laneActs[scope])
	}
	p := must(f.store.Prune(f.ctx, store.PruneQuery{OlderThan: older, Limit: 10_000, Tombstone: func(batch.ServiceID, string) bool { return tombstones }}))(f)
	require.Equal(f, store.Pruned{Batches: len(old), LaneActs: acts}, p)
	for _, s := range old {
		delete(f.batches, s.batch.ID)
		if tombstones {
			r := must(f.store.Get(f.ctx, s.batch.Key()))(f)
			require.WithinDuration(f, f.now(), r.PrunedAt, f.timeUnit/2)
			f.tombstones[s.batch.ID] = &modelTombstone{s.batch, store.Remains(s.record(), r.PrunedAt)}
		}
		f.requireAbsent(s.batch)
	}
	return p.Batches
}

// compareAll compares all answers of the store with the model.
func (h randomHistory) compareAll() {
	for id := range h.batches {
		h.get(id)
		h.inspect(id, 3)
	}
	if h.hasAbilities(store.CanControl) {
		for _, service := range []batch.ServiceID{"s", "", "t"} {
			h.requireSameControl(batch.Only(service))
		}
		h.requireSameControl(batch.Everything())
	}
	for _, t := range h.tombstones {
		h.requireAbsent(t.batch)
	}
	for _, s := range []batch.ServiceID{"s", "", "t"} {
		h.viewLane(s, 100)
	}
	all := h.modelBatches(func(*modelBatch) bool { return true })
	if h.hasAbilities(store.CanList) {
		rs, next := must2(h.store.List(h.ctx, store.ListQuery{Limit: 1000}))(h)
		require.Empty(h, next)
		require.Len(h, rs, len(all))
		for i, s := range all {
			h.requireSameRecord(s, rs[i])
		}
	}
	if h.hasAbilities(store.CanFindWitnesses) {
		for id := range h.batches {
			h.witnesses(id, 3)
		}
	}
	if h.hasAbilities(store.CanReadFinals) {
		keys := h.keys()
		for _, t := range h.tombstones {
			keys = append(keys, t.batch.Key())
		}
		h.finals(keys...)
	}
	if h.hasAbilities(store.CanCount) {
		h.counts(store.CountsQuery{Start: true, Cap: 3})
	}
	h.pending(1000, h.units(0.5))
	for id, s := range h.batches {
		if other := s.batch; s.row.Version > 0 {
			other.Payload = []byte("other than " + id)
			require.ErrorIs(h, h.store.Add(h.ctx, other), batch.ErrConflict)
		}
	}
}
