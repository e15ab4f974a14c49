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
	One     bool // of one lane
	Acts    []batch.Act
	More    int // that are not shown
	// Lanes are the lanes that are held: their acts are in the list, beside those upon everything.
	Lanes []batch.Control
}

// audit shows who did what, to a lane, or to everything and to the lanes that are held.
func audit(ctx context.Context, v *visit) (*answer, error) {
	var b auditBody
	scopes := []batch.Scope{batch.Everything()}
	one, err := only(v.q)
	if err != nil {
		return nil, err
	}
	if one != nil {
		b.Service, b.One, scopes = *one, true, []batch.Scope{batch.Only(*one)}
	} else {
		held, err := v.desk.Controls(ctx, store.ControlsQuery{Start: true, Limit: homeRows})
		if err != nil {
			return nil, err
		}
		for _, c := range held {
			scopes = append(scopes, c.Scope)
		}
		b.Lanes = held
	}
	for _, s := range scopes {
		acts, err := v.desk.LaneHistory(ctx, s)
		if err != nil {
			return nil, err
		}
		b.Acts = append(b.Acts, acts...)
	}
	slices.SortStableFunc(b.Acts, func(a, b batch.Act) int { return b.At.Compare(a.At) })
	if b.More = len(b.Acts) - pageRows; b.More > 0 {
		b.Acts = b.Acts[:pageRows]
	}
	return &answer{page: "audit", title: "Who did what", body: b}, nil
}
