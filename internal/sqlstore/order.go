package sqlstore

import (
	"cmp"
	"database/sql"
	"slices"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
)

// orderCols is a stored order as the tables have it. Columns that a statement does not read stay
// zero.
type orderCols struct {
	Seq         int64  `db:"seq"`
	ID          string `db:"order_id"`
	Party       string `db:"party"`
	CreatedAt   int64  `db:"created_at"`
	Key         string `db:"idempotency_key"`
	Priority    int    `db:"priority"`
	Urgent      bool   `db:"urgent"`
	Deadline    int64  `db:"deadline"`
	TraceParent string `db:"trace_parent"`
	State       int    `db:"state"`
	Version     int64  `db:"version"`
	Batch       string `db:"batch"`
	Place       int    `db:"place"`
	Batches     int    `db:"batches"`
	Group       string `db:"split_group"`

	FinalAt int64          `db:"final_at"` // this and the following columns exist only for final orders
	Kind    sql.NullString `db:"error"`
	Message string         `db:"error_message"`
}

// order returns the part of the order that never changes, without its payload.
func (c *orderCols) order() order.Order {
	return order.Order{
		ID: order.ID(c.ID), Party: batch.ServiceID(c.Party), Key: c.Key, Priority: c.Priority, Urgent: c.Urgent,
		Deadline: FromMicro(c.Deadline), TraceParent: c.TraceParent,
	}
}

// row returns the part of the order that changes.
func (c *orderCols) row() order.Row {
	r := order.Row{
		State: order.State(c.State), Version: c.Version, Batch: batch.ID(c.Batch), Place: c.Place, Batches: c.Batches,
		Group: c.Group, FinalAt: FromMicro(c.FinalAt),
	}
	if c.Kind.Valid {
		r.Error = &batch.SubmissionError{Kind: batch.ErrorKind(c.Kind.String), Message: c.Message}
	}
	return r
}

// ref names the order at its present version.
func (c *orderCols) ref() order.Ref {
	return order.Ref{ID: order.ID(c.ID), Version: c.Version, TraceParent: c.TraceParent, Created: FromMicro(c.CreatedAt)}
}

// record returns the application's view.
func (c *orderCols) record() order.Record {
	return c.row().Record(c.order(), FromMicro(c.CreatedAt))
}

// sortFront sorts the first orders of a queue, and cuts them to those of one batch.
func sortFront(front []frontCols, q order.NextQuery) (seqs []int64) {
	slices.SortFunc(front, func(a, b frontCols) int { return a.compare(&b.orderCols) })
	sizes := make([]int, len(front))
	for i := range front {
		sizes[i], seqs = front[i].Size, append(seqs, front[i].Seq)
	}
	return seqs[:q.Cut(sizes)]
}

// frontCols is an order in a queue, with the size of its payload.
type frontCols struct {
	orderCols
	Size int `db:"size"`
}

// compare compares two orders by their places in a queue.
func (c *orderCols) compare(o *orderCols) int {
	return cmp.Or(cmp.Compare(o.Priority, c.Priority), cmp.Compare(c.CreatedAt, o.CreatedAt), cmp.Compare(c.ID, o.ID))
}

// firstGroup returns the numbers of the orders of the first split group. split are the orders of
// all split groups.
func firstGroup(split []orderCols) (seqs []int64) {
	if len(split) == 0 {
		return nil
	}
	first := slices.MinFunc(split, func(a, b orderCols) int { return a.compare(&b) })
	for i := range split {
		if split[i].Group == first.Group {
			seqs = append(seqs, split[i].Seq)
		}
	}
	return seqs
}

// queuedCols is an order with its payload.
type queuedCols struct {
	orderCols
	Payload []byte `db:"payload"`
}

// sortQueued returns the orders in the order of their queue.
func sortQueued(rows []queuedCols) []order.Waiting {
	slices.SortFunc(rows, func(a, b queuedCols) int { return a.compare(&b.orderCols) })
	found := make([]order.Waiting, len(rows))
	for i := range rows {
		found[i] = order.Waiting{Order: rows[i].order(), Version: rows[i].Version, Group: rows[i].Group, Created: FromMicro(rows[i].CreatedAt)}
		found[i].Payload = rows[i].Payload
	}
	return found
}

// areStorable reports whether a store can have these names. A database must not be asked for
// others.
func areStorable(service batch.ServiceID, ids ...string) bool {
	for _, id := range append(ids, "x") {
		if (batch.Key{Service: service, ID: batch.ID(id)}).Validate() != nil {
			return false
		}
	}
	return true
}
