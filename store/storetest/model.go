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
			h := history{f, rand.New(rand.NewPCG(seed, 1))}
			steps := 120
			if f.h.NoClock {
				steps = 40 // time passes in real time
			}
			for range steps {
				h.step()
			}
			h.everything()
		}})
	}
	return tests
}

// history does random things to a store and to its model.
type history struct {
	*fixture
	r *rand.Rand
}

func (h history) chance(percent int) bool { return h.r.IntN(100) < percent }

// some returns a few of the batches that the model knows.
func (h history) some(n int) []batch.ID {
	all := h.inOrder(func(*shadow) bool { return true })
	var is []batch.ID
	for i := 0; i < n && len(all) > 0; i++ {
		is = append(is, all[h.r.IntN(len(all))].b.ID)
	}
	return is
}

func (h history) step() {
	h.Helper()
	h.tick()
	switch n := h.r.IntN(100); {
	case n < 12:
		h.adds()
	case n < 35:
		h.claims()
	case n < 39:
		if h.has(store.CanKeepPrepared) {
			h.keeps()
		}
	case n < 70:
		h.records()
	case n < 76:
		h.pending(1+h.r.IntN(4), h.u(1.5))
	case n < 78:
		h.pendingOf(1+h.r.IntN(4), h.u(1.5), []batch.ServiceID{"s", "", "none", "t"}[:1+h.r.IntN(4)]...)
	case n < 82:
		h.checked(h.u(float64(h.r.IntN(3))+0.5), h.some(2)...)
	case n < 91:
		if h.has(store.CanOperate) {
			h.operates()
		}
	case n < 93:
		if h.has(store.CanPrune) {
			h.prunes()
		}
	case n < 95:
		if h.has(store.CanControl) {
			h.steers()
		}
	case n < 98:
		h.pass(1 + h.r.IntN(2))
	default:
		if h.h.StepClock != nil {
			h.pass(-1)
		}
	}
}

func (h history) adds() {
	var bs []batch.Batch
	for range 1 + h.r.IntN(3) {
		id := batch.ID(fmt.Sprintf("%03d", h.r.IntN(60)))
		b := bt([]batch.ServiceID{"s", "", "t"}[h.r.IntN(3)], id)
		if s := h.rows[id]; s != nil {
			b.Service = s.b.Service
		} else if old, ok := h.tombs[id]; ok {
			b.Service = old.b.Service
		}
		if h.chance(30) {
			b.Footprint = batch.Footprint{Reads: []string{"0"}, Writes: []string{string(id)}}
			b.Budget.Attempts = h.r.IntN(3)
		}
		if h.chance(30) {
			b.DataChangeID = "change of " + string(id)
			if alias := batch.ID("again " + string(id)); h.chance(30) && h.rows[alias] == nil {
				b.ID = alias // the same payload under another id, as from a caller that retries
				if old, ok := h.tombs[alias]; ok {
					b.Service = old.b.Service
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
	if h.ended(bs...) {
		h.refuses(bs...)
		return
	}
	h.add(bs...)
}

func (h history) claims() {
	q := store.ClaimQuery{Limit: 1 + h.r.IntN(5), Window: 1 + h.r.IntN(3), TTL: h.u(1.5)}
	for _, i := range h.r.Perm(4)[:1+h.r.IntN(4)] {
		q.Lanes = append(q.Lanes, []batch.ServiceID{"s", "", "t", "none"}[i])
	}
	if h.chance(90) {
		q.Resend = resend(h.u(float64(3+h.r.IntN(20))), h.u(0.75))
	}
	if h.chance(30) {
		q.Resend = resend(forEver, 0)
	}
	if h.chance(40) {
		most := h.r.IntN(5)
		q.MaxInFlight = func(batch.ServiceID) int { return most }
	}
	salt := h.r.Uint64()
	h.claim(q, func(l batch.Lane) []batch.Run { // the same at every call
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

func (h history) keeps() {
	var kept []store.Prepared
	for _, id := range h.some(1 + h.r.IntN(3)) {
		p := h.prepared(id, fmt.Sprint("prepared ", h.r.IntN(100)))
		if h.chance(15) {
			p.Version -= int64(h.r.IntN(3))
		}
		if h.chance(30) {
			p.Row = 0
		}
		kept = append(kept, p)
	}
	h.keep(kept...)
}

func (h history) records() {
	var os []store.Outcome
	for _, id := range h.some(1 + h.r.IntN(3)) {
		os = append(os, h.outcome(id))
	}
	h.record(os...)
	if h.chance(20) {
		h.record(os...)
	}
}

// outcome returns an outcome that could come in from somewhere, mostly by an actor that may report
// it.
func (h history) outcome(id batch.ID) store.Outcome {
	row := h.rows[id].row
	o := h.monitored(id, store.IsPending+store.Finding(h.r.IntN(9)))
	if h.chance(15) {
		o.Finding = store.Failed + store.Finding(h.r.IntN(2))
	}
	if row.Live(h.now()) {
		o = h.submitted(id, store.Accepted+store.Finding(h.r.IntN(5)))
		o.Back = []batch.State{batch.Queued, batch.Delayed, batch.Unknown, batch.Valid}[h.r.IntN(4)]
	}
	if h.chance(10) {
		o.By = batch.Actor(h.r.IntN(5))
	}
	if h.chance(15) {
		o.Version -= int64(h.r.IntN(3))
	}
	if h.chance(30) {
		o.Row = 0
	}
	o.Attempt = []int{0, row.Attempt, 1}[h.r.IntN(3)]
	o.Spend, o.Last = h.chance(30), h.chance(15)
	o.RolledBack = h.chance(30)
	if h.chance(30) {
		o.Endpoint = fmt.Sprint("node", h.r.IntN(2))
	}
	o.Policy = batch.Policy(h.r.IntN(4))
	if h.chance(30) {
		o.Report = &batch.Report{Attempt: row.Attempt, Kind: batch.KindBusy, StatusCode: 503, Took: time.Second, Text: string(id)}
	}
	o.Delay = h.u(float64(h.r.IntN(3)) + 0.5)
	if h.chance(30) {
		o.StuckAfter = h.u(0.5)
	}
	o.Check = h.u(float64(h.r.IntN(2)) + 0.5)
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

func (h history) operates() {
	for _, id := range h.some(1) {
		switch h.r.IntN(5) {
		case 0:
			_ = h.cancel(id, "reason") // compared with the rule, even where it is refused
		case 1:
			_ = h.requeue(id, h.u(0.25))
		case 2:
			_ = h.acquit(id)
		case 3:
			_ = h.decide(id, append(batch.Rulings(), "pending")[h.r.IntN(4)], "reason")
		case 4:
			_ = h.withdraw(id)
		}
	}
}

// steers closes something, or opens all.
func (h history) steers() {
	service := []batch.ServiceID{"s", "", "t"}[h.r.IntN(3)]
	switch h.r.IntN(5) {
	case 0:
		h.pause(batch.Only(service))
	case 1:
		h.pause(batch.Everything())
	case 2:
		h.setPolicy(service, batch.Policy(h.r.IntN(4)))
	default:
		h.resume(batch.Everything())
		for _, s := range []batch.ServiceID{"s", "", "t"} {
			h.resume(batch.Only(s))
			h.release(s)
		}
	}
}

func (h history) prunes() { h.prune(h.u(0.75), h.chance(50)) }

// prune removes everything that is old enough, from both.
func (f *fixture) prune(older time.Duration, tombstones bool) int {
	f.Helper()
	f.needs(store.CanPrune)
	until := f.now().Add(-older)
	old := f.inOrder(func(s *shadow) bool { return s.row.Prunable(false) && !s.row.FinalAt.After(until) })
	acts := 0
	for scope, all := range f.steered {
		f.steered[scope] = slices.DeleteFunc(slices.Clone(all), func(a batch.Act) bool { return !a.At.After(until) })
		acts += len(all) - len(f.steered[scope])
	}
	p := must(f.st.Prune(f.ctx, store.PruneQuery{OlderThan: older, Limit: 10_000, Tombstone: func(batch.ServiceID, string) bool { return tombstones }}))(f)
	require.Equal(f, store.Pruned{Batches: len(old), LaneActs: acts}, p)
	for _, s := range old {
		delete(f.rows, s.b.ID)
		if tombstones {
			r := must(f.st.Get(f.ctx, s.b.Key()))(f)
			require.WithinDuration(f, f.now(), r.PrunedAt, f.unit/2)
			f.tombs[s.b.ID] = &tomb{s.b, store.Remains(s.record(), r.PrunedAt)}
		}
		f.absent(s.b)
	}
	return p.Batches
}

// everything compares all answers of the store.
func (h history) everything() {
	for id := range h.rows {
		h.get(id)
		h.inspected(id, 3)
	}
	if h.has(store.CanControl) {
		for _, service := range []batch.ServiceID{"s", "", "t"} {
			h.sameControl(batch.Only(service))
		}
		h.sameControl(batch.Everything())
	}
	for _, t := range h.tombs {
		h.absent(t.b)
	}
	for _, s := range []batch.ServiceID{"s", "", "t"} {
		h.view(s, 100)
	}
	all := h.inOrder(func(*shadow) bool { return true })
	if h.has(store.CanList) {
		rs, next := must2(h.st.List(h.ctx, store.ListQuery{Limit: 1000}))(h)
		require.Empty(h, next)
		require.Len(h, rs, len(all))
		for i, s := range all {
			h.sameRecord(s, rs[i])
		}
	}
	if h.has(store.CanFindWitnesses) {
		for id := range h.rows {
			h.witnesses(id, 3)
		}
	}
	if h.has(store.CanReadFinals) {
		keys := h.keys()
		for _, t := range h.tombs {
			keys = append(keys, t.b.Key())
		}
		h.finals(keys...)
	}
	if h.has(store.CanCount) {
		h.counts(store.CountsQuery{Start: true, Cap: 3})
	}
	h.pending(1000, h.u(0.5))
	for id, s := range h.rows {
		if other := s.b; s.row.Version > 0 {
			other.Payload = []byte("other than " + id)
			require.ErrorIs(h, h.st.Add(h.ctx, other), batch.ErrConflict)
		}
	}
}
