package console

import (
	"context"
	"errors"
	"strings"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/store"
)

// searchBody is the result of a search that did not find one batch.
type searchBody struct {
	Q       string
	Service batch.ServiceID
	Asked   bool
	// Lane says that the words are the name of a lane with open batches, or with a control;
	// Party, that they are the name of a party with orders.
	Lane, Party bool
	// Begin are the oldest open batches whose ids begin with the words. Incomplete says that there
	// may be others.
	Begin      []batch.Record
	Incomplete bool
}

// search finds a batch by its id, or by the caller's own key in a service; a lane, or a party, by its
// name; open batches by the beginning of the id. One batch is shown at once.
func search(ctx context.Context, v *visit) (*answer, error) {
	b := searchBody{Q: strings.TrimSpace(v.q.Get("q")), Service: batch.ServiceID(v.q.Get("service"))}
	b.Asked = b.Q != ""
	if b.Asked {
		for _, q := range []store.FindQuery{{ID: batch.ID(b.Q)}, {Service: b.Service, DataChangeID: b.Q}} {
			rec, err := v.desk.Find(ctx, q)
			if err == nil {
				return &answer{to: batchLink(rec.Key)}, nil
			}
			if !errors.Is(err, batch.ErrNotFound) && !errors.Is(err, batch.ErrInvalidInput) {
				return nil, err
			}
		}
		if err := names(ctx, v.desk, &b); err != nil {
			return nil, err
		}
		found, err := v.desk.Search(ctx, operator.SearchQuery{Prefix: batch.ID(b.Q), Limit: homeRows})
		if err != nil {
			return nil, err
		}
		b.Begin, b.Incomplete = found.Batches, found.Incomplete
	}
	return &answer{page: "search", title: "Search", body: b}, nil
}

// names looks for a lane and a party.
func names(ctx context.Context, desk *operator.Desk, b *searchBody) error {
	service := batch.ServiceID(b.Q)
	if batch.Only(service).Validate() != nil {
		return nil //nolint:nilerr // nothing has a name that no store takes
	}
	control, err := desk.Control(ctx, batch.Only(service))
	if err != nil {
		return err
	}
	counts, err := desk.Lanes(ctx, store.CountsQuery{Service: &service, Cap: 1})
	if err != nil {
		return err
	}
	for _, l := range counts {
		b.Lane = b.Lane || l.Waiting > 0 || len(l.Attempted) > 0
	}
	b.Lane = b.Lane || control.Version > 0
	found, _, err := desk.ListOrders(ctx, order.ListQuery{Party: &service, Limit: 1})
	if errors.Is(err, store.ErrUnsupported) {
		return nil
	}
	b.Party = len(found) > 0
	return err
}
