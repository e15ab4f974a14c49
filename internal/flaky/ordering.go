package flaky

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store"
)

// newOrders returns n new orders of a party.
func (e *trial) newOrders(n int, deadline time.Time) (all []order.Order) {
	party := batch.ServiceID(e.name + "p")
	e.dumpedParties = []batch.ServiceID{party}
	for i := range n {
		all = append(all, order.Order{ID: order.ID(fmt.Sprint(e.name, "o", i)), Party: party, Payload: []byte("x"), Key: fmt.Sprint(e.name, i), Deadline: deadline})
	}
	return all
}

// addOrders adds n new orders.
func (e *trial) addOrders(n int, deadline time.Time) (refs []order.Ref) {
	e.Helper()
	all := e.newOrders(n, deadline)
	require.NoError(e, e.Faultless.AddOrders(e.Context(), all...))
	for _, o := range all {
		refs = append(refs, order.Ref{ID: o.ID, Version: 1})
	}
	return refs
}

// verdictsOf returns verdicts that put all orders into a state.
func verdictsOf(refs []order.Ref, state order.State, group string) (all []order.Verdict) {
	for _, r := range refs {
		v := order.Verdict{Ref: r, State: state, Group: group}
		if state == order.Failed {
			v.Error = &batch.SubmissionError{Kind: batch.KindRejected, Message: "no"}
		}
		all = append(all, v)
	}
	return all
}

func orderOperations() []operation {
	queued := func(e *trial) { e.prepared = e.addOrders(3, time.Time{}) }
	refs := func(e *trial) []order.Ref { return e.prepared.([]order.Ref) }
	return []operation{
		{
			name: "add orders", prepare: func(e *trial) { e.prepared = e.newOrders(3, time.Time{}) },
			run: func(e *trial) (any, error) {
				return nil, e.Store.AddOrders(e.Context(), e.prepared.([]order.Order)...)
			},
		},
		{
			name: "make a batch of orders", prepare: func(e *trial) { queued(e); e.newBatch("p", "made") },
			run: func(e *trial) (any, error) {
				return e.Store.PrepareBatch(e.Context(), e.newBatch("p", "made"), refs(e))
			},
		},
		{
			name: "settle orders", hasSeveralTransactions: true, // after a lost answer, the repeated call returns false
			prepare: func(e *trial) {
				queued(e)
				did, err := e.Faultless.PrepareBatch(e.Context(), e.newBatch("p", "made"), refs(e))
				require.NoError(e, err)
				require.True(e, did)
				got, err := e.claimLanes(e.Faultless, 1000, "p")
				require.NoError(e, err)
				c := sortedClaims(got)[0]
				_, err = e.recordOutcomes(e.Faultless, []store.Outcome{{Ref: c.Ref, Version: c.Version, By: batch.BySubmitter, Finding: store.IsCommitted}})
				require.NoError(e, err)
				rec, err := e.Faultless.Get(e.Context(), c.Key)
				require.NoError(e, err)
				dequeued := refs(e)
				for i := range dequeued {
					dequeued[i].Version = 2
				}
				e.prepared = order.Settlement{Batch: c.Key, Version: rec.Version, Orders: verdictsOf(dequeued, order.Confirmed, "")}
			},
			run: func(e *trial) (any, error) {
				return e.Store.SettleOrders(e.Context(), []order.Settlement{e.prepared.(order.Settlement)})
			},
		},
		{
			name: "fail orders", prepare: queued,
			run: func(e *trial) (any, error) {
				return e.Store.FailOrders(e.Context(), verdictsOf(refs(e), order.Failed, ""))
			},
		},
		{
			name: "split orders", prepare: queued,
			run: func(e *trial) (any, error) {
				return e.Store.SplitOrders(e.Context(), verdictsOf(refs(e), order.Queued, "g"))
			},
		},
		{
			name: "expire orders", hasSeveralTransactions: true, prepare: func(e *trial) { e.addOrders(3, time.Now().Add(-time.Hour)) },
			run: func(e *trial) (any, error) {
				_, err := e.Store.ExpireOrders(e.Context(), 9)
				return nil, err
			},
		},
	}
}
