package sqlstore

import (
	"cmp"
	"database/sql"
	"slices"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// orderCols is a stored order as the tables have it: columns that a statement does not read stay
// zero.
type orderCols struct {
	seq            int64
	id, party      string
	createdAt      int64
	key            string
	priority       int
	urgent         bool
	deadline       int64
	traceParent    string
	state          int
	version        int64
	batch          string
	place, batches int
	group          string

	finalAt int64 // from here on of final orders
	kind    sql.NullString
	message string
}

// dest takes all columns before the columns of final orders.
func (c *orderCols) dest() []any {
	return []any{
		&c.seq, &c.id, &c.party, &c.createdAt, &c.key, &c.priority, &c.urgent, &c.deadline, &c.traceParent,
		&c.state, &c.version, &c.batch, &c.place, &c.batches, &c.group,
	}
}

// recordDest takes all columns.
func (c *orderCols) recordDest() []any { return append(c.dest(), &c.finalAt, &c.kind, &c.message) }

// order returns the constant part of the order, without its payload.
func (c *orderCols) order() batch.Order {
	return batch.Order{
		ID: batch.OrderID(c.id), Party: batch.ServiceID(c.party), Key: c.key, Priority: c.priority, Urgent: c.urgent,
		Deadline: FromMicro(c.deadline), TraceParent: c.traceParent,
	}
}

// row returns the part that changes.
func (c *orderCols) row() store.OrderRow {
	r := store.OrderRow{
		State: batch.OrderState(c.state), Version: c.version, Batch: batch.ID(c.batch), Place: c.place, Batches: c.batches,
		Group: c.group, FinalAt: FromMicro(c.finalAt),
	}
	if c.kind.Valid {
		r.Error = &batch.SubmissionError{Kind: batch.ErrorKind(c.kind.String), Message: c.message}
	}
	return r
}

// ref names the order at its present version.
func (c *orderCols) ref() store.OrderRef {
	return store.OrderRef{ID: batch.OrderID(c.id), Version: c.version, TraceParent: c.traceParent, Created: FromMicro(c.createdAt)}
}

// record is the application's view.
func (c *orderCols) record() batch.OrderRecord {
	return c.row().Record(c.order(), FromMicro(c.createdAt))
}

// sortFront sorts the front of a queue, and cuts it to one batch.
func sortFront(front []frontCols, q store.NextQuery) (seqs []int64) {
	slices.SortFunc(front, func(a, b frontCols) int { return a.before(&b.orderCols) })
	sizes := make([]int, len(front))
	for i := range front {
		sizes[i], seqs = front[i].size, append(seqs, front[i].seq)
	}
	return seqs[:q.Cut(sizes)]
}

// frontCols is an order in a queue, with the size of its payload.
type frontCols struct {
	orderCols
	size int
}

func (c *frontCols) dest() []any { return []any{&c.seq, &c.size, &c.priority, &c.createdAt, &c.id} }

// before is the order of a queue.
func (c *orderCols) before(o *orderCols) int {
	return cmp.Or(cmp.Compare(o.priority, c.priority), cmp.Compare(c.createdAt, o.createdAt), cmp.Compare(c.id, o.id))
}

// firstGroup returns the numbers of the orders of the first split group; split are the orders
// of all groups.
func firstGroup(split []orderCols) (seqs []int64) {
	if len(split) == 0 {
		return nil
	}
	first := slices.MinFunc(split, func(a, b orderCols) int { return a.before(&b) })
	for i := range split {
		if split[i].group == first.group {
			seqs = append(seqs, split[i].seq)
		}
	}
	return seqs
}

// queuedCols is an order with its payload.
type queuedCols struct {
	orderCols
	payload []byte
}

func (c *queuedCols) dest() []any { return append(c.orderCols.dest(), &c.payload) }

// queued returns these orders in the order of their queue.
func queued(rows []queuedCols) []store.QueuedOrder {
	slices.SortFunc(rows, func(a, b queuedCols) int { return a.before(&b.orderCols) })
	found := make([]store.QueuedOrder, len(rows))
	for i := range rows {
		found[i] = store.QueuedOrder{Order: rows[i].order(), Version: rows[i].version, Group: rows[i].group, Created: FromMicro(rows[i].createdAt)}
		found[i].Payload = rows[i].payload
	}
	return found
}

// canStore reports whether a database can be asked for these names; stores hold no other
// names.
func canStore(service batch.ServiceID, ids ...string) bool {
	for _, id := range append(ids, "x") {
		if (batch.Key{Service: service, ID: batch.ID(id)}).Validate() != nil {
			return false
		}
	}
	return true
}
