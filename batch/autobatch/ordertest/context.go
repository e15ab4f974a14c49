package ordertest

import (
	"context"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store"
)

func contextTests() []test {
	return []test{{name: "a context that is done changes nothing", run: contextDone}}
}

func contextDone(f *fixture) {
	party, _ := f.oneOfEach()
	f.finish(newBatch(party, "open"), store.Refused)
	late := newOrder("q", "late")
	late.Deadline = f.now().Add(-f.units(1))
	f.add(newOrder(party, "more"), late)
	was, b := f.list(party), f.settleable()
	rs := refsOf(f.nextOrders(party, 9))
	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	for name, call := range map[string]func() error{
		"AddOrders":   func() error { return f.store.AddOrders(ctx, newOrder(party, "new")) },
		"FinalOrders": func() error { _, _, err := f.store.FinalOrders(ctx, []order.ID{"a"}); return err },
		"ListOrders":  func() error { _, _, err := f.store.ListOrders(ctx, order.ListQuery{}); return err },
		"Parties": func() error {
			_, err := f.store.Parties(ctx, order.PartiesQuery{Start: true, Limit: 9, Cap: 9})
			return err
		},
		"NextOrders": func() error { _, err := f.store.NextOrders(ctx, party, order.NextQuery{Max: 9}); return err },
		"PrepareBatch": func() error {
			_, err := f.store.PrepareBatch(ctx, newBatch("q", "new"), []order.Ref{{ID: "late", Version: 1}})
			return err
		},
		"SettleableBatches": func() error { _, err := f.store.SettleableBatches(ctx, 9); return err },
		"SettleOrders": func() error {
			_, err := f.store.SettleOrders(ctx, []order.Settlement{settlement(b, order.Verdict{State: order.Failed})})
			return err
		},
		"FailOrders": func() error {
			_, err := f.store.FailOrders(ctx, verdictsOn(rs, order.Verdict{State: order.Failed}))
			return err
		},
		"SplitOrders": func() error {
			_, err := f.store.SplitOrders(ctx, verdictsOn(rs, order.Verdict{State: order.Queued, Group: "g"}))
			return err
		},
		"ExpireOrders": func() error { _, err := f.store.ExpireOrders(ctx, 9); return err },
		"Prune":        func() error { _, err := f.store.Prune(ctx, store.PruneQuery{}); return err },
	} {
		assert.ErrorIs(f, call(), context.Canceled, name)
	}
	assert.Equal(f, was, f.list(party))
	assert.Equal(f, order.Queued, f.record("q", "late").State)
}
