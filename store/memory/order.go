package memory

import (
	"crypto/sha256"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
)

// orderEntry is a stored order: the part that never changes, and its row.
type orderEntry struct {
	order.Order
	party   *party
	created time.Time
	hash    [sha256.Size]byte

	row order.Row
}

// record returns the application's view of the order. It shares no memory with the order.
func (o *orderEntry) record() order.Record {
	r := o.row.Record(o.Order, o.created)
	if r.Error != nil {
		e := *r.Error
		r.Error = &e
	}
	return r
}

// party is the queue of orders of one party.
type party struct {
	service     batch.ServiceID
	lastKey     time.Time // the last order key of the party
	storedCount int       // the number of stored orders, open and final
	queue       list[*orderEntry]
	byAge       list[*orderEntry] // the orders of queue, by age
	split       list[*orderEntry] // the queued orders that have a split group
	batch       *entry            // the party's batch whose orders are not settled, or nil
	isListed    bool
}

func (p *party) name() batch.ServiceID { return p.service }
func (p *party) isEmpty() bool         { return p.queue.len() == 0 }
func (p *party) setListed(is bool)     { p.isListed = is }

// orderKey is the key of an order within its party.
type orderKey struct {
	party batch.ServiceID
	key   string
}

func (o *orderEntry) keyOfParty() orderKey { return orderKey{o.Party, o.Key} }

// orders has all orders, and the indexes that the methods read.
type orders struct {
	byID      map[order.ID]*orderEntry
	byKey     map[orderKey]*orderEntry // orders that have a key
	parties   map[batch.ServiceID]*party
	queues    queueNames[*party]
	all       list[*orderEntry] // all orders by order key; ListOrders reads it
	deadlines list[*orderEntry] // queued orders that have a deadline, by deadline
	final     list[*orderEntry] // final orders by the time they became final; Prune reads it
	unsettled map[*entry][]*orderEntry
}

func newOrders() orders {
	return orders{
		byID: map[order.ID]*orderEntry{}, byKey: map[orderKey]*orderEntry{}, parties: map[batch.ServiceID]*party{},
		all: list[*orderEntry]{before: isOlderOrder}, deadlines: list[*orderEntry]{before: hasEarlierDeadline}, final: list[*orderEntry]{before: isEarlierFinalOrder},
		unsettled: map[*entry][]*orderEntry{},
	}
}

// party returns the queue of a party. It makes the queue if there is none.
func (os *orders) party(service batch.ServiceID) *party {
	p := os.parties[service]
	if p == nil {
		p = &party{
			service: service, queue: list[*orderEntry]{before: hasPriority}, byAge: list[*orderEntry]{before: isOlderOrder}, split: list[*orderEntry]{before: hasPriority},
		}
		os.parties[service] = p
	}
	return p
}

// insert stores a new order after all others of its party, even if the clock has stepped back.
func (os *orders) insert(o *orderEntry, now time.Time) {
	o.created = orderKeyAfter(os.party(o.Party).lastKey, now)
	os.place(o)
}

// place stores a new order whose order key is set.
func (os *orders) place(o *orderEntry) {
	o.party = os.party(o.Party)
	if o.created.After(o.party.lastKey) {
		o.party.lastKey = o.created
	}
	o.party.storedCount++
	os.byID[o.ID] = o
	if o.Key != "" {
		os.byKey[o.keyOfParty()] = o
	}
	os.all.insert(o)
	os.enlist(o)
}

// replaceRow writes a row back and updates every index.
func (os *orders) replaceRow(o *orderEntry, next order.Row) {
	os.unlist(o)
	next.FinalAt = next.FinalAt.Truncate(time.Microsecond)
	o.row = next
	os.enlist(o)
}

func (os *orders) enlist(o *orderEntry) {
	switch {
	case o.row.State.Final():
		os.final.insert(o)
	case o.row.State == order.Queued:
		p := o.party
		p.queue.insert(o)
		p.byAge.insert(o)
		if o.row.Group != "" {
			p.split.insert(o)
		}
		if !o.Deadline.IsZero() {
			os.deadlines.insert(o)
		}
		if !p.isListed {
			os.queues.add(p)
		}
	}
}

func (os *orders) unlist(o *orderEntry) {
	switch {
	case o.row.State.Final():
		os.final.remove(o)
	case o.row.State == order.Queued:
		o.party.queue.remove(o)
		o.party.byAge.remove(o)
		o.party.split.remove(o)
		os.deadlines.remove(o)
	}
}

// remove removes a final order.
func (os *orders) remove(o *orderEntry) {
	os.final.remove(o)
	os.all.remove(o)
	delete(os.byID, o.ID)
	if o.Key != "" {
		delete(os.byKey, o.keyOfParty())
	}
	if o.party.storedCount--; o.party.storedCount == 0 {
		delete(os.parties, o.Party)
	}
}

// entryOf returns the order of a ref, or nil.
func (os *orders) entryOf(ref order.Ref) *orderEntry { return os.byID[ref.ID] }

func isOlderOrder(a, b *orderEntry) bool {
	if !a.created.Equal(b.created) {
		return a.created.Before(b.created)
	}
	return a.ID < b.ID
}

func hasPriority(a, b *orderEntry) bool {
	if a.Priority != b.Priority {
		return a.Priority > b.Priority
	}
	return isOlderOrder(a, b)
}

func hasEarlierDeadline(a, b *orderEntry) bool {
	if !a.Deadline.Equal(b.Deadline) {
		return a.Deadline.Before(b.Deadline)
	}
	return isOlderOrder(a, b)
}

func isEarlierFinalOrder(a, b *orderEntry) bool {
	if !a.row.FinalAt.Equal(b.row.FinalAt) {
		return a.row.FinalAt.Before(b.row.FinalAt)
	}
	return isOlderOrder(a, b)
}
