package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

var _ store.Store = (*Store)(nil)

// Store is a [store.Store] with the methods that deliver a batch, [store.Delivery]. It keeps
// everything in maps, under one mutex: a method is a transaction while it holds the mutex. In a
// database each method would be a transaction of the database, and the maps would be tables with
// indexes.
//
// The store decides nothing by itself. It finds rows, asks package store for the next row, and
// writes that back. So it behaves as all other stores do, and storetest can compare it with the
// same rules.
type Store struct {
	store.Unimplemented // the other methods, which are not needed to deliver a batch

	mu          sync.Mutex
	clockOffset time.Duration // added to the system's time: see StepClock
	batches     map[batch.ID]*storedBatch
	byChange    map[changeKey]*storedBatch // the batches with a DataChangeID
	lanes       map[batch.ServiceID]*laneQueue
}

// storedBatch is one batch: a part that never changes, and the row, which changes.
type storedBatch struct {
	batch.Batch
	createdAt time.Time // together with the ID it is the order key, which gives the batch its place in its lane
	row       store.Row
}

func (e *storedBatch) ref() store.Ref {
	return store.Ref{Key: e.Key(), Created: e.createdAt, TraceParent: e.TraceParent}
}

// laneQueue is the queue of one service.
type laneQueue struct {
	open    []*storedBatch // by order key; without final batches, so that the cost of a claim does not grow with history
	lastKey time.Time      // the last order key that was given out
}

// changeKey is a caller's own key for a batch.
type changeKey struct {
	service batch.ServiceID
	id      string
}

// New returns an empty store.
func New() *Store {
	return &Store{batches: map[batch.ID]*storedBatch{}, byChange: map[changeKey]*storedBatch{}, lanes: map[batch.ServiceID]*laneQueue{}}
}

// StepClock moves the store's clock, forwards or back, as a database's clock may jump. Only tests
// need it.
func (s *Store) StepClock(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clockOffset += d
}

// now returns the clock by which the store decides. All processes on one database must see the
// same clock, so it is the database's. It has the resolution of databases, a microsecond. s.mu is
// held.
func (s *Store) now() time.Time {
	return time.Now().Add(s.clockOffset).UTC().Truncate(time.Microsecond)
}

// beginMethod starts a method. It returns an error if the caller's context is done.
func (s *Store) beginMethod(ctx context.Context) (end func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	return s.mu.Unlock, nil
}

// Add stores all batches of the call or none: first it checks each, and then it stores the new
// ones. Adding a batch again is harmless, because callers repeat an Add whose answer was lost.
func (s *Store) Add(ctx context.Context, batches ...batch.Batch) error {
	for _, b := range batches {
		if err := b.Validate(); err != nil {
			return err
		}
	}
	if _, err := store.Twins(batches); err != nil { // a conflict within the call
		return err
	}
	end, err := s.beginMethod(ctx)
	if err != nil {
		return err
	}
	defer end()
	known, changes := map[batch.ID]batch.Batch{}, map[changeKey]bool{} // new batches of this call
	var fresh []batch.Batch
	for _, b := range batches {
		same, again := known[b.ID]
		if old := s.batches[b.ID]; old != nil {
			same, again = old.Batch, true
		}
		if again && (same.Key() != b.Key() || !bytes.Equal(same.Payload, b.Payload)) {
			return fmt.Errorf("%w: batch %s", batch.ErrConflict, b.Key())
		}
		own := changeKey{b.Service, b.DataChangeID}
		first := s.byChange[own]
		if first != nil && !bytes.Equal(first.Payload, b.Payload) {
			return store.ChangeConflict(b.Key(), b.DataChangeID)
		}
		if again || first != nil || changes[own] {
			continue
		}
		known[b.ID] = b
		if b.DataChangeID != "" {
			changes[own] = true
		}
		fresh = append(fresh, b)
	}
	now := s.now()
	for i, b := range fresh {
		s.insert(b, now.Add(time.Duration(i)*time.Microsecond))
	}
	return nil
}

// insert puts a new batch at the end of its lane, even if the clock has stepped back. s.mu is
// held.
func (s *Store) insert(b batch.Batch, at time.Time) {
	l := s.lanes[b.Service]
	if l == nil {
		l = &laneQueue{}
		s.lanes[b.Service] = l
	}
	if behind := l.lastKey.Add(time.Microsecond); at.Before(behind) {
		at = behind
	}
	// The caller may reuse its slices and maps.
	b.Payload = bytes.Clone(b.Payload)
	b.Tags = maps.Clone(b.Tags)
	b.Footprint = batch.Footprint{Reads: slices.Clone(b.Footprint.Reads), Writes: slices.Clone(b.Footprint.Writes)}
	e := &storedBatch{Batch: b, createdAt: at, row: store.NewRow()}
	l.lastKey, l.open = at, append(l.open, e)
	s.batches[b.ID] = e
	if b.DataChangeID != "" {
		s.byChange[changeKey{b.Service, b.DataChangeID}] = e
	}
}

// findBatch returns the batch of a key, or nil. An id that is stored under another service is not
// found. s.mu is held.
func (s *Store) findBatch(key batch.Key) *storedBatch {
	if e := s.batches[key.ID]; e != nil && e.Service == key.Service {
		return e
	}
	return nil
}

// writeRow writes the next row of a batch. s.mu is held.
func (s *Store) writeRow(e *storedBatch, next store.Row) {
	if next.Final() && !e.row.Final() {
		l := s.lanes[e.Service]
		l.open = slices.DeleteFunc(l.open, func(o *storedBatch) bool { return o == e })
	}
	e.row = next
}

// Get returns the record of a batch.
func (s *Store) Get(ctx context.Context, key batch.Key) (batch.Record, error) {
	end, err := s.beginMethod(ctx)
	if err != nil {
		return batch.Record{}, err
	}
	defer end()
	e := s.findBatch(key)
	if e == nil {
		return batch.Record{}, fmt.Errorf("%w: %s", batch.ErrNotFound, key)
	}
	rec := copyRow(e.row).Record(key)
	rec.Budget, rec.DataChangeID, rec.CreatedAt, rec.TraceParent = e.Budget, e.DataChangeID, e.createdAt, e.TraceParent
	rec.Tags = maps.Clone(e.Tags)
	return rec, nil
}

// copyRow copies everything that a row points to and that a caller may change.
func copyRow(r store.Row) store.Row {
	if r.Error != nil {
		e := *r.Error
		r.Error = &e
	}
	r.Receipts = slices.Clone(r.Receipts)
	for i, c := range r.Receipts {
		r.Receipts[i].Data = bytes.Clone(c.Data)
	}
	return r
}

// Lanes lists services with open batches. A Runner needs this after a restart, when it knows none,
// and because hints from other processes do not reach it.
func (s *Store) Lanes(ctx context.Context, q store.LanesQuery) ([]batch.ServiceID, error) {
	end, err := s.beginMethod(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	var found []batch.ServiceID
	for _, service := range slices.Sorted(maps.Keys(s.lanes)) {
		if len(s.lanes[service].open) > 0 && (q.Start || service > q.After) && len(found) < q.Limit {
			found = append(found, service)
		}
	}
	return found, nil
}

// Claim gives the caller the right to post batches. For each lane it reads all batches that were
// ever attempted and the first waiting ones; PlanLane decides. Nothing is written before all lanes
// are planned, so if choose panics, nothing is claimed.
//
// A database would lock a lane before it reads the lane, and return in Claimed.Locked the lanes
// that other claims have locked. Here the mutex locks all lanes.
func (s *Store) Claim(ctx context.Context, q store.ClaimQuery, choose store.Choose) (store.Claimed, error) {
	end, err := s.beginMethod(ctx)
	if err != nil {
		return store.Claimed{}, err
	}
	defer end()
	now := s.now()
	var claimed store.Claimed
	var changed []store.LaneRow
	room := q.Limit
	for i, service := range q.Lanes {
		if slices.Contains(q.Lanes[:i], service) {
			continue
		}
		if room <= 0 {
			claimed.Left = append(claimed.Left, service)
			continue
		}
		rows := s.readLane(service, q, now)
		if len(rows) == 0 {
			continue
		}
		plan := store.PlanLane(service, rows, now, q, room, choose)
		room = claimed.Add(service, plan, &q, room)
		changed = append(changed, plan.Changed...)
	}
	for _, r := range changed {
		s.writeRow(s.batches[r.Key.ID], r.Row)
	}
	return claimed, nil
}

// readLane returns the rows of a lane that a claim reads. s.mu is held.
func (s *Store) readLane(service batch.ServiceID, q store.ClaimQuery, now time.Time) []store.LaneRow {
	l := s.lanes[service]
	if l == nil {
		return nil
	}
	var attempted, waiting []store.LaneRow
	for _, e := range l.open {
		r := store.LaneRow{Ref: e.ref(), Row: e.row, Budget: e.Budget, Footprint: e.Footprint, Size: len(e.Payload)}
		if e.row.Attempted() {
			attempted = append(attempted, r)
		} else {
			waiting = append(waiting, r)
		}
	}
	n := store.Wanted(service, attempted, now, q)
	return append(attempted, waiting[:min(n, len(waiting))]...)
}

// Payloads returns the payloads of claimed batches. They are read separately, because a claim
// reads many batches and takes few.
func (s *Store) Payloads(ctx context.Context, refs []store.Ref) ([][]byte, error) {
	end, err := s.beginMethod(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	payloads := make([][]byte, len(refs))
	for i, ref := range refs {
		if e := s.findBatch(ref.Key); e != nil {
			payloads[i] = bytes.Clone(e.Payload)
		}
	}
	return payloads, nil
}

// Record applies outcomes, each independently. Apply refuses an outcome whose version is not the
// row's, because another writer came first. Since the store lacks [store.CanControl] and
// [store.CanInspect], nothing else has to be written.
func (s *Store) Record(ctx context.Context, outcomes []store.Outcome) ([]store.Applied, error) {
	end, err := s.beginMethod(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	now := s.now()
	applied := make([]store.Applied, len(outcomes))
	for i, o := range outcomes {
		e := s.findBatch(o.Key)
		if e == nil {
			applied[i] = store.Applied{Ref: o.Ref, Result: store.Gone}
			continue
		}
		o = o.Sanitised() // to texts that every database accepts
		o.Ref = e.ref()
		next, a := e.row.Apply(o, now)
		if a.Result == store.Written {
			s.writeRow(e, next)
		}
		a.Row = copyRow(e.row)
		applied[i] = a
	}
	return applied, nil
}

// Pending gives the caller batches to ask the ledger about. No other caller gets these batches for
// q.Lease.
func (s *Store) Pending(ctx context.Context, q store.PendingQuery) ([]store.InFlight, error) {
	end, err := s.beginMethod(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	now := s.now()
	var due []*storedBatch
	for service, l := range s.lanes {
		for _, e := range l.open {
			wanted := q.Due(e.row, now)
			if q.Services != nil {
				wanted = e.row.Monitored(now) && slices.Contains(q.Services, service)
			}
			if wanted {
				due = append(due, e)
			}
		}
	}
	slices.SortFunc(due, func(a, b *storedBatch) int {
		return cmp.Or(a.row.AskedAt.Compare(b.row.AskedAt), a.createdAt.Compare(b.createdAt), cmp.Compare(a.ID, b.ID))
	})
	due = due[:min(len(due), q.Limit)]
	rows := make([]store.InFlight, 0, len(due))
	for _, e := range due {
		asked := e.row.AskedAt
		s.writeRow(e, e.row.Leased(now, q.Lease))
		if !e.row.Monitored(now) {
			continue // a live claim keeps its times
		}
		f := e.row.InFlight(e.ref(), e.Budget, now)
		f.AskedAgo = e.row.AskedAgo(asked, now)
		rows = append(rows, f)
	}
	return rows, nil
}

// Checked sets the time of the next question about batches that did not change. It does nothing to
// a batch that has changed meanwhile.
func (s *Store) Checked(ctx context.Context, due []store.Due) error {
	end, err := s.beginMethod(ctx)
	if err != nil {
		return err
	}
	defer end()
	now := s.now()
	for _, d := range due {
		if e := s.findBatch(d.Key); e != nil && e.row.Monitored(now) {
			next := e.row
			next.NextCheck = now.Add(d.In)
			s.writeRow(e, next)
		}
	}
	return nil
}
