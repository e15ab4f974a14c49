package groups_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/groups"
	"github.com/dltbatch/dltbatch/store"
)

// lockingStore is a store in which rows are locked: a write of them waits until it is cut off.
type lockingStore struct {
	fakeStore
	mu        sync.Mutex
	lockedIDs []string
	written   []store.Outcome
}

func newLockingStore(held ...string) *lockingStore {
	l := &lockingStore{lockedIDs: held}
	l.answer = func(ctx context.Context, o []store.Outcome) ([]store.Applied, error) {
		l.mu.Lock()
		locked := slices.ContainsFunc(ids(o), func(id string) bool { return slices.Contains(l.lockedIDs, id) })
		l.mu.Unlock()
		if locked {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		time.Sleep(2 * time.Millisecond)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.written = append(l.written, o...)
		return writtenAnswers(o), nil
	}
	return l
}

func (l *lockingStore) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lockedIDs = nil
}

// findings returns the findings of the outcomes that were written about a batch, in their order.
func (l *lockingStore) findings(id string) (all []store.Finding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range l.written {
		if string(o.Key.ID) == id {
			all = append(all, o.Finding)
		}
	}
	return all
}

// setDefaults sets the times and numbers of a Runner with default options.
func setDefaults(o *groups.Settings) {
	o.MaxItems, o.Timeout, o.RetryFor = 500, 15*time.Second, time.Minute
}

// One locked row delays only the outcomes of the first write, which hangs on it. More outcomes
// about that row delay no others, and are written in their order once the lock ends.
func TestALockedRowHoldsUpNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newLockingStore("locked")
		r := start(t, &f.fakeStore, func(o *groups.Settings) { setDefaults(o); o.RetryFor = time.Hour })
		r.put("locked")
		time.Sleep(20 * time.Second)
		worst := time.Duration(0)
		for i := range 300 {
			id, at := fmt.Sprint("r", i), time.Now()
			if i == 100 {
				r.putVerdicts("locked")
			}
			r.putVerdicts(id)
			time.Sleep(3 * time.Second)
			synctest.Wait()
			require.Contains(t, r.written(), id)
			r.mu.Lock()
			worst = max(worst, r.doneAt[id].Sub(at))
			r.mu.Unlock()
		}
		assert.Less(t, worst, 2*time.Second)
		for _, g := range f.calls() {
			if slices.Contains(g, "locked") {
				require.NotContains(t, g, "r100", "the second outcome about the row waits for the first")
			}
		}
		assert.Empty(t, f.findings("locked"))
		f.release()
		time.Sleep(10 * time.Second)
		assert.Equal(t, []store.Finding{store.Accepted, store.IsCommitted}, f.findings("locked"))
		r.close()
	})
}

// Many locked rows in one group delay the other outcomes of the group, and later outcomes, only
// for a short time.
func TestLockedRowsAreSortedOut(t *testing.T) {
	for _, n := range []int{1, 10} {
		synctest.Test(t, func(t *testing.T) {
			var all, held []string
			for i := range 200 {
				all = append(all, fmt.Sprint("r", i))
			}
			for i := range n {
				held = append(held, all[i*200/n+1])
			}
			f := newLockingStore(held...)
			r := start(t, &f.fakeStore, setDefaults)
			begin := time.Now()
			var together []store.Outcome
			for _, id := range all {
				together = append(together, outcome(id))
			}
			r.Put(together[0], together[1:]...)
			time.Sleep(20 * time.Second)
			r.putVerdicts("later")
			time.Sleep(35 * time.Second)
			synctest.Wait()
			require.Len(t, r.written(), 200-n+1, "all others")
			r.mu.Lock()
			assert.Less(t, r.doneAt["later"].Sub(begin), 22*time.Second)
			r.mu.Unlock()
			f.release()
			time.Sleep(20 * time.Second)
			assert.Len(t, r.written(), 201, "none of them was given up")
			r.close()
		})
	}
}

// An outcome that waits behind an earlier one of its batch is given up after RetryFor like any
// other, so memory stays bounded.
func TestWhatWaitsForItsTurnIsGivenUpInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var held []string
		for i := range 400 {
			held = append(held, fmt.Sprint("r", i))
		}
		f := newLockingStore(held...)
		r := start(t, &f.fakeStore, setDefaults)
		r.put(held...)
		r.putVerdicts("r0")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		r.mu.Lock()
		assert.Len(t, r.lostIDs, 401)
		r.mu.Unlock()
		f.release()
		r.putVerdicts("r1") // an outcome that was given up holds up none behind it
		time.Sleep(time.Second)
		assert.Equal(t, []store.Finding{store.IsCommitted}, f.findings("r1"))
		r.close()
	})
}

// A later outcome of a batch is not written before an earlier one, even if both are in one group
// and only the write of the earlier fails.
func TestOutcomesOfABatchKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails, got := 3, []store.Finding(nil)
		f := &fakeStore{answer: func(_ context.Context, o []store.Outcome) ([]store.Applied, error) {
			if o[0].Finding == store.Accepted && fails > 0 {
				fails--
				return nil, errTest
			}
			for _, x := range o {
				if x.Key.ID == "a" {
					got = append(got, x.Finding)
				}
			}
			return writtenAnswers(o), nil
		}}
		r := start(t, f, nil)
		first, last := outcome("a"), outcome("a")
		last.Finding, last.By = store.IsCommitted, batch.ByMonitor
		r.Put(first, outcome("b"), last, outcome("c"))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		assert.Equal(t, []store.Finding{store.Accepted, store.IsCommitted}, got)
		assert.ElementsMatch(t, []string{"a", "b", "a", "c"}, r.written())
		r.close()
	})
}

// A later outcome that arrives alone waits, and is not lost, while an earlier outcome of its batch
// could not be written yet.
func TestALaterOutcomeThatComesAloneWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		var got []store.Finding
		down.Store(true)
		f := &fakeStore{answer: func(_ context.Context, o []store.Outcome) ([]store.Applied, error) {
			if down.Load() {
				return nil, errTest
			}
			for _, x := range o {
				got = append(got, x.Finding)
			}
			return writtenAnswers(o), nil
		}}
		r := start(t, f, nil)
		last := outcome("a")
		last.Finding, last.By = store.IsCommitted, batch.ByMonitor
		r.Put(outcome("a"))
		time.Sleep(20 * time.Millisecond)
		r.Put(last)
		time.Sleep(20 * time.Millisecond)
		down.Store(false)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		assert.Equal(t, []store.Finding{store.Accepted, store.IsCommitted}, got)
		r.close()
	})
}
