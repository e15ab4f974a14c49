package sqlstore

import (
	"cmp"
	"database/sql"
	"slices"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// OrderCols is a stored order as the tables have it: columns that a statement does not read
// stay zero.
type OrderCols struct {
	Seq       int64  `db:"seq"`
	ID        string `db:"order_id"`
	Party     string `db:"party"`
	CreatedAt int64  `db:"created_at"`
	Key       string `db:"idempotency_key"`
	Priority  int    `db:"priority"`
	Urgent    bool   `db:"urgent"`
	Deadline  int64  `db:"deadline"`

	State   int    `db:"state"`
	Version int64  `db:"version"`
	Batch   string `db:"batch"`
	Place   int    `db:"place"`
	Batches int    `db:"batches"`
	Group   string `db:"split_group"`

	FinalAt int64          `db:"final_at"`
	Error   sql.NullString `db:"error"`
	Message string         `db:"error_message"`
}

// Dest takes the columns, in their order, up to the columns of final orders.
func (c *OrderCols) Dest() []any {
	return []any{
		&c.Seq, &c.ID, &c.Party, &c.CreatedAt, &c.Key, &c.Priority, &c.Urgent, &c.Deadline,
		&c.State, &c.Version, &c.Batch, &c.Place, &c.Batches, &c.Group,
	}
}

// RecordDest takes all columns.
func (c *OrderCols) RecordDest() []any { return append(c.Dest(), &c.FinalAt, &c.Error, &c.Message) }

// Order returns the constant part of the order, without its payload.
func (c *OrderCols) Order() batch.Order {
	return batch.Order{
		ID: batch.OrderID(c.ID), Party: batch.ServiceID(c.Party), Key: c.Key, Priority: c.Priority, Urgent: c.Urgent,
		Deadline: FromMicro(c.Deadline),
	}
}

// Row returns the part that changes.
func (c *OrderCols) Row() store.OrderRow {
	r := store.OrderRow{
		State: batch.OrderState(c.State), Version: c.Version, Batch: batch.ID(c.Batch), Place: c.Place, Batches: c.Batches,
		Group: c.Group, FinalAt: FromMicro(c.FinalAt),
	}
	if c.Error.Valid {
		r.Error = &batch.SubmissionError{Kind: batch.ErrorKind(c.Error.String), Message: c.Message}
	}
	return r
}

// Ref names the order at its present version.
func (c *OrderCols) Ref() store.OrderRef {
	return store.OrderRef{ID: batch.OrderID(c.ID), Version: c.Version}
}

// Record is the application's view.
func (c *OrderCols) Record() batch.OrderRecord {
	return c.Row().Record(c.Order(), FromMicro(c.CreatedAt))
}

// SortFront sorts the front of a queue, and cuts it to one batch.
func SortFront(front []FrontCols, q store.NextQuery) (seqs []int64) {
	slices.SortFunc(front, func(a, b FrontCols) int { return a.before(&b.OrderCols) })
	sizes := make([]int, len(front))
	for i := range front {
		sizes[i], seqs = front[i].Size, append(seqs, front[i].Seq)
	}
	return seqs[:q.Cut(sizes)]
}

// FrontCols is an order in a queue, with the size of its payload.
type FrontCols struct {
	OrderCols
	Size int `db:"size"`
}

// before is the order of a queue.
func (c *OrderCols) before(o *OrderCols) int {
	return cmp.Or(cmp.Compare(o.Priority, c.Priority), cmp.Compare(c.CreatedAt, o.CreatedAt), cmp.Compare(c.ID, o.ID))
}

// FirstGroup returns the numbers of the orders of the first split group; split are the orders
// of all groups.
func FirstGroup(split []OrderCols) (seqs []int64) {
	if len(split) == 0 {
		return nil
	}
	first := slices.MinFunc(split, func(a, b OrderCols) int { return a.before(&b) })
	for i := range split {
		if split[i].Group == first.Group {
			seqs = append(seqs, split[i].Seq)
		}
	}
	return seqs
}

// QueuedCols is an order with its payload.
type QueuedCols struct {
	OrderCols
	Payload []byte `db:"payload"`
}

// Queued returns these orders in the order of their queue.
func Queued(rows []QueuedCols) []store.QueuedOrder {
	slices.SortFunc(rows, func(a, b QueuedCols) int { return a.before(&b.OrderCols) })
	found := make([]store.QueuedOrder, len(rows))
	for i := range rows {
		found[i] = store.QueuedOrder{Order: rows[i].Order(), Version: rows[i].Version, Group: rows[i].Group}
		found[i].Payload = rows[i].Payload
	}
	return found
}

// WantOrders sorts the ids of a call: it returns the ids that can be stored, each once.
func WantOrders(ids []batch.OrderID) ([]batch.ID, Wanted) {
	keys := make([]batch.Key, len(ids))
	for i, id := range ids {
		keys[i].ID = batch.ID(id)
	}
	return Want(keys)
}

// MissingOrders returns the ids in w that were not taken.
func MissingOrders(w Wanted) (missing []batch.OrderID) {
	for _, k := range w.Missing() {
		missing = append(missing, batch.OrderID(k.ID))
	}
	return missing
}

// CanStore reports whether a database can be asked for these names; stores hold no other
// names.
func CanStore(service batch.ServiceID, ids ...string) bool {
	for _, id := range append(ids, "x") {
		if (batch.Key{Service: service, ID: batch.ID(id)}).Validate() != nil {
			return false
		}
	}
	return true
}
