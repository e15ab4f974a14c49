package autobatch_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
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

// buildTimes records when the Builder is called for each party.
type buildTimes struct {
	orderBuilder
	fail func(party batch.ServiceID) error

	mu      sync.Mutex
	byParty map[batch.ServiceID][]time.Time
}

func (m *buildTimes) BuildRound(ctx context.Context, party batch.ServiceID, orders []order.Order, round int64) (batch.Batch, error) {
	m.mu.Lock()
	if m.byParty == nil {
		m.byParty = map[batch.ServiceID][]time.Time{}
	}
	m.byParty[party] = append(m.byParty[party], time.Now())
	m.mu.Unlock()
	if m.fail != nil {
		if err := m.fail(party); err != nil {
			return batch.Batch{}, err
		}
	}
	return m.orderBuilder.BuildRound(ctx, party, orders, round)
}

func (m *buildTimes) timesOf(party batch.ServiceID) []time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.byParty[party]
}

// A batch that has used up its budget gives its orders back. The party then waits for
// RetryInterval, so that a ledger that could not be reached is not tried again at once.
func TestAPartyRestsAfterABudgetIsUsedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, b := memory.New(), &buildTimes{}
		const pause = 5 * time.Minute
		e, err := autobatch.New(st, b, &autobatch.Options{RetryInterval: pause})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- e.Run(ctx) }()
		require.NoError(t, e.Add(ctx, newOrder("p", 1)))
		time.Sleep(time.Second)
		claimed, err := st.Claim(ctx, store.ClaimQuery{Lanes: []batch.ServiceID{"p"}, Limit: 1, Window: 1, TTL: time.Minute},
			func(batch.Lane) []batch.Run { return []batch.Run{{0}} })
		require.NoError(t, err)
		c := claimed.Runs[0].Batches[0]
		used := time.Now()
		applied, err := st.Record(ctx, []store.Outcome{{
			Ref: c.Ref, Version: c.Version, By: batch.BySubmitter, Finding: store.Refused,
			Error: &batch.SubmissionError{Kind: batch.KindExhausted, Message: "1 of 1"},
		}})
		require.NoError(t, err)
		require.Equal(t, batch.Rejected, applied[0].Row.State)
		time.Sleep(3 * pause)
		require.Len(t, b.timesOf("p"), 2)
		rested := b.timesOf("p")[1].Sub(used)
		assert.GreaterOrEqual(t, rested, pause)
		assert.Less(t, rested, pause+10*time.Second)
		stop()
		require.NoError(t, <-done)
	})
}

// crowdedStore is a store whose oldest settleable batches are in doubt for ever.
type crowdedStore struct {
	*memory.Store
	heldBatches int
}

func (c crowdedStore) SettleableBatches(ctx context.Context, limit int) ([]order.Batch, error) {
	all := make([]order.Batch, 0, limit)
	for i := range c.heldBatches {
		key := batch.Key{Service: "held", ID: batch.ID(fmt.Sprint("held ", i))}
		all = append(all, order.Batch{
			Record: batch.Record{Key: key, State: batch.Invalid, Version: 3, FinalAt: time.Now(), DoubtSince: time.Now()},
			Orders: []order.Ref{{ID: order.ID(key.ID), Version: 2}},
		})
	}
	more, err := c.Store.SettleableBatches(ctx, limit)
	return append(all, more...)[:min(limit, len(all)+len(more))], err
}

// Batches that cannot be settled yet, however many, do not hide younger ones.
func TestHeldBatchesHideNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := crowdedStore{Store: memory.New(), heldBatches: 1000}
		e, err := autobatch.New(st, orderBuilder{}, nil)
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- e.Run(ctx) }()
		require.NoError(t, e.Add(ctx, newOrder("p", 1)))
		time.Sleep(time.Second)
		open, _, err := st.List(ctx, store.ListQuery{Open: true})
		require.NoError(t, err)
		require.Len(t, open, 1)
		_, err = st.Cancel(ctx, open[0], batch.By{Actor: "test", Reason: "the quickest verdict"})
		require.NoError(t, err)
		time.Sleep(30 * time.Second)
		final, _, err := st.FinalOrders(ctx, []order.ID{newOrder("p", 1).ID})
		require.NoError(t, err)
		assert.Len(t, final, 1)
		stop()
		require.NoError(t, <-done)
	})
}

// A party whose Builder fails is left alone for a time that grows with each failure.
func TestAFailingPartyIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &buildTimes{fail: func(batch.ServiceID) error { return errors.New("away") }}
		e, err := autobatch.New(memory.New(), b, nil)
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- e.Run(ctx) }()
		require.NoError(t, e.Add(ctx, newOrder("p", 1)))
		time.Sleep(time.Hour)
		stop()
		require.NoError(t, <-done)
		at := b.timesOf("p")
		assert.Greater(t, len(at), 50, "once a minute in the end")
		assert.Less(t, len(at), 90)
		assert.GreaterOrEqual(t, at[1].Sub(at[0]), 800*time.Millisecond)
		assert.GreaterOrEqual(t, at[len(at)-1].Sub(at[len(at)-2]), 48*time.Second)
	})
}
