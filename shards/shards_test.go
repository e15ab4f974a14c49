package shards_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	ledger "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/internal/leak"
	"github.com/dltbatch/dltbatch/shards"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

func TestMain(m *testing.M) { os.Exit(leak.CheckBubbles(m)) }

// fakeShard is a shard in memory, whose first reads fail.
type fakeShard struct {
	*memory.Store
	shard      store.Shard
	mu         sync.Mutex
	readErrors []error
}

func (f *fakeShard) Shard() store.Shard { return f.shard }

// ReadTexts is the first call to the store in a Run.
func (f *fakeShard) ReadTexts(ctx context.Context, kind store.TextKind, names ...string) ([]store.Text, time.Time, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.readErrors) > 0 {
		err := f.readErrors[0]
		f.readErrors = f.readErrors[1:]
		return nil, time.Time{}, err
	}
	return f.Store.ReadTexts(ctx, kind, names...)
}

type (
	shard = shards.Shard[struct{}, *fakeShard]
	set   = shards.Set[struct{}, *fakeShard]
)

func newSet(t *testing.T, n int) (*set, []shard) {
	var list []shard
	for i := range n {
		list = append(list, shard{Store: &fakeShard{Store: memory.New(), shard: store.Shard{Set: "test", Number: i, Of: n}}})
	}
	l := ledger.New(nil)
	s, err := shards.New(func(s shard) (*dltbatch.Runner, error) { return dltbatch.New(s.Store, l, nil) }, list...)
	require.NoError(t, err)
	return s, list
}

// batchOfShard returns a batch of a lane of the shard number.
func batchOfShard(number, of int) batch.Batch {
	for i := 0; ; i++ {
		if lane := batch.ServiceID(fmt.Sprint("lane ", i)); shards.Number(lane, of) == number {
			return batch.Batch{Service: lane, ID: batch.ID(fmt.Sprint("of ", number)), Payload: []byte("x")}
		}
	}
}

// If the first reads of a shard fail, its Run is tried again every 5 s, and the other shards
// deliver meanwhile.
func TestRunTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, list := newSet(t, 3)
		down := errors.New("connection refused")
		list[1].Store.readErrors = []error{down, down, down}
		ctx, stop := context.WithCancel(t.Context())
		began := time.Now()
		var failed []string
		done := make(chan error, 1)
		go func() {
			done <- s.Run(ctx, func(number int, err error) {
				failed = append(failed, fmt.Sprint(number, " after ", time.Since(began), " ", errors.Is(err, down)))
			})
		}()
		for i := range 3 {
			require.NoError(t, s.Add(ctx, batchOfShard(i, 3)))
		}
		for _, i := range []int{0, 2, 1} {
			rec, err := s.Await(ctx, batch.Key{Service: batchOfShard(i, 3).Service, ID: batchOfShard(i, 3).ID})
			require.NoError(t, err)
			assert.Equal(t, batch.Committed, rec.State)
			if i != 1 {
				assert.Less(t, time.Since(began), 5*time.Second, "the others do not wait")
			}
		}
		assert.GreaterOrEqual(t, time.Since(began), 15*time.Second)
		assert.Equal(t, []string{"1 after 0s true", "1 after 5s true", "1 after 10s true"}, failed)
		stop()
		require.NoError(t, <-done)
	})
}

// An error that another try cannot mend ends the Runs of all shards. A stop does not wait for the
// next try.
func TestRunEnds(t *testing.T) {
	for _, final := range []error{
		store.ErrOtherShard, store.ErrNotMigrated, store.ErrNewerSchema, store.ErrUnreleasedSchema, &batch.InputError{Field: "traits"}, dltbatch.ErrOtherLedger,
	} {
		synctest.Test(t, func(t *testing.T) {
			s, list := newSet(t, 3)
			list[1].Store.readErrors = []error{errors.New("connection refused"), fmt.Errorf("look: %w", final)}
			began, failed := time.Now(), 0
			err := s.Run(t.Context(), func(int, error) { failed++ })
			require.ErrorIs(t, err, final)
			require.ErrorContains(t, err, "shard 1: ")
			assert.Equal(t, 5*time.Second, time.Since(began))
			assert.Equal(t, 1, failed)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s, list := newSet(t, 2)
		list[0].Store.readErrors = []error{errors.New("connection refused")}
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		began := time.Now()
		require.NoError(t, s.Run(ctx, nil))
		assert.Less(t, time.Since(began), 5*time.Second)
	})
}

// New accepts all shards of one set, in the order of their numbers, and nothing else.
func TestNew(t *testing.T) {
	list := []shard{}
	for i := range 2 {
		list = append(list, shard{Store: &fakeShard{Store: memory.New(), shard: store.Shard{Set: "test", Number: i, Of: 2}}})
	}
	other := shard{Store: &fakeShard{Store: memory.New(), shard: store.Shard{Set: "prod", Number: 1, Of: 2}}}
	none := shard{Store: &fakeShard{Store: memory.New()}}
	for name, wrong := range map[string][]shard{"none": {}, "swapped": {list[1], list[0]}, "missing": {list[0]}, "twice": {list[0], list[0]}, "other set": {list[0], other}, "no shard": {none}} {
		_, err := shards.New(func(shard) (*dltbatch.Runner, error) { return nil, nil }, wrong...) //nolint:nilnil // nobody uses it
		var in *batch.InputError
		require.ErrorAs(t, err, &in, name)
	}
}

// The batches of an Add belong to one shard, or nothing is stored. Find searches all shards.
func TestAddAndFind(t *testing.T) {
	ctx := t.Context()
	s, _ := newSet(t, 2)
	err := s.Add(ctx, batchOfShard(0, 2), batchOfShard(1, 2))
	var wrong *batch.InputError
	require.ErrorAs(t, err, &wrong)
	assert.Equal(t, "batches[1].Service", wrong.Field)
	require.NoError(t, s.Add(ctx))
	for i := range 2 {
		_, err = s.Get(ctx, batch.Key{Service: batchOfShard(i, 2).Service, ID: batchOfShard(i, 2).ID})
		require.ErrorIs(t, err, batch.ErrNotFound)
		require.NoError(t, s.Add(ctx, batchOfShard(i, 2)))
	}
	found, more, err := s.Find(ctx, store.FindQuery{ID: "of ", Begins: true})
	require.NoError(t, err)
	assert.False(t, more)
	assert.Len(t, found, 2)
	all, err := s.Stats(ctx)
	require.NoError(t, err)
	assert.True(t, all.At.IsZero(), "nobody has counted")
}

// Stats sums the counts of all shards, and lists each process once for each shard.
func TestStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newSet(t, 3)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx, nil) }()
		held := batchOfShard(1, 3)
		_, err := s.Of(held.Service).Runner.Pause(ctx, batch.Only(held.Service), batch.By{Actor: "test"})
		require.NoError(t, err)
		require.NoError(t, s.Add(ctx, held))
		time.Sleep(10 * time.Minute)
		all, err := s.Stats(ctx)
		require.NoError(t, err)
		assert.False(t, all.At.IsZero())
		assert.Equal(t, 1, all.Lanes)
		assert.Equal(t, 1, all.Paused)
		assert.False(t, all.AllPaused)
		assert.Len(t, all.Instances, 3)
		stop()
		require.NoError(t, <-done)
	})
}

// inFlightLedger is a ledger that counts the POSTs in flight.
type inFlightLedger struct {
	*ledger.Ledger
	inFlight, maxInFlight atomic.Int64
}

func (c *inFlightLedger) Submit(ctx context.Context, a batch.Attempt) error {
	now := c.inFlight.Add(1)
	defer c.inFlight.Add(-1)
	for most := c.maxInFlight.Load(); now > most && !c.maxInFlight.CompareAndSwap(most, now); most = c.maxInFlight.Load() {
	}
	return c.Ledger.Submit(ctx, a)
}

// deliverOver delivers 10 batches of each of 200 lanes over n shards, to a ledger that takes 20
// ms. Each shard may have pool POSTs, and as many questions, in flight. It returns the time taken,
// and the most POSTs that were in flight.
func deliverOver(t *testing.T, n, pool int) (took time.Duration, most int64) {
	synctest.Test(t, func(t *testing.T) {
		var list []shard
		for i := range n {
			list = append(list, shard{Store: &fakeShard{Store: memory.New(), shard: store.Shard{Set: "test", Number: i, Of: n}}})
		}
		l := &inFlightLedger{Ledger: ledger.New(&ledger.Options{Latency: 20 * time.Millisecond})}
		s, err := shards.New(func(s shard) (*dltbatch.Runner, error) {
			return dltbatch.New(s.Store, l, &dltbatch.Options{Pool: pool, StatusConnections: pool})
		}, list...)
		require.NoError(t, err)
		for i := range 10 {
			for lane := range 200 {
				require.NoError(t, s.Add(t.Context(), batch.Batch{Service: batch.ServiceID(fmt.Sprint("lane ", lane)), ID: batch.ID(fmt.Sprint(lane, " ", i)), Payload: []byte("x")}))
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		done, began := make(chan error, 1), time.Now()
		go func() { done <- s.Run(ctx, nil) }()
		require.NoError(t, s.Idle(ctx))
		took, most = time.Since(began), l.maxInFlight.Load()
		stop()
		require.NoError(t, <-done)
	})
	return took, most
}

// A Pool that is divided among the shards of a process bounds them together, and delivers about as
// fast as one shard with the whole Pool, because lanes are spread evenly. If each shard has the
// whole Pool, the ledger gets as many times more POSTs.
func TestPoolsOfShards(t *testing.T) {
	one, most := deliverOver(t, 1, 64)
	assert.EqualValues(t, 64, most)
	divided, most := deliverOver(t, 4, 16)
	assert.LessOrEqual(t, most, int64(64))
	assert.Less(t, divided.Seconds(), 1.5*one.Seconds())
	whole, times := deliverOver(t, 4, 64)
	t.Logf("one shard with 64: %s; four with 16: %s; four with 64: %s and %d in flight", one, divided, whole, times)
	assert.Greater(t, times, int64(128))
}
