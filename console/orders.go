package console

import (
	"context"
	"slices"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store"
)

var orderStates = []order.State{order.Queued, order.Dequeued, order.Confirmed, order.Failed, order.Quarantined}

// ordersBody lists orders, and the parties whose orders wait.
type ordersBody struct {
	Party   batch.ServiceID
	Batch   batch.ID
	States  []formChoice
	Rows    []order.Record
	Pages   pageLinks
	Parties []order.PartyLoad
	More    bool // there are parties that are not shown
	Cap     int
	Alone   bool // lists the orders that were refused alone
}

// ordersPage lists orders by age.
func ordersPage(ctx context.Context, v *visit) (*answer, error) {
	party, err := serviceOf(v.query)
	if err != nil {
		return nil, err
	}
	q := order.ListQuery{Party: party, Batch: batch.ID(v.query.Get("batch")), Limit: pageRows, After: store.Cursor(v.query.Get("after"))}
	if key := (batch.Key{ID: q.Batch}); q.Batch != "" && key.Validate() != nil {
		return nil, key.Validate()
	}
	if q.States, err = parse[order.State](v.query["state"]); err != nil {
		return nil, err
	}
	b := ordersBody{Alone: slices.Equal(q.States, []order.State{order.Quarantined}), Party: shownService(q.Party), Batch: q.Batch, Pages: pageLinks{First: q.After == "", Page: "orders"}, States: choices(orderStates, v.query["state"]), Cap: 1000}
	var next store.Cursor
	if b.Rows, next, err = v.desk.ListOrders(ctx, q); err != nil {
		return nil, err
	}
	if next != "" {
		b.Pages.Next = nextPageLink(v.query, "orders", "after", string(next))
	}
	if v.orders != nil && b.Pages.First && q.Party == nil && q.Batch == "" && len(q.States) == 0 {
		if b.Parties, err = v.orders.Parties(ctx, order.PartiesQuery{Start: true, Limit: homeListRows + 1, Cap: b.Cap}); err != nil {
			return nil, err
		}
		if b.More = len(b.Parties) > homeListRows; b.More {
			b.Parties = b.Parties[:homeListRows]
		}
	}
	return &answer{page: "orders", title: "Orders by age", body: b}, nil
}
