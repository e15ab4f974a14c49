package storetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// A store may remember where the open work of a lane starts, so that it need not look at
// finished work. These tests go through everything that puts work before such a place.

// late adds batches that nobody sees before show is called.
func (f *fixture) late(bs ...batch.Batch) (show func()) {
	f.Helper()
	at := f.now()
	commit, _ := f.addTx(bs...)
	return func() {
		f.Helper()
		f.absent(bs...)
		require.NoError(f, commit())
		for _, b := range bs {
			r := must(f.st.Get(f.ctx, b.Key()))(f)
			require.False(f, r.CreatedAt.Before(at.Add(-f.unit/8)), "%s is created at %s", b.Key(), r.CreatedAt)
			f.rows[b.ID] = &shadow{b: b, created: r.CreatedAt, ref: store.Ref{Key: r.Key}, row: store.NewRow()}
		}
	}
}

// front takes the first of a lane.
func front(l batch.Lane) []batch.Run {
	if len(l.Batches) == 0 || !l.Batches[0].Ready {
		return nil
	}
	return []batch.Run{{0}}
}

// goThrough adds batches and brings them to their ends, one by one.
func (f *fixture) goThrough(bs ...batch.Batch) {
	f.Helper()
	f.add(bs...)
	for _, b := range bs {
		f.take(b.ID)
		f.each(f.submitted, store.Accepted, b.ID)
		f.each(f.monitored, store.IsCommitted, b.ID)
	}
}

// remember lets a store learn all that it can remember of these lanes, by claims that take
// nothing, and by the time that passes between them.
func (f *fixture) remember(lanes ...batch.ServiceID) {
	f.Helper()
	for range 5 {
		for _, s := range lanes {
			f.view(s, 9)
		}
		f.later()
	}
}

// later lets some time pass on the process's clock, too.
func (f *fixture) later() {
	select {
	case <-time.After(25 * time.Millisecond):
	case <-f.ctx.Done():
	}
}

// drains takes the first of a lane, and brings it to its end, until nothing is left.
func (f *fixture) drains(service batch.ServiceID, want ...batch.ID) {
	f.Helper()
	var got []batch.ID
	for {
		claimed := f.claim(store.ClaimQuery{
			Lanes: []batch.ServiceID{service}, Limit: 1, Window: 9, TTL: f.u(1.5), Resend: resend(f.u(1000.5), 0),
		}, front)
		if len(claimed.Runs) == 0 {
			break
		}
		id := claimedIDs(claimed)[0]
		got = append(got, id)
		f.each(f.submitted, store.Accepted, id)
		f.each(f.monitored, store.IsCommitted, id)
	}
	assert.Equal(f, want, got)
	for _, id := range want {
		f.get(id)
	}
}

func lateInPlace(f *fixture) {
	f.goThrough(bt("s", "a"), bt("t", "b"), bt("s", "c"))
	f.remember("s", "t")
	first := f.late(bt("s", "late 1"), bt("t", "late 2"))
	f.tick()
	f.goThrough(bt("s", "d"), bt("t", "e"))
	f.remember("s", "t")
	second := f.late(bt("s", "late 3"))
	f.tick()
	f.goThrough(bt("s", "g"), bt("s", "h"))
	f.add(bt("s", "i"), bt("s", "j"))
	f.remember("s", "t")
	f.take("i")
	second()
	assert.Equal(f, []batch.ID{"i", "late 3", "j"}, laneIDs(f.view("s", 9)))
	f.each(f.submitted, store.Accepted, "i")
	f.each(f.monitored, store.IsCommitted, "i")
	f.remember("s", "t")
	first()
	assert.Equal(f, []batch.ID{"late 1", "late 3", "j"}, laneIDs(f.view("s", 9)))
	f.drains("s", "late 1", "late 3", "j")
	f.drains("t", "late 2")
}

// After a step back the clock gives out keys before keys that were visible already: in a lane
// with batches they still come behind its last key, in a lane without batches they may come
// anywhere.
func lateStep(f *fixture) {
	f.goThrough(bt("s", "a"))
	f.remember("s", "t")
	f.pass(-2)
	f.remember("s", "t")
	show := f.late(bt("s", "late 1"), bt("t", "late 2"))
	f.tick()
	f.goThrough(bt("s", "b"), bt("t", "c"))
	f.remember("s", "t")
	f.pass(3)
	f.goThrough(bt("t", "d"))
	f.add(bt("t", "e"))
	f.remember("s", "t")
	show()
	f.drains("s", "late 1")
	f.drains("t", "late 2", "e")
}

// A closed lane shows nothing, and a store must not take it for empty.
func lateClosed(f *fixture) {
	f.goThrough(bt("s", "a"), bt("t", "b"))
	f.remember("s", "t")
	f.add(bt("s", "c"), bt("s", "d"), bt("t", "e"))
	f.take("c")
	show := f.late(bt("s", "late 1"), bt("t", "late 2"))
	f.tick()
	assert.True(f, f.ends("c", batch.PolicyHalt).Halted)
	f.pause(batch.Only("t"))
	f.remember("s", "t")
	f.add(bt("s", "g"), bt("t", "h"))
	f.remember("s", "t")
	show()
	require.NoError(f, f.requeue("c", 0))
	f.remember("s", "t")
	f.release("s")
	f.resume(batch.Only("t"))
	f.drains("s", "c", "d", "late 1", "g")
	f.drains("t", "e", "late 2", "h")
}

// The rows that a claim saw are real, even where its own writes are rolled back.
func lateRolledBack(f *fixture) {
	rolledBack := func() {
		f.Helper()
		for range 3 {
			shown := 0
			assert.PanicsWithValue(f, "in choose", func() {
				_, err := f.st.Claim(f.ctx, store.ClaimQuery{Lanes: []batch.ServiceID{"s", "t"}, Limit: 9, Window: 9, TTL: f.u(1.5)},
					func(l batch.Lane) []batch.Run {
						if shown++; shown == 2 {
							panic("in choose")
						}
						return everyReady(l)
					})
				require.NoError(f, err)
			})
			f.later()
		}
	}
	f.goThrough(bt("s", "a"), bt("t", "b"))
	f.add(bt("s", "c"), bt("t", "d"))
	rolledBack()
	show := f.late(bt("s", "late 1"), bt("t", "late 2"))
	f.tick()
	f.add(bt("s", "e"), bt("t", "g"))
	rolledBack()
	f.drains("s", "c", "e")
	f.add(bt("s", "h"))
	rolledBack()
	show()
	rolledBack()
	f.drains("s", "late 1", "h")
	f.drains("t", "d", "late 2", "g")
}

func lateRequeued(f *fixture) {
	f.add(bt("s", "a"), bt("s", "b"), bt("t", "c"))
	f.take("a")
	f.take("c")
	f.each(f.submitted, store.Refused, "a", "c")
	f.drains("s", "b")
	show := func() {}
	var late []batch.ID
	if f.h.late() {
		show, late = f.late(bt("s", "late")), []batch.ID{"late"}
	}
	f.tick()
	for round := range 2 {
		f.goThrough(bt("s", batch.ID(fmt.Sprint("s", round))), bt("t", batch.ID(fmt.Sprint("t", round))))
		f.remember("s", "t")
		f.add(bt("s", batch.ID(fmt.Sprint("more", round))))
		f.remember("s", "t")
		require.NoError(f, f.requeue("a", 0))
		require.NoError(f, f.requeue("c", 0))
		assert.Equal(f, []batch.ID{"c"}, laneIDs(f.view("t", 9)))
		f.take("a")
		f.take("c")
		f.each(f.submitted, store.Refused, "a", "c")
	}
	f.remember("s", "t")
	require.NoError(f, f.requeue("a", 0))
	show()
	f.drains("s", append(append([]batch.ID{"a"}, late...), "more0", "more1")...)
}

// lateRace: every added batch is claimed, each adder's batches in their order, though some
// become visible late, and two claim at once.
func lateRace(f *fixture) {
	const adders, each = 3, 12
	lanes := []batch.ServiceID{"s", "t"}
	add := func(who, n int) error {
		b := bt(lanes[who%2], batch.ID(fmt.Sprintf("%d %03d", who, n)))
		commit := func() error { return f.st.Add(f.ctx, b) }
		if n%3 == 0 && f.h.late() {
			tx, end, _, err := f.h.Begin(f.ctx)
			if err == nil {
				err = tx.Add(f.ctx, b)
			}
			if err != nil {
				return err
			}
			commit = end
		}
		for range (who + n) % 3 {
			f.later()
		}
		return commit()
	}
	var mu sync.Mutex
	var took []batch.ID
	claim := func() error {
		for end := time.Now().Add(patience); time.Now().Before(end); {
			got, err := f.st.Claim(f.ctx, store.ClaimQuery{Lanes: lanes, Limit: 2, Window: 1, TTL: f.u(1.5)}, front)
			if err != nil {
				return err
			}
			mu.Lock()
			took = append(took, claimedIDs(got)...)
			all := len(took)
			mu.Unlock()
			for _, r := range got.Runs {
				o := store.Outcome{Ref: r.Batches[0].Ref, Version: r.Batches[0].Version, By: batch.BySubmitter, Finding: store.Refused}
				if _, err := f.st.Record(f.ctx, []store.Outcome{o}); err != nil {
					return err
				}
			}
			if all >= adders*each {
				return nil
			}
			select {
			case <-time.After(3 * time.Millisecond):
			case <-f.ctx.Done():
			}
		}
		return fmt.Errorf("%d of %d were claimed", len(took), adders*each)
	}
	work := []func() error{claim, claim}
	for who := range adders {
		work = append(work, func() error {
			for n := range each {
				if err := add(who, n); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for _, err := range atOnce(work...) {
		require.NoError(f, err)
	}
	last := map[byte]batch.ID{}
	for _, id := range took {
		assert.Less(f, last[id[0]], id, "of one adder")
		last[id[0]] = id
	}
}
