package autobatch_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

func newOrder(party batch.ServiceID, i int) order.Order {
	return order.Order{ID: order.ID(fmt.Sprintf("%s-%03d", party, i)), Party: party, Payload: []byte(payPayload)}
}

func awaitOrder(t *testing.T, e *autobatch.Engine, id order.ID) order.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	rec, err := e.Await(ctx, id)
	require.NoError(t, err)
	return rec
}

func TestDisabled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &countingStore{Store: memory.New()}
		e, err := autobatch.New(st, orderBuilder{}, &autobatch.Options{Disabled: true})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		require.ErrorIs(t, e.Add(ctx, newOrder("p", 1)), autobatch.ErrDisabled)
		require.NoError(t, st.AddOrders(ctx, newOrder("p", 1))) // as another instance would
		e.Wake()
		require.NoError(t, e.Run(ctx), "it only waits")
		require.ErrorIs(t, ctx.Err(), context.DeadlineExceeded)
		assert.Zero(t, st.calls.Load(), "no loops at all")
	})
}

// countingStore is a store that counts calls, and fails when the test wants.
type countingStore struct {
	*memory.Store
	calls       atomic.Int64
	finalsCalls atomic.Int64
	isDown      atomic.Bool
	isRefused   func(order.Settlement) bool // reports whether the database refuses a settlement
}

func (c *countingStore) countCall() error {
	c.calls.Add(1)
	if c.isDown.Load() {
		return errors.New("the database is away")
	}
	return nil
}

func (c *countingStore) Parties(ctx context.Context, q order.PartiesQuery) ([]order.PartyLoad, error) {
	if err := c.countCall(); err != nil {
		return nil, err
	}
	return c.Store.Parties(ctx, q)
}

func (c *countingStore) SettleableBatches(ctx context.Context, n int) ([]order.Batch, error) {
	if err := c.countCall(); err != nil {
		return nil, err
	}
	return c.Store.SettleableBatches(ctx, n)
}

func (c *countingStore) ExpireOrders(ctx context.Context, n int) ([]order.Verdict, error) {
	if err := c.countCall(); err != nil {
		return nil, err
	}
	return c.Store.ExpireOrders(ctx, n)
}

func (c *countingStore) FinalOrders(ctx context.Context, ids []order.ID) ([]order.Record, []order.ID, error) {
	c.finalsCalls.Add(1)
	return c.Store.FinalOrders(ctx, ids)
}

func (c *countingStore) SettleOrders(ctx context.Context, settled []order.Settlement) ([]bool, error) {
	for _, s := range settled {
		if c.isRefused != nil && c.isRefused(s) {
			return nil, errors.New("this row is broken")
		}
	}
	return c.Store.SettleOrders(ctx, settled)
}

// Each loop repeats a failed call after 10 ms to 5 s, and goes on when the database is back.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &countingStore{Store: memory.New()}
		st.isDown.Store(true)
		e, err := autobatch.New(st, orderBuilder{}, nil)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- e.Run(ctx) }()
		time.Sleep(10 * time.Minute)
		assert.Less(t, st.calls.Load(), int64(3*150), "10 ms doubling to 5 s")
		assert.Greater(t, st.calls.Load(), int64(3*100))
		require.ErrorIs(t, e.Run(ctx), autobatch.ErrRunning)
		st.isDown.Store(false)
		require.NoError(t, e.Add(ctx, newOrder("p", 1)))
		time.Sleep(8 * time.Second)
		got, err := st.NextOrders(ctx, "p", order.NextQuery{Max: 1})
		require.NoError(t, err)
		assert.Empty(t, got, "it is part of a batch")
		cancel()
		require.NoError(t, <-done)
	})
}

// Any number of Awaits make one query in an interval.
func TestAwaitsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &countingStore{Store: memory.New()}
		e, err := autobatch.New(st, orderBuilder{}, nil)
		require.NoError(t, err)
		_, err = e.Await(t.Context(), "nobody's")
		require.ErrorIs(t, err, batch.ErrNotFound)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var wg sync.WaitGroup
		for i := range 1000 {
			require.NoError(t, e.Add(ctx, newOrder("p", i)))
			wg.Go(func() {
				_, err := e.Await(ctx, newOrder("p", i).ID)
				assert.ErrorIs(t, err, context.DeadlineExceeded)
			})
		}
		wg.Wait()
		assert.LessOrEqual(t, st.finalsCalls.Load(), int64(13))
	})
}

// A party whose Builder fails, panics, hangs or returns no batch holds up no other party, and no
// order is lost: the party goes on when the Builder works again.
func TestBuildersFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mended atomic.Bool
		trip := func(ctx context.Context, party batch.ServiceID, orders []order.Order) (batch.Batch, error) {
			b, err := orderBuilder{}.Build(ctx, party, orders)
			if mended.Load() {
				return b, err
			}
			switch party {
			case "error":
				return b, errors.New("away")
			case "panic":
				panic("bug")
			case "party":
				b.Service = "another"
			case "invalid":
				b.ID = ""
			}
			if strings.HasPrefix(string(party), "hang") {
				<-ctx.Done()
				return b, ctx.Err()
			}
			return b, err
		}
		var told sync.Map
		r := newEngineTest(t, order.BuilderFunc(trip), &autobatch.Options{
			Workers: 4, BuildTimeout: 10 * time.Second, Observer: func(ev autobatch.OrderEvent) {
				if ev.Kind == autobatch.EventTrouble {
					told.Store(ev.Party, ev.Err)
				}
				panic("a bug in the observer, too")
			},
		}, nil)
		broken := []batch.ServiceID{"error", "panic", "party", "invalid"}
		for i := range 20 {
			broken = append(broken, batch.ServiceID(fmt.Sprint("hang", i)))
		}
		for _, p := range broken {
			require.NoError(t, r.engine.Add(t.Context(), newOrder(p, 1), newOrder(p, 2)))
		}
		time.Sleep(5 * time.Minute)
		for i := range 10 {
			start := time.Now()
			require.NoError(t, r.engine.Add(t.Context(), newOrder("good", i)))
			require.Equal(t, order.Confirmed, awaitOrder(t, r.engine, newOrder("good", i).ID).State)
			assert.Less(t, time.Since(start), 2*time.Second, "others are not held up")
		}
		mended.Store(true)
		for _, p := range broken {
			err, _ := told.Load(p)
			require.Error(t, err.(error), p)
			require.Equal(t, order.Confirmed, awaitOrder(t, r.engine, newOrder(p, 1).ID).State, p)
			require.Equal(t, order.Confirmed, awaitOrder(t, r.engine, newOrder(p, 2).ID).State, p)
		}
		r.stopAndWait()
	})
}

// A settlement that the database refuses delays no other.
func TestABrokenSettlement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &countingStore{Store: memory.New(), isRefused: func(s order.Settlement) bool { return s.Batch.Service == "bad" }}
		e, err := autobatch.New(st, orderBuilder{}, nil)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- e.Run(ctx) }()
		for i, p := range []batch.ServiceID{"a", "bad", "c"} {
			require.NoError(t, e.Add(ctx, newOrder(p, i)))
		}
		time.Sleep(time.Second)
		open, _, err := st.List(ctx, store.ListQuery{Open: true})
		require.NoError(t, err)
		require.Len(t, open, 3)
		for _, b := range open { // a cancellation ends a batch at once
			_, err := st.Cancel(ctx, b, batch.By{Actor: "test", Reason: "no longer wanted"})
			require.NoError(t, err)
		}
		for i, p := range []batch.ServiceID{"a", "", "c"} {
			if p == "" {
				continue
			}
			rec := awaitOrder(t, e, newOrder(p, i).ID)
			require.Equal(t, order.Failed, rec.State)
			require.Equal(t, batch.KindCancelled, rec.Error.Kind)
		}
		final, _, err := st.FinalOrders(ctx, []order.ID{newOrder("bad", 1).ID})
		require.NoError(t, err)
		require.Empty(t, final)
		cancel()
		require.NoError(t, <-done)
	})
}

// A stop ends within Drain, even if the Builder ignores its context.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		deaf := order.BuilderFunc(func(context.Context, batch.ServiceID, []order.Order) (batch.Batch, error) {
			<-free
			return batch.Batch{}, errors.New("away")
		})
		e, err := autobatch.New(memory.New(), deaf, nil)
		require.NoError(t, err)
		require.NoError(t, e.Add(t.Context(), newOrder("p", 1)))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		require.ErrorIs(t, e.Run(ctx), autobatch.ErrDrain)
		assert.Equal(t, 90*time.Second, time.Since(start))
		close(free)
	})
}

// A batch that the ledger's check refuses is not stored, because it would hold up its party for
// good.
func TestABatchThatFailsItsCheckIsNotStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		var mu sync.Mutex
		var troubles []error
		corrupt := &batch.InputError{Field: "Payload", Want: "what the ledger can read"}
		refused := 0
		e, err := autobatch.New(st, orderBuilder{}, &autobatch.Options{
			Check: func(batch.Batch) error {
				if refused++; refused <= 2 {
					return corrupt
				}
				return nil
			},
			Observer: func(e autobatch.OrderEvent) {
				if e.Err != nil {
					mu.Lock()
					defer mu.Unlock()
					troubles = append(troubles, e.Err)
				}
			},
		})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- e.Run(ctx) }()
		require.NoError(t, e.Add(ctx, order.Order{ID: "o", Party: "p", Payload: []byte(payPayload)}))
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		stored, _, err := st.List(ctx, store.ListQuery{})
		require.NoError(t, err)
		require.Empty(t, stored)
		mu.Lock()
		require.Len(t, troubles, 1)
		require.ErrorIs(t, troubles[0], corrupt)
		mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		stored, _, err = st.List(ctx, store.ListQuery{})
		require.NoError(t, err)
		require.Len(t, stored, 1, "built again, and good")
		cancel()
		require.NoError(t, <-done)
	})
}
