package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store"
)

// What a text given to [Desk.Lookup] may be.
const (
	ByBatchID  = "batch id"
	ByBatchKey = "batch key" // [batch.Batch].DataChangeID
	ByTag      = "batch tag" // one of [batch.Tags]; the name is "name=value"
	ByOrderID  = "order id"
	ByOrderKey = "order key" // [order.Order].Key
	ByLane     = "lane"
)

// Lookup is an answer of [Desk.Lookup].
type Lookup struct {
	Hits []Hit `json:"hits"` // exact hits first
	// More is true if the text is the beginning of further names.
	More bool `json:"more,omitzero"`
}

// Hit is one thing that a text names: a batch, an order or a lane.
type Hit struct {
	By    string `json:"by"`             // ByBatchID and so on
	Whole bool   `json:"whole,omitzero"` // the text is the whole name, and not its beginning
	Name  string `json:"name"`           // that the text is, or begins
	// Exactly one of these is set.
	Batch *batch.Record    `json:"batch,omitempty"`
	Order *order.Record    `json:"order,omitempty"`
	Lane  *batch.ServiceID `json:"lane,omitempty"`
}

// Lookup returns everything that a text may name: batches by their ids and by their callers' keys,
// orders by theirs, and lanes. The text may be a whole name or its beginning, and for batches a
// whole tag ("invoice=4711") or a tag's whole value. Lookup returns up to limit hits of each kind
// (0 means 10; at most 100). Batches and orders may be open or final; batches may also be removed
// by retention. Upper and lower case differ. It needs a store with [store.CanFind]; its cost grows
// with the limit, not with the number of stored batches.
func (d *Desk) Lookup(ctx context.Context, text string, limit int) (Lookup, error) {
	found := Lookup{Hits: []Hit{}}
	if text == "" {
		return found, nil
	}
	for _, find := range [...]func(context.Context, string, int, *Lookup) error{d.lanesLike, d.batchesLike, d.batchesTagged, d.ordersLike} {
		if err := find(ctx, text, limit, &found); err != nil {
			return Lookup{}, fmt.Errorf("look %q up: %w", batch.Excerpt(text, 64), err)
		}
	}
	// The hits of each kind are sorted in byte order, in which a whole name comes before longer
	// names that begin with it.
	slices.SortStableFunc(found.Hits, func(a, b Hit) int {
		switch {
		case a.Whole == b.Whole:
			return 0
		case a.Whole:
			return -1
		}
		return 1
	})
	return found, nil
}

func (l *Lookup) add(text string, h Hit) {
	h.Whole = h.Name == text
	l.Hits = append(l.Hits, h)
}

func (d *Desk) lanesLike(ctx context.Context, text string, limit int, found *Lookup) error {
	q := store.FindLanesQuery{Name: batch.ServiceID(text), Begins: true, Limit: limit}
	lanes, err := d.store.FindLanes(ctx, q)
	for _, lane := range lanes {
		found.add(text, Hit{By: ByLane, Name: string(lane), Lane: &lane})
	}
	found.More = found.More || len(lanes) >= q.Bounded().Limit
	return err
}

func (d *Desk) batchesLike(ctx context.Context, text string, limit int, found *Lookup) error {
	for _, way := range []struct {
		field string
		q     store.FindQuery
		name  func(batch.Record) string
	}{
		{ByBatchID, store.FindQuery{ID: batch.ID(text)}, func(r batch.Record) string { return string(r.ID) }},
		{ByBatchKey, store.FindQuery{DataChangeID: text}, func(r batch.Record) string { return r.DataChangeID }},
	} {
		way.q.Limit = limit
		recs, more, err := d.findWholeAndPrefix(ctx, way.q)
		if err != nil {
			return err
		}
		for _, rec := range recs {
			found.add(text, Hit{By: way.field, Name: way.name(rec), Batch: &rec})
		}
		found.More = found.More || more
	}
	return nil
}

// findWholeAndPrefix finds batches by a whole name and by its beginning. If many names begin with
// the text, the store may not return the whole one, so this asks for it separately.
func (d *Desk) findWholeAndPrefix(ctx context.Context, q store.FindQuery) ([]batch.Record, bool, error) {
	whole, more, err := d.store.Find(ctx, q)
	if err != nil {
		return nil, false, err
	}
	q.Begins = true
	begun, alsoMore, err := d.store.Find(ctx, q)
	for _, rec := range begun {
		if !slices.ContainsFunc(whole, func(w batch.Record) bool { return w.Key == rec.Key }) {
			whole = append(whole, rec)
		}
	}
	return whole, more || alsoMore, err
}

// batchesTagged finds batches by a whole tag, or by a tag's whole value.
func (d *Desk) batchesTagged(ctx context.Context, text string, limit int, found *Lookup) error {
	tag, err := batch.ParseTag(text)
	if err != nil || tag.Validate() != nil || !d.store.Abilities().Has(store.CanList) {
		return nil //nolint:nilerr // no batch has an invalid tag
	}
	recs, next, err := d.store.List(ctx, store.ListQuery{Tag: tag, Limit: store.FindQuery{Limit: limit}.Bounded().Limit})
	for _, rec := range recs {
		name := tag
		for n, value := range rec.Tags {
			if value == tag.Value && (name.Name == "" || n < name.Name) {
				name.Name = n
			}
		}
		if tag.Name != "" {
			name = tag
		}
		found.Hits = append(found.Hits, Hit{By: ByTag, Whole: true, Name: name.String(), Batch: &rec})
	}
	found.More = found.More || next != ""
	return err
}

func (d *Desk) ordersLike(ctx context.Context, text string, limit int, found *Lookup) error {
	orders, ok := d.store.(order.Store)
	if !ok {
		return nil
	}
	for _, way := range []struct {
		field string
		q     order.FindQuery
		name  func(order.Record) string
	}{
		{ByOrderID, order.FindQuery{ID: order.ID(text), Begins: true, Limit: limit}, func(r order.Record) string { return string(r.ID) }},
		{ByOrderKey, order.FindQuery{Key: text, Begins: true, Limit: limit}, func(r order.Record) string { return r.Key }},
	} {
		recs, more, err := orders.FindOrders(ctx, way.q)
		if errors.Is(err, store.ErrUnsupported) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, rec := range recs {
			found.add(text, Hit{By: way.field, Name: way.name(rec), Order: &rec})
		}
		found.More = found.More || more
	}
	return nil
}

// AmbiguousError says that a text names more than one thing, by the beginning of its name or by
// its caller's key. It is a [batch.ErrInvalidInput].
type AmbiguousError struct {
	What  string   // "batch" or "lane"
	Text  string   // the text that was given
	Key   bool     // true if the text is the whole key of at least one batch
	Names []string // the names of the batches or lanes
	More  bool     // there are more than Names
}

// Error implements error.
func (e *AmbiguousError) Error() string {
	names := make([]string, 0, len(e.Names)+1)
	for _, name := range e.Names {
		names = append(names, batch.Excerpt(name, 64))
	}
	if e.More {
		names = append(names, "and others")
	}
	how, then := "is the beginning of", "give more of it"
	if e.Key {
		how, then = "is the caller's key, or the beginning of the id, of", "give the whole id"
	}
	return fmt.Sprintf("%q %s more than one %s: %s; %s", batch.Excerpt(e.Text, 64), how, e.What, strings.Join(names, ", "), then)
}

// Unwrap returns [batch.ErrInvalidInput].
func (*AmbiguousError) Unwrap() error { return batch.ErrInvalidInput }

// Batch returns the batch that a text names: its whole id, a caller's whole key that only one
// batch has, or the beginning of only one id. If the text is the key of one batch and the
// beginning of another batch's id, it names neither. Otherwise the error is [batch.ErrNotFound] or
// an [*AmbiguousError].
func (d *Desk) Batch(ctx context.Context, text string) (batch.Record, error) {
	var found []batch.Record
	e := &AmbiguousError{What: "batch", Text: text}
	tooMany := false // too many ids begin with the text
	for _, q := range []store.FindQuery{{ID: batch.ID(text)}, {DataChangeID: text}, {ID: batch.ID(text), Begins: true}} {
		recs, more, err := d.Find(ctx, q)
		if err != nil {
			return batch.Record{}, err
		}
		if q.ID != "" && !q.Begins && len(recs) == 1 {
			return recs[0], nil
		}
		e.Key = e.Key || q.DataChangeID != "" && len(recs) > 0
		e.More = e.More || more && len(recs) > 0
		tooMany = tooMany || more
		for _, rec := range recs {
			if !slices.ContainsFunc(found, func(f batch.Record) bool { return f.Key == rec.Key }) {
				found, e.Names = append(found, rec), append(e.Names, string(rec.ID))
			}
		}
	}
	switch {
	case len(found) == 1 && !e.More:
		return found[0], nil
	case len(found) > 0:
		return batch.Record{}, e
	case tooMany:
		return batch.Record{}, fmt.Errorf("%w: batch %s; too many ids begin like it to compare them all: give the whole id", batch.ErrNotFound, batch.Excerpt(text, 64))
	}
	return batch.Record{}, fmt.Errorf("%w: no id is %s or begins so, and no caller's key is it", batch.ErrNotFound, batch.Excerpt(text, 64))
}

// Lane returns the lane that a text names: by its whole name, if the lane is known
// ([Desk.KnowsLane]), or by the beginning of only one lane's name. If no name begins with the
// text, known is false and the lane is the text itself. The error is an [*AmbiguousError] if
// several names do.
func (d *Desk) Lane(ctx context.Context, text string) (lane batch.ServiceID, known bool, err error) {
	lane = batch.ServiceID(text)
	if known, err = d.KnowsLane(ctx, lane); known || err != nil || text == "" {
		return lane, known, err
	}
	q := store.FindLanesQuery{Name: lane, Begins: true}
	lanes, err := d.store.FindLanes(ctx, q)
	switch {
	case err != nil:
		return lane, false, fmt.Errorf("find lanes: %w", err)
	case len(lanes) == 0:
		return lane, false, nil
	case len(lanes) == 1:
		return lanes[0], true, nil
	}
	e := &AmbiguousError{What: "lane", Text: text, More: len(lanes) == q.Bounded().Limit}
	for _, l := range lanes {
		e.Names = append(e.Names, string(l))
	}
	return lane, false, e
}

// KnowsLane reports whether the store knows the lane: it has batches or orders, open or final, a
// control that was set, or a ledger on record. A lane that is not known may be new, or its name
// may be a typing error.
func (d *Desk) KnowsLane(ctx context.Context, lane batch.ServiceID) (bool, error) {
	if !d.store.Abilities().Has(store.CanFind) {
		return true, nil // the store cannot tell
	}
	lanes, err := d.store.FindLanes(ctx, store.FindLanesQuery{Name: lane, Limit: 1})
	if err != nil {
		return false, fmt.Errorf("find lanes: %w", err)
	}
	return len(lanes) > 0, nil
}
