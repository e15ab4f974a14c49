package flaky

import (
	"context"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Store is a store whose calls fail. The acts and questions of people ([store.CanOperate],
// [store.CanControl], [store.CanInspect]) and the reads Get, List and Counts never fail, because
// the library does not retry them.
type Store struct {
	store.Store
	Faults *Faults
}

// Add is [store.Store].Add.
func (s *Store) Add(ctx context.Context, batches ...batch.Batch) error {
	return callForError(s.Faults, "Add", func() error { return s.Store.Add(ctx, batches...) })
}

type finalBatchesAnswer struct {
	final     []batch.Record
	notStored []batch.Key
}

// Finals is [store.Store].Finals.
func (s *Store) Finals(ctx context.Context, keys []batch.Key) ([]batch.Record, []batch.Key, error) {
	v, err := callWithFaults(s.Faults, "Finals", func() (v finalBatchesAnswer, err error) {
		v.final, v.notStored, err = s.Store.Finals(ctx, keys)
		return v, err
	})
	return v.final, v.notStored, err
}

// Lanes is [store.Store].Lanes.
func (s *Store) Lanes(ctx context.Context, q store.LanesQuery) ([]batch.ServiceID, error) {
	return callWithFaults(s.Faults, "Lanes", func() ([]batch.ServiceID, error) { return s.Store.Lanes(ctx, q) })
}

// Claim is [store.Store].Claim. If its answer is lost it returns, as a store must, the claims that
// it may have made.
func (s *Store) Claim(ctx context.Context, q store.ClaimQuery, choose store.Choose) (store.Claimed, error) {
	return callKeepingResult(s.Faults, "Claim", func() (store.Claimed, error) { return s.Store.Claim(ctx, q, choose) })
}

// Payloads is [store.Store].Payloads.
func (s *Store) Payloads(ctx context.Context, refs []store.Ref) ([][]byte, error) {
	return callWithFaults(s.Faults, "Payloads", func() ([][]byte, error) { return s.Store.Payloads(ctx, refs) })
}

// KeepPrepared is [store.Store].KeepPrepared.
func (s *Store) KeepPrepared(ctx context.Context, kept []store.Prepared) ([]bool, error) {
	return callWithFaults(s.Faults, "KeepPrepared", func() ([]bool, error) { return s.Store.KeepPrepared(ctx, kept) })
}

// Record is [store.Store].Record.
func (s *Store) Record(ctx context.Context, outcomes []store.Outcome) ([]store.Applied, error) {
	return callWithFaults(s.Faults, "Record", func() ([]store.Applied, error) { return s.Store.Record(ctx, outcomes) })
}

// Pending is [store.Store].Pending. If its answer is lost it returns, as a store must, the rows
// that it may have leased.
func (s *Store) Pending(ctx context.Context, q store.PendingQuery) ([]store.InFlight, error) {
	return callKeepingResult(s.Faults, "Pending", func() ([]store.InFlight, error) { return s.Store.Pending(ctx, q) })
}

// Witnesses is [store.Store].Witnesses.
func (s *Store) Witnesses(ctx context.Context, ref store.Ref, limit int) ([]batch.ID, error) {
	return callWithFaults(s.Faults, "Witnesses", func() ([]batch.ID, error) { return s.Store.Witnesses(ctx, ref, limit) })
}

// Checked is [store.Store].Checked.
func (s *Store) Checked(ctx context.Context, due []store.Due) error {
	return callForError(s.Faults, "Checked", func() error { return s.Store.Checked(ctx, due) })
}

// ReadTexts is [store.Store].ReadTexts. Reads of the ledger's name never fail, because a Run that
// cannot read it ends at once.
func (s *Store) ReadTexts(ctx context.Context, kind store.TextKind, names ...string) ([]store.Text, time.Time, error) {
	if kind == store.TextLedger {
		return s.Store.ReadTexts(ctx, kind, names...)
	}
	type read struct {
		all []store.Text
		now time.Time
	}
	v, err := callWithFaults(s.Faults, "ReadTexts", func() (v read, err error) {
		v.all, v.now, err = s.Store.ReadTexts(ctx, kind, names...)
		return v, err
	})
	return v.all, v.now, err
}

// SwapTexts is [store.Store].SwapTexts. Writes of the ledger's name never fail, as its reads do
// not.
func (s *Store) SwapTexts(ctx context.Context, texts ...store.Text) (bool, error) {
	if len(texts) > 0 && texts[0].Kind == store.TextLedger {
		return s.Store.SwapTexts(ctx, texts...)
	}
	return callWithFaults(s.Faults, "SwapTexts", func() (bool, error) { return s.Store.SwapTexts(ctx, texts...) })
}

// Prune is [store.Store].Prune.
func (s *Store) Prune(ctx context.Context, q store.PruneQuery) (store.Pruned, error) {
	return callWithFaults(s.Faults, "Prune", func() (store.Pruned, error) { return s.Store.Prune(ctx, q) })
}

// LeaseStream is [store.Store].LeaseStream.
func (s *Store) LeaseStream(ctx context.Context, stream, holder string, ttl time.Duration) (int64, bool, error) {
	type lease struct {
		epoch int64
		held  bool
	}
	v, err := callWithFaults(s.Faults, "LeaseStream", func() (v lease, err error) {
		v.epoch, v.held, err = s.Store.LeaseStream(ctx, stream, holder, ttl)
		return v, err
	})
	return v.epoch, v.held, err
}

// AppendStream is [store.Store].AppendStream.
func (s *Store) AppendStream(ctx context.Context, e batch.StreamEntry) (bool, error) {
	return callWithFaults(s.Faults, "AppendStream", func() (bool, error) { return s.Store.AppendStream(ctx, e) })
}

// FindStream is [store.Store].FindStream.
func (s *Store) FindStream(ctx context.Context, stream string, ids []string) (batch.StreamFound, error) {
	return callWithFaults(s.Faults, "FindStream", func() (batch.StreamFound, error) { return s.Store.FindStream(ctx, stream, ids) })
}
