package console

import (
	"context"
	"slices"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// auditBody lists acts, the newest first.
type auditBody struct {
	Service batch.ServiceID
	One     bool // the list is of one lane
	Acts    []batch.Act
	Pages   pageLinks
}

// auditPage shows who did what: to all batches, to all lanes and to everything, or to one lane.
func auditPage(ctx context.Context, v *visit) (*answer, error) {
	b := auditBody{Pages: pageLinks{First: true, Page: "audit"}}
	one, err := serviceOf(v.query)
	if err != nil {
		return nil, err
	}
	if one != nil {
		b.Service, b.One = *one, true
		if b.Acts, err = v.desk.LaneHistory(ctx, batch.Only(*one)); err != nil { // at most a hundred
			return nil, err
		}
		slices.Reverse(b.Acts)
	} else {
		q := store.ActsQuery{After: store.Cursor(v.query.Get("after")), Limit: pageRows}
		var next store.Cursor
		if b.Acts, next, err = v.desk.Acts(ctx, q); err != nil {
			return nil, err
		}
		if b.Pages.First = q.After == ""; next != "" {
			b.Pages.Next = nextPageLink(v.query, "audit", "after", string(next))
		}
	}
	return &answer{page: "audit", title: "Who did what", body: b}, nil
}
