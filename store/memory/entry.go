package memory

import (
	"crypto/sha256"
	"maps"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// entry is a stored batch: the part that never changes, and its row. Transactions are not kept,
// since no method of the contract reads them.
type entry struct {
	number       int64
	key          batch.Key
	lane         *lane
	created      time.Time
	hash         [sha256.Size]byte
	payload      []byte
	footprint    batch.Footprint
	budget       batch.Budget
	dataChangeID string
	traceParent  string
	tags         batch.Tags

	row     store.Row
	acts    []batch.Act
	reports []batch.Report
}

// dataChangeKey is a DataChangeID within its service.
type dataChangeKey struct {
	service      batch.ServiceID
	dataChangeID string
}

func (e *entry) dataChangeKeyOf() dataChangeKey { return dataChangeKey{e.key.Service, e.dataChangeID} }

func (e *entry) ref() store.Ref {
	return store.Ref{Key: e.key, Row: e.number, Created: e.created, TraceParent: e.traceParent}
}

// record returns the application's view of the entry. It shares no memory with the entry.
func (e *entry) record() batch.Record {
	r := cloneRow(e.row).Record(e.key)
	r.Budget, r.DataChangeID, r.CreatedAt, r.TraceParent = e.budget, e.dataChangeID, e.created, e.traceParent
	r.Tags = maps.Clone(e.tags)
	return r
}

// isWaiting reports whether the row is open and was never attempted.
func isWaiting(r store.Row) bool { return !r.Final() && !r.Attempted() }

// isInFlight reports whether the monitor owns the row, or will own it when a claim has expired.
func isInFlight(r store.Row) bool { return !r.Final() && !r.State.Claimable() }

// find returns the entry of a key, or nil. An id under another service does not match. s.mu is
// held.
func (s *Store) find(key batch.Key) *entry {
	if e := s.byID[key.ID]; e != nil && e.key == key {
		return e
	}
	return nil
}

// replaceRow writes a row back and updates every index. s.mu is held.
func (s *Store) replaceRow(e *entry, next store.Row) {
	was := e.row
	next = truncated(next)
	if was.Prunable(false) {
		s.final.remove(e)
	}
	if wasWaiting := isWaiting(was); was.Final() != next.Final() || wasWaiting != isWaiting(next) {
		s.unlist(e)
		e.row = next
		s.enlist(e)
	}
	e.row = next
	if next.Prunable(false) {
		s.final.insert(e)
	}
	if isInFlight(next) {
		s.inFlight[e.key.ID] = e
	} else {
		delete(s.inFlight, e.key.ID)
	}
}

// truncated truncates the row's times to the databases' resolution.
func truncated(r store.Row) store.Row {
	for _, t := range [...]*time.Time{
		&r.ClaimExpires, &r.NotBefore, &r.NextCheck, &r.AskedAt, &r.LastPost, &r.SettlesAt, &r.FinalAt, &r.DoubtSince, &r.ResendUntil,
		&r.MovedAt,
	} {
		*t = t.Truncate(time.Microsecond)
	}
	return r
}

// cloneRow copies the row and everything that the row points to.
func cloneRow(r store.Row) store.Row {
	if r.Error != nil {
		e := *r.Error
		r.Error = &e
	}
	r.Receipts = cloneReceipts(r.Receipts)
	r.Prepared = slices.Clone(r.Prepared)
	return r
}

func cloneReceipts(rs []batch.Receipt) []batch.Receipt {
	rs = slices.Clone(rs)
	for i := range rs {
		rs[i].Data = slices.Clone(rs[i].Data)
	}
	return rs
}

func isEarlierInOrder(a, b *entry) bool {
	if !a.created.Equal(b.created) {
		return a.created.Before(b.created)
	}
	return a.key.ID < b.key.ID
}

func isEarlierFinal(a, b *entry) bool {
	if !a.row.FinalAt.Equal(b.row.FinalAt) {
		return a.row.FinalAt.Before(b.row.FinalAt)
	}
	return isEarlierInOrder(a, b)
}
