package memory

import (
	"context"
	"errors"
	"slices"
	"sort"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
)

// Parties is [order.Store].Parties.
func (s *Store) Parties(ctx context.Context, q order.PartiesQuery) ([]order.PartyLoad, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	var found []order.PartyLoad
	passed := 0
	for _, p := range s.orders.queues.queuesAfter(q.After, q.Start) {
		if len(found) >= q.Limit {
			break
		}
		switch {
		case p.isEmpty():
			passed++
			continue
		case p.batch != nil:
			continue
		}
		load := order.PartyLoad{Party: p.service, Oldest: now.Sub(p.byAge.at(0).created), Split: p.split.len() > 0}
		for _, o := range p.queue.first(max(1, q.Cap)) {
			load.Orders++
			load.Bytes += len(o.Payload)
			load.Urgent = load.Urgent || o.Urgent
		}
		found = append(found, load)
	}
	s.orders.queues.hasManyEmpty = passed > len(found)+64
	return found, nil
}

// NextOrders is [order.Store].NextOrders.
func (s *Store) NextOrders(ctx context.Context, service batch.ServiceID, q order.NextQuery) ([]order.Waiting, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.orders.parties[service]
	if p == nil {
		return nil, nil
	}
	now := s.now()
	var next []*orderEntry
	var sizes []int
	for i := range p.split.len() {
		o := p.split.at(i)
		if !o.row.Expired(now, o.Deadline) && (len(next) == 0 || next[0].row.Group == o.row.Group) {
			next = append(next, o)
		}
	}
	if len(next) == 0 {
		for i := 0; i < p.queue.len() && len(next) < max(1, q.Max); i++ {
			if o := p.queue.at(i); !o.row.Expired(now, o.Deadline) {
				next, sizes = append(next, o), append(sizes, len(o.Payload))
			}
		}
		next = next[:q.Cut(sizes)]
	}
	found := make([]order.Waiting, len(next))
	for i, o := range next {
		found[i] = order.Waiting{Order: o.Order, Version: o.row.Version, Group: o.row.Group, Created: o.created}
		found[i].Payload = slices.Clone(o.Payload)
	}
	return found, nil
}

// PrepareBatch is [order.Store].PrepareBatch.
func (s *Store) PrepareBatch(ctx context.Context, b batch.Batch, refs []order.Ref) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	entries, err := prepare([]batch.Batch{b})
	if err != nil {
		return false, err
	}
	if err := order.CheckRefs(b.Key(), refs); err != nil {
		return false, err
	}
	if err := s.lockFor(ctx, nil, entries, nil); err != nil {
		return false, err
	}
	defer s.mu.Unlock()
	for _, ref := range refs {
		if o := s.orders.entryOf(ref); o != nil && o.Party != b.Service {
			return false, order.WrongParty(b.Key(), o.Party)
		}
	}
	fresh, err := s.notStored(entries, nil)
	if errors.Is(err, batch.ErrEnded) {
		err = order.PrepareEnded(b.Key(), err)
	}
	if err != nil {
		return false, err
	}
	if len(fresh) == 0 {
		for _, ref := range refs {
			if o := s.orders.entryOf(ref); o == nil || !o.row.DequeuedFrom(ref.Version, b.ID) {
				return false, order.PrepareConflict(b.Key())
			}
		}
		return true, nil
	}
	now := s.now()
	rows := make([]order.Row, len(refs))
	for i, ref := range refs {
		o := s.orders.entryOf(ref)
		if o == nil || o.party.batch != nil {
			return false, nil
		}
		var ok bool
		if rows[i], ok = o.row.Dequeue(now, o.Deadline, ref.Version, b.ID, i); !ok {
			return false, nil
		}
	}
	s.insertAll(fresh)
	e := fresh[0]
	for i, ref := range refs {
		o := s.orders.entryOf(ref)
		s.orders.replaceRow(o, rows[i])
		s.orders.unsettled[e] = append(s.orders.unsettled[e], o)
		o.party.batch = e
	}
	return true, nil
}

// SettleableBatches is [order.Store].SettleableBatches.
func (s *Store) SettleableBatches(ctx context.Context, limit int) ([]order.Batch, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var final []*entry
	for e := range s.orders.unsettled {
		if e.row.Final() {
			final = append(final, e)
		}
	}
	sort.Slice(final, func(i, j int) bool { return isEarlierInOrder(final[i], final[j]) })
	final = final[:min(len(final), max(0, limit))]
	found := make([]order.Batch, len(final))
	for i, e := range final {
		found[i].Record = e.record()
		for _, o := range s.orders.unsettled[e] {
			found[i].Orders = append(found[i].Orders, order.Ref{ID: o.ID, Version: o.row.Version, TraceParent: o.TraceParent, Created: o.created})
			found[i].Group = o.row.Group
		}
	}
	return found, nil
}

// SettleOrders is [order.Store].SettleOrders.
func (s *Store) SettleOrders(ctx context.Context, settled []order.Settlement) ([]bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for _, st := range settled {
		if err := order.CheckSettlement(st); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range settled {
		if e := s.find(st.Batch); e != nil && e.row.Final() && e.row.Version == st.Version {
			if err := st.Agrees(e.row.State); err != nil {
				return nil, err
			}
		}
	}
	done := make([]bool, len(settled))
	for i, st := range settled {
		done[i] = s.settle(st)
	}
	return done, nil
}

// settle writes a settlement if it applies, and reports whether it did. s.mu is held.
func (s *Store) settle(st order.Settlement) bool {
	e := s.find(st.Batch)
	if e == nil || len(s.orders.unsettled[e]) != len(st.Orders) {
		return false
	}
	row, ok := e.row.SettleOrders(st.Version)
	if !ok {
		return false
	}
	rows, ok := s.computeNextRows(st.Orders, func(o *orderEntry, v order.Verdict) (order.Row, bool) {
		return o.row.Settle(s.now(), e.key.ID, v)
	})
	if !ok {
		return false
	}
	s.replaceRow(e, row)
	for i, v := range st.Orders {
		o := s.orders.entryOf(v.Ref)
		s.orders.replaceRow(o, rows[i])
		o.party.batch = nil
	}
	delete(s.orders.unsettled, e)
	return true
}

// computeNextRows returns the next rows of all orders of vs. It returns false if f returns false
// for one of them. s.mu is held.
func (s *Store) computeNextRows(vs []order.Verdict, f func(*orderEntry, order.Verdict) (order.Row, bool)) ([]order.Row, bool) {
	rows := make([]order.Row, len(vs))
	for i, v := range vs {
		o := s.orders.entryOf(v.Ref)
		if o == nil {
			return nil, false
		}
		var ok bool
		if rows[i], ok = f(o, v); !ok {
			return nil, false
		}
	}
	return rows, true
}

// FailOrders is [order.Store].FailOrders.
func (s *Store) FailOrders(ctx context.Context, vs []order.Verdict) ([]bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := order.CheckVerdicts(vs, order.Failed, order.Quarantined); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	done := make([]bool, len(vs))
	for i, v := range vs {
		if o := s.orders.entryOf(v.Ref); o != nil {
			var row order.Row
			if row, done[i] = o.row.Fail(s.now(), v); done[i] {
				s.orders.replaceRow(o, row)
			}
		}
	}
	return done, nil
}

// SplitOrders is [order.Store].SplitOrders.
func (s *Store) SplitOrders(ctx context.Context, vs []order.Verdict) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if err := order.CheckVerdicts(vs, order.Queued); err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	rows, ok := s.computeNextRows(vs, func(o *orderEntry, v order.Verdict) (order.Row, bool) { return o.row.Split(v) })
	if !ok {
		return false, nil
	}
	for i, v := range vs {
		s.orders.replaceRow(s.orders.entryOf(v.Ref), rows[i])
	}
	return true, nil
}

// ExpireOrders is [order.Store].ExpireOrders.
func (s *Store) ExpireOrders(ctx context.Context, limit int) (all []order.Verdict, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for len(all) < limit && s.orders.deadlines.len() > 0 {
		o := s.orders.deadlines.at(0)
		row, ok := o.row.Expire(now, o.Deadline)
		if !ok {
			break
		}
		s.orders.replaceRow(o, row)
		why := *row.Error
		all = append(all, order.Verdict{
			Ref: order.Ref{ID: o.ID, Version: row.Version, TraceParent: o.TraceParent, Created: o.created}, State: row.State, Error: &why,
		})
	}
	return all, nil
}
