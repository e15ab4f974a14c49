package ordertest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store"
)

func modelTests() []test {
	return []test{{name: "any calls, compared with the rules", run: modelWalk}}
}

// modelOrder is the model of one order.
type modelOrder struct {
	order.Order
	place int // the place among all orders
	row   order.Row
}

// randomWalk makes random calls, and a model of their effects.
type randomWalk struct {
	*fixture
	*rand.Rand
	seed        uint64
	orders      []*modelOrder
	byID        map[order.ID]*modelOrder
	open        map[batch.ServiceID]batch.Batch // the batch of a party that is not settled
	final       map[batch.ID]bool               // whether the batch may be settled
	batchesMade int
}

func modelWalk(f *fixture) {
	for seed := range uint64(4) {
		w := &randomWalk{
			fixture: f, Rand: rand.New(rand.NewPCG(seed, 7)), seed: seed, byID: map[order.ID]*modelOrder{},
			open: map[batch.ServiceID]batch.Batch{}, final: map[batch.ID]bool{},
		}
		for step := range 60 {
			name := w.step()
			w.compare(fmt.Sprintf("seed %d, step %d: %s", seed, step, name))
		}
		for _, b := range w.open { // so that the next walk finds nothing open
			w.finishBatch(b)
		}
		w.settleAll()
		for _, s := range w.orders {
			if s.row.State == order.Queued {
				must(f.store.FailOrders(f.ctx, verdictsOn([]order.Ref{{ID: s.ID, Version: s.row.Version}}, order.Verdict{State: order.Failed})))(f)
			}
		}
	}
}

func (w *randomWalk) party() batch.ServiceID { return w.name(w.IntN(3)) }

// name returns a party that only this walk uses.
func (w *randomWalk) name(i int) batch.ServiceID { return batch.ServiceID(fmt.Sprint(w.seed, "p", i)) }

func (w *randomWalk) step() string {
	party := w.party()
	switch n := w.IntN(10); {
	case n < 3:
		w.addSome(party)
		return "add"
	case n < 6:
		w.prepareSome(party)
		return "prepare"
	case n < 7:
		if b, ok := w.open[party]; ok && !w.final[b.ID] {
			w.finishBatch(b)
		}
		return "finish"
	case n < 8:
		w.settleAll()
		return "settle"
	case n < 9:
		w.judgeSome(party)
		return "judge"
	}
	if w.harness.StepClock != nil {
		w.passUnits(1)
	}
	n := 0
	for _, s := range w.orders {
		if next, ok := s.row.Expire(w.now(), s.Deadline); ok {
			s.row = next
			n++
		}
	}
	assert.Equal(w, n, w.expire(1000))
	return "expire"
}

func (w *randomWalk) addSome(party batch.ServiceID) {
	var added []order.Order
	for range 1 + w.IntN(4) {
		w.batchesMade++
		o := newOrder(party, order.ID(fmt.Sprintf("%d-%d", w.seed, 1000-w.batchesMade)))
		o.Priority = w.IntN(2)
		if w.IntN(4) == 0 && w.harness.StepClock != nil {
			o.Deadline = w.now().Add(w.units(0.5 + float64(w.IntN(3)))).Truncate(time.Microsecond)
		}
		s := &modelOrder{Order: o, place: len(w.orders), row: order.NewRow()}
		w.orders, w.byID[o.ID], added = append(w.orders, s), s, append(added, o)
	}
	w.add(added...)
}

// queue returns the orders of the party's next batch.
func (w *randomWalk) queue(party batch.ServiceID, limit int) (is []order.ID) {
	var queued []*modelOrder
	for _, s := range w.orders {
		if s.Party == party && s.row.State == order.Queued && !s.row.Expired(w.now(), s.Deadline) {
			queued = append(queued, s)
		}
	}
	slices.SortFunc(queued, func(a, b *modelOrder) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.place, b.place))
	})
	if i := slices.IndexFunc(queued, func(s *modelOrder) bool { return s.row.Group != "" }); i >= 0 {
		group := queued[i].row.Group
		queued = slices.DeleteFunc(queued, func(s *modelOrder) bool { return s.row.Group != group })
		limit = len(queued)
	}
	for _, s := range queued[:min(limit, len(queued))] {
		is = append(is, s.ID)
	}
	return is
}

func (w *randomWalk) prepareSome(party batch.ServiceID) {
	limit := 1 + w.IntN(6)
	next := w.nextOrders(party, limit)
	require.Equal(w, w.queue(party, limit), append([]order.ID(nil), queuedIDs(next)...))
	if len(next) == 0 {
		return
	}
	w.batchesMade++
	b, rs := newBatch(party, batch.ID(fmt.Sprint(w.seed, "-batch-", w.batchesMade))), refsOf(next)
	if w.IntN(5) == 0 {
		rs[0].Version--
	}
	_, busy := w.open[party]
	want := !busy
	rows := make([]order.Row, len(rs))
	for i, r := range rs {
		s := w.byID[r.ID]
		var ok bool
		rows[i], ok = s.row.Dequeue(w.now(), s.Deadline, r.Version, b.ID, i)
		want = want && ok
	}
	done := must(w.store.PrepareBatch(w.ctx, b, rs))(w)
	require.Equal(w, want, done)
	if !done {
		return
	}
	w.open[party] = b
	for i, r := range rs {
		w.byID[r.ID].row = rows[i]
	}
}

func (w *randomWalk) finishBatch(b batch.Batch) {
	if !w.final[b.ID] {
		w.finish(b, []store.Finding{store.IsCommitted, store.Refused}[w.IntN(2)])
		w.final[b.ID] = true
	}
}

func (w *randomWalk) settleAll() {
	found := must(w.store.SettleableBatches(w.ctx, 100))(w)
	require.Len(w, found, len(w.final))
	for _, b := range found {
		s := settlement(b, order.Verdict{State: order.Confirmed})
		for i := range s.Orders {
			if b.Record.State != batch.Committed {
				s.Orders[i].State = []order.State{order.Queued, order.Queued, order.Failed, order.Quarantined}[w.IntN(4)]
				s.Orders[i].Group = []string{"", "g1", "g2"}[w.IntN(3)]
			}
		}
		require.True(w, w.settle(s))
		delete(w.open, b.Record.Service)
		delete(w.final, b.Record.ID)
		for _, v := range s.Orders {
			sh := w.byID[v.ID]
			next, ok := sh.row.Settle(w.now(), b.Record.ID, v)
			require.True(w, ok)
			sh.row = next
		}
	}
}

func (w *randomWalk) judgeSome(party batch.ServiceID) {
	var vs []order.Verdict
	for _, s := range w.orders {
		if s.Party == party && w.IntN(5) == 0 && len(vs) < 3 {
			vs = append(vs, order.Verdict{Ref: order.Ref{ID: s.ID, Version: s.row.Version}, State: order.Queued, Group: "g3"})
		}
	}
	if w.IntN(2) == 0 {
		all := true
		rows := make([]order.Row, len(vs))
		for i, v := range vs {
			var ok bool
			rows[i], ok = w.byID[v.ID].row.Split(v)
			all = all && ok
		}
		require.Equal(w, all, must(w.store.SplitOrders(w.ctx, vs))(w))
		for i, v := range vs {
			if all {
				w.byID[v.ID].row = rows[i]
			}
		}
		return
	}
	for i := range vs {
		vs[i].State, vs[i].Group = order.Failed, ""
	}
	done := must(w.store.FailOrders(w.ctx, vs))(w)
	for i, v := range vs {
		next, ok := w.byID[v.ID].row.Fail(w.now(), v)
		require.Equal(w, ok, done[i])
		w.byID[v.ID].row = next
	}
}

// compare compares every order, and the result of Parties, with the model.
func (w *randomWalk) compare(step string) {
	w.Helper()
	var parties []batch.ServiceID
	for _, party := range []batch.ServiceID{w.name(0), w.name(1), w.name(2)} {
		var want []*modelOrder
		queued := 0
		for _, s := range w.orders {
			if s.Party == party {
				want = append(want, s)
				if s.row.State == order.Queued {
					queued++
				}
			}
		}
		if _, busy := w.open[party]; queued > 0 && !busy {
			parties = append(parties, party)
		}
		got := w.list(party)
		require.Len(w, got, len(want), step)
		for i, s := range want {
			r := s.row.Record(s.Order, got[i].CreatedAt)
			require.Equal(w, r.FinalAt.IsZero(), got[i].FinalAt.IsZero(), step)
			r.FinalAt = got[i].FinalAt
			require.Equal(w, r, got[i], step)
		}
	}
	var found []batch.ServiceID
	for _, p := range partyNames(w.parties()) {
		if strings.HasPrefix(string(p), fmt.Sprint(w.seed)) { // earlier walks left parties of their own
			found = append(found, p)
		}
	}
	require.Equal(w, parties, found, step)
}
