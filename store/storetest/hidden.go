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

// A store may remember where the open work of a lane begins, so that it need not read final
// batches. These tests add batches before such a place in every possible way.

// addHidden adds batches in a transaction. They become visible when show commits it.
func (f *fixture) addHidden(bs ...batch.Batch) (show func()) {
	f.Helper()
	at := f.now()
	commit, _ := f.addTx(bs...)
	return func() {
		f.Helper()
		f.requireAbsent(bs...)
		require.NoError(f, commit())
		for _, b := range bs {
			r := must(f.store.Get(f.ctx, b.Key()))(f)
			require.False(f, r.CreatedAt.Before(at.Add(-f.timeUnit/8)), "%s is created at %s", b.Key(), r.CreatedAt)
			f.batches[b.ID] = &modelBatch{batch: b, created: r.CreatedAt, ref: store.Ref{Key: r.Key}, row: store.NewRow()}
		}
	}
}

// chooseFront takes the first batch of a lane.
func chooseFront(l batch.Lane) []batch.Run {
	if len(l.Batches) == 0 || !l.Batches[0].Ready {
		return nil
	}
	return []batch.Run{{0}}
}

// addAndEnd adds batches and makes each of them final.
func (f *fixture) addAndEnd(bs ...batch.Batch) {
	f.Helper()
	f.add(bs...)
	for _, b := range bs {
		f.claimExactly(b.ID)
		f.recordEach(f.submitterOutcome, store.Accepted, b.ID)
		f.recordEach(f.monitorOutcome, store.IsCommitted, b.ID)
	}
}

// letStoreRemember lets a store learn all that it can remember of these lanes, by claims that take
// nothing, and by the time between them.
func (f *fixture) letStoreRemember(lanes ...batch.ServiceID) {
	f.Helper()
	for range 5 {
		for _, s := range lanes {
			f.viewLane(s, 9)
		}
		f.waitABit()
	}
}

// waitABit lets some time pass on the process's clock, too.
func (f *fixture) waitABit() {
	select {
	case <-time.After(25 * time.Millisecond):
	case <-f.ctx.Done():
	}
}

// requireDrains takes the first batch of a lane and makes it final, until the lane is empty.
func (f *fixture) requireDrains(service batch.ServiceID, want ...batch.ID) {
	f.Helper()
	var got []batch.ID
	for {
		claimed := f.claim(store.ClaimQuery{
			Lanes: []batch.ServiceID{service}, Limit: 1, Window: 9, TTL: f.units(1.5), Resend: resendRule(f.units(1000.5), 0),
		}, chooseFront)
		if len(claimed.Runs) == 0 {
			break
		}
		id := claimedIDs(claimed)[0]
		got = append(got, id)
		f.recordEach(f.submitterOutcome, store.Accepted, id)
		f.recordEach(f.monitorOutcome, store.IsCommitted, id)
	}
	assert.Equal(f, want, got)
	for _, id := range want {
		f.get(id)
	}
}

func testLateInPlace(f *fixture) {
	f.addAndEnd(newBatch("s", "a"), newBatch("t", "b"), newBatch("s", "c"))
	f.letStoreRemember("s", "t")
	first := f.addHidden(newBatch("s", "late 1"), newBatch("t", "late 2"))
	f.tick()
	f.addAndEnd(newBatch("s", "d"), newBatch("t", "e"))
	f.letStoreRemember("s", "t")
	second := f.addHidden(newBatch("s", "late 3"))
	f.tick()
	f.addAndEnd(newBatch("s", "g"), newBatch("s", "h"))
	f.add(newBatch("s", "i"), newBatch("s", "j"))
	f.letStoreRemember("s", "t")
	f.claimExactly("i")
	second()
	assert.Equal(f, []batch.ID{"i", "late 3", "j"}, laneIDs(f.viewLane("s", 9)))
	f.recordEach(f.submitterOutcome, store.Accepted, "i")
	f.recordEach(f.monitorOutcome, store.IsCommitted, "i")
	f.letStoreRemember("s", "t")
	first()
	assert.Equal(f, []batch.ID{"late 1", "late 3", "j"}, laneIDs(f.viewLane("s", 9)))
	f.requireDrains("s", "late 1", "late 3", "j")
	f.requireDrains("t", "late 2")
}

// testLateStep: after a step back the clock gives order keys before keys that were visible
// already. In a lane with batches the new keys still follow the lane's last key. In a lane without
// batches they may be anywhere.
func testLateStep(f *fixture) {
	f.addAndEnd(newBatch("s", "a"))
	f.letStoreRemember("s", "t")
	f.passUnits(-2)
	f.letStoreRemember("s", "t")
	show := f.addHidden(newBatch("s", "late 1"), newBatch("t", "late 2"))
	f.tick()
	f.addAndEnd(newBatch("s", "b"), newBatch("t", "c"))
	f.letStoreRemember("s", "t")
	f.passUnits(3)
	f.addAndEnd(newBatch("t", "d"))
	f.add(newBatch("t", "e"))
	f.letStoreRemember("s", "t")
	show()
	f.requireDrains("s", "late 1")
	f.requireDrains("t", "late 2", "e")
}

// testLateClosed: a closed lane shows no batches, and a store must not remember it as empty.
func testLateClosed(f *fixture) {
	f.addAndEnd(newBatch("s", "a"), newBatch("t", "b"))
	f.letStoreRemember("s", "t")
	f.add(newBatch("s", "c"), newBatch("s", "d"), newBatch("t", "e"))
	f.claimExactly("c")
	show := f.addHidden(newBatch("s", "late 1"), newBatch("t", "late 2"))
	f.tick()
	assert.True(f, f.refuseClaimed("c", batch.PolicyHalt).Halted)
	f.pause(batch.Only("t"))
	f.letStoreRemember("s", "t")
	f.add(newBatch("s", "g"), newBatch("t", "h"))
	f.letStoreRemember("s", "t")
	show()
	require.NoError(f, f.requeue("c", 0))
	f.letStoreRemember("s", "t")
	f.release("s")
	f.resume(batch.Only("t"))
	f.requireDrains("s", "c", "d", "late 1", "g")
	f.requireDrains("t", "e", "late 2", "h")
}

// testLateRolledBack: a store may remember the rows that a claim saw, even if the claim's own
// writes are rolled back.
func testLateRolledBack(f *fixture) {
	rolledBack := func() {
		f.Helper()
		for range 3 {
			shown := 0
			assert.PanicsWithValue(f, "in choose", func() {
				_, err := f.store.Claim(f.ctx, store.ClaimQuery{Lanes: []batch.ServiceID{"s", "t"}, Limit: 9, Window: 9, TTL: f.units(1.5)},
					func(l batch.Lane) []batch.Run {
						if shown++; shown == 2 {
							panic("in choose")
						}
						return chooseEveryReady(l)
					})
				require.NoError(f, err)
			})
			f.waitABit()
		}
	}
	f.addAndEnd(newBatch("s", "a"), newBatch("t", "b"))
	f.add(newBatch("s", "c"), newBatch("t", "d"))
	rolledBack()
	show := f.addHidden(newBatch("s", "late 1"), newBatch("t", "late 2"))
	f.tick()
	f.add(newBatch("s", "e"), newBatch("t", "g"))
	rolledBack()
	f.requireDrains("s", "c", "e")
	f.add(newBatch("s", "h"))
	rolledBack()
	show()
	rolledBack()
	f.requireDrains("s", "late 1", "h")
	f.requireDrains("t", "d", "late 2", "g")
}

func testLateRequeued(f *fixture) {
	f.add(newBatch("s", "a"), newBatch("s", "b"), newBatch("t", "c"))
	f.claimExactly("a")
	f.claimExactly("c")
	f.recordEach(f.submitterOutcome, store.Refused, "a", "c")
	f.requireDrains("s", "b")
	show := func() {}
	var late []batch.ID
	if f.harness.canShowLate() {
		show, late = f.addHidden(newBatch("s", "late")), []batch.ID{"late"}
	}
	f.tick()
	for round := range 2 {
		f.addAndEnd(newBatch("s", batch.ID(fmt.Sprint("s", round))), newBatch("t", batch.ID(fmt.Sprint("t", round))))
		f.letStoreRemember("s", "t")
		f.add(newBatch("s", batch.ID(fmt.Sprint("more", round))))
		f.letStoreRemember("s", "t")
		require.NoError(f, f.requeue("a", 0))
		require.NoError(f, f.requeue("c", 0))
		assert.Equal(f, []batch.ID{"c"}, laneIDs(f.viewLane("t", 9)))
		f.claimExactly("a")
		f.claimExactly("c")
		f.recordEach(f.submitterOutcome, store.Refused, "a", "c")
	}
	f.letStoreRemember("s", "t")
	require.NoError(f, f.requeue("a", 0))
	show()
	f.requireDrains("s", append(append([]batch.ID{"a"}, late...), "more0", "more1")...)
}

// testLateRace: every added batch is claimed, and each adder's batches are claimed in their order,
// although some become visible late and two instances claim at once.
func testLateRace(f *fixture) {
	const adders, each = 3, 12
	lanes := []batch.ServiceID{"s", "t"}
	add := func(who, n int) error {
		b := newBatch(lanes[who%2], batch.ID(fmt.Sprintf("%d %03d", who, n)))
		commit := func() error { return f.store.Add(f.ctx, b) }
		if n%3 == 0 && f.harness.canShowLate() {
			tx, end, _, err := f.harness.Begin(f.ctx)
			if err == nil {
				err = tx.Add(f.ctx, b)
			}
			if err != nil {
				return err
			}
			commit = end
		}
		for range (who + n) % 3 {
			f.waitABit()
		}
		return commit()
	}
	var mu sync.Mutex
	var took []batch.ID
	claim := func() error {
		for end := time.Now().Add(testTimeLimit); time.Now().Before(end); {
			got, err := f.store.Claim(f.ctx, store.ClaimQuery{Lanes: lanes, Limit: 2, Window: 1, TTL: f.units(1.5)}, chooseFront)
			if err != nil {
				return err
			}
			mu.Lock()
			took = append(took, claimedIDs(got)...)
			all := len(took)
			mu.Unlock()
			for _, r := range got.Runs {
				o := store.Outcome{Ref: r.Batches[0].Ref, Version: r.Batches[0].Version, By: batch.BySubmitter, Finding: store.Refused}
				if _, err := f.store.Record(f.ctx, []store.Outcome{o}); err != nil {
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
	for _, err := range runAtOnce(work...) {
		require.NoError(f, err)
	}
	last := map[byte]batch.ID{}
	for _, id := range took {
		assert.Less(f, last[id[0]], id, "of one adder")
		last[id[0]] = id
	}
}
