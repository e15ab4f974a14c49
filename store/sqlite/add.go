package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// Add is [store.Store].Add.
func (s *Store) Add(ctx context.Context, batches ...batch.Batch) error {
	const op = "add"
	in, err := sqlstore.Prepare(batches)
	if err != nil || len(in) == 0 {
		return wrap(op, err)
	}
	return s.write(ctx, op, func(free context.Context, t *session) error {
		t.onCommit = func() {
			for _, b := range in {
				if b.Seq != 0 {
					t.fresh.Put(b.Seq, b.At, b.Batch)
				}
			}
		}
		_, err := t.add(free, in, ctx.Err)
		return err
	})
}

// Tx takes the application's own transaction for dltbatch.Runner.AddTx. A transaction of another
// file than this store's gives a [*batch.InputError]; databases in memory cannot be told apart.
// After an error of an Add the transaction may go on, except after [ErrTxEnded], which is also
// returned if SQLite has ended the transaction before the call. A transaction that began with a
// read gets SQLite's "database is locked" if another transaction has written since. So begin with
// BEGIN IMMEDIATE (_txlock=immediate, as sqliteopen does). Every other writer waits until tx ends.
func (s *Store) Tx(tx *sql.Tx) store.Tx { return appTx{s, tx} }

// Owns is [store.Store].Owns.
func (s *Store) Owns(tx store.Tx) bool {
	own, is := tx.(appTx)
	return is && own.store == s
}

// appTx is a transaction of the application.
type appTx struct {
	store *Store
	tx    *sql.Tx
}

// Add implements [store.Tx].
func (o appTx) Add(ctx context.Context, batches ...batch.Batch) error {
	return o.store.addTx(ctx, o.tx, batches...)
}

func (s *Store) addTx(ctx context.Context, tx *sql.Tx, batches ...batch.Batch) error {
	const op = "add in a transaction"
	in, err := sqlstore.Prepare(batches)
	if err != nil || len(in) == 0 {
		return wrap(op, err)
	}
	return s.inTx(ctx, op, tx, func(free context.Context, t *session) error {
		_, err := t.add(free, in, ctx.Err)
		return err
	})
}

// inTx runs do in the application's own transaction. After an error it undoes the work of do.
func (s *Store) inTx(ctx context.Context, op string, tx *sql.Tx, do func(free context.Context, t *session) error) error {
	if tx == nil {
		return wrap(op, &batch.InputError{Field: "tx", Value: "nil", Want: "an open *sql.Tx of this database"})
	}
	if err := s.forgetOtherFile(s.files.checkSame()); err != nil {
		return wrap(op, err)
	}
	free := context.WithoutCancel(ctx)
	// Within a transaction BEGIN fails and changes nothing. Outside of one the savepoint would
	// begin a transaction, and its release would commit it.
	if _, err := tx.ExecContext(free, "BEGIN"); err == nil {
		_, err = tx.ExecContext(free, "ROLLBACK")
		return wrap(op, errors.Join(ErrTxEnded, err))
	}
	if _, err := tx.ExecContext(ctx, "SAVEPOINT dltbatch_add"); err != nil {
		return wrap(op, err)
	}
	t := s.session(tx)
	err := s.checkTakesTx(ctx, tx)
	if err == nil {
		err = s.checkSchema(ctx, t)
	}
	if err == nil {
		err = do(free, t)
	}
	t.close()
	if err != nil {
		_, undo := tx.ExecContext(free, "ROLLBACK TO dltbatch_add")
		if undo == nil {
			_, undo = tx.ExecContext(free, "RELEASE dltbatch_add")
		} else {
			undo = errors.Join(ErrTxEnded, undo)
		}
		return wrap(op, errors.Join(err, undo))
	}
	_, err = tx.ExecContext(free, "RELEASE dltbatch_add")
	return wrap(op, err)
}

type addition = sqlstore.Addition

// maxAddedTogether is how many batches one statement stores, which costs less than a statement for
// each. SQLite copies the pages that the statement changes, so that it can undo the statement
// alone: two or three pages for each batch, and more where a page is full. Once it has copied 64
// KiB for one statement, it copies into a file for all later statements of the transaction. With 8
// batches together that happened in each Add over 100 lanes, and cost a quarter of the Add's CPU.
const (
	maxAddedTogether = 5
	batchColumns     = 12
)

// Add adds one batch.
func (t *session) Add(ctx context.Context, b batch.Batch) (int64, error) {
	in, err := sqlstore.Prepare([]batch.Batch{b})
	if err != nil {
		return 0, err
	}
	n, err := t.add(ctx, in, func() error { return nil })
	if err != nil || n == 0 {
		return 0, err
	}
	seq, _, err := sqlstore.Get[int64](ctx, t, sqlLastSeq)
	return seq, err
}

// add stores the batches, and returns how many of them were new. It calls stopped repeatedly,
// because a call may take long.
func (t *session) add(ctx context.Context, in []addition, stopped func() error) (int64, error) {
	now, err := t.now(ctx)
	if err != nil {
		return 0, err
	}
	seq, _, err := sqlstore.Get[int64](ctx, t, sqlLastSeq) // the number assigned last
	if err != nil {
		return 0, err
	}
	latest, _, err := sqlstore.Get[int64](ctx, t, sqlAnyLast) // the last order key in any lane
	if err != nil {
		return 0, err
	}
	last := map[batch.ServiceID]int64{} // the last key of each lane; needed only while a key is ahead of the clock
	if latest >= now.UnixMicro() {
		if last, err = t.laneLasts(ctx, in); err != nil {
			return 0, err
		}
	}
	nextKey := func(s batch.ServiceID) int64 {
		latest = orderKey(now.UnixMicro(), last[s], latest)
		last[s] = latest
		return latest
	}
	tombs, _, err := sqlstore.Get[bool](ctx, t, sqlAnyTomb)
	if err != nil {
		return 0, err
	}
	first := seq + 1
	for some := range slices.Chunk(in, maxAddedTogether) {
		if !tombs && canAddTogether(some) {
			if err := stopped(); err != nil {
				return 0, err
			}
			did, err := t.addTogether(ctx, some, seq, nextKey)
			if err != nil {
				return 0, err
			}
			if did {
				seq += maxAddedTogether
				continue
			}
		}
		for i := range some {
			if err := stopped(); err != nil {
				return 0, err
			}
			n, err := t.addOne(ctx, &some[i], seq, tombs, nextKey)
			if err != nil {
				return 0, err
			}
			seq += n
		}
	}
	row := store.NewRow()
	_, err = t.Exec(ctx, sqlInsertNew, int64(row.State), row.Version, first, seq)
	if first <= seq {
		t.addedSpans = append(t.addedSpans, numberSpan{first, seq})
	}
	return seq - first + 1, err
}

// canAddTogether reports whether these batches may be stored by one statement. SQLite first copies
// all their payloads, so they must be small.
func canAddTogether(in []addition) bool {
	size := 0
	for _, b := range in {
		size += len(b.Payload)
	}
	return len(in) == maxAddedTogether && size <= 1<<20 && !slices.ContainsFunc(in, func(b addition) bool { return b.Twin })
}

// addTogether stores batches that are all new, with the numbers after last. If one of them may be
// known it stores none, and returns false.
func (t *session) addTogether(ctx context.Context, in []addition, last int64, nextKey func(batch.ServiceID) int64) (bool, error) {
	var rows [maxAddedTogether * batchColumns]any
	var payloads [maxAddedTogether * 2]any
	for i := range in {
		b := &in[i]
		b.Seq, b.At = last+1+int64(i), nextKey(b.Service)
		copy(rows[i*batchColumns:], insertArgs(b))
		payloads[2*i], payloads[2*i+1] = b.Seq, b.Payload
	}
	n, err := t.Exec(ctx, sqlInsertBatches, rows[:]...)
	if err != nil {
		return false, err
	}
	if n != maxAddedTogether {
		for i := range in {
			in[i].Seq = 0
			// No other batch has this key, which follows all keys of its lane.
			if _, err := t.Exec(ctx, sqlDeleteAt, string(in[i].Service), in[i].At); err != nil {
				return false, err
			}
		}
		return false, nil
	}
	if _, err := t.Exec(ctx, sqlInsertPayloads, payloads[:]...); err != nil {
		return false, err
	}
	for i := range in {
		if err := t.addTransactions(ctx, &in[i]); err != nil {
			return false, err
		}
	}
	return true, nil
}

// addOne stores a batch with the number after last, unless the batch is known. It returns how many
// batches it has stored.
func (t *session) addOne(ctx context.Context, b *addition, last int64, tombs bool, nextKey func(batch.ServiceID) int64) (int64, error) {
	if tombs {
		buried, err := t.isBuried(ctx, b)
		if err != nil || buried {
			return 0, err
		}
	}
	b.Seq, b.At = last+1, nextKey(b.Service)
	n, err := t.Exec(ctx, sqlInsertBatch, insertArgs(b)...)
	if err != nil {
		return 0, fmt.Errorf("batch %s: %w", b.Key(), err)
	}
	if n == 0 {
		b.Seq = 0
		known, err := t.compareKnown(ctx, b)
		if err == nil && !known {
			err = fmt.Errorf("batch %s: its number or its place is taken", b.Key()) // somebody has changed sqlite_sequence
		}
		return 0, err
	}
	if _, err := t.Exec(ctx, sqlInsertPayload, b.Seq, b.Payload); err != nil {
		return 0, fmt.Errorf("batch %s: %w", b.Key(), err)
	}
	return 1, t.addTransactions(ctx, b)
}

// isBuried reports whether retention has removed the batch, or the batch to which its DataChangeID
// was given. It returns an error if that batch is another one, or has not taken effect.
func (t *session) isBuried(ctx context.Context, b *addition) (bool, error) {
	found, err := sqlstore.Query[sqlstore.TombCols](ctx, t, sqlTomb, string(b.ID))
	if err != nil {
		return false, err
	}
	same := (*sqlstore.TombCols).OfID
	if len(found) == 0 && b.DataChangeID != "" {
		same = (*sqlstore.TombCols).OfChange
		if found, err = sqlstore.Query[sqlstore.TombCols](ctx, t, sqlTombChange, string(b.Service), b.DataChangeID); err != nil {
			return false, err
		}
	}
	if len(found) == 0 {
		return false, nil
	}
	if stored, err := t.compareKnown(ctx, b); stored || err != nil {
		return true, cmp.Or(err, same(&found[0], b))
	}
	if err := same(&found[0], b); err != nil {
		return true, err
	}
	return true, store.AddedAgain(found[0].Record())
}

// insertArgs returns the arguments of sqlInsertBatch.
func insertArgs(b *addition) []any {
	return []any{
		b.Seq, b.IDHash[:], string(b.ID), string(b.Service), b.At, b.DataChangeID, b.SignerPublicKey, b.Trace, b.PayloadHash[:],
		int64(b.Budget.Attempts), b.Budget.EveryTry, footprintArg(b.FootprintCol),
	}
}

// laneLasts reads the last order key of each lane of a call; 0 for a lane without batches.
func (t *session) laneLasts(ctx context.Context, in []addition) (map[batch.ServiceID]int64, error) {
	last := map[batch.ServiceID]int64{}
	for _, b := range in {
		last[b.Service] = 0
	}
	names, err := json.Marshal(slices.Collect(maps.Keys(last)))
	if err != nil {
		return nil, err
	}
	return last, t.readLasts(ctx, last, sqlLaneLasts, string(names))
}

// readLasts writes the keys that a statement finds into last, by service or party.
func (t *session) readLasts(ctx context.Context, last map[batch.ServiceID]int64, query, names string) error {
	type key struct {
		Service batch.ServiceID `db:"service_id"`
		At      int64           `db:"created_at"`
	}
	return sqlstore.Each(ctx, t, func(k *key) error {
		last[k.Service] = k.At
		return nil
	}, query, names)
}

// addTransactions stores the transactions, the trace context and the tags of a stored batch.
func (t *session) addTransactions(ctx context.Context, b *addition) error {
	if b.TraceParent != "" {
		if _, err := t.Exec(ctx, sqlSetTrace, b.TraceParent, b.Seq); err != nil {
			return fmt.Errorf("batch %s: %w", b.Key(), err)
		}
	}
	if b.TagsCol != "" {
		if _, err := t.Exec(ctx, sqlSetTags, b.TagsCol, b.Seq); err != nil {
			return fmt.Errorf("batch %s: %w", b.Key(), err)
		}
	}
	for name, value := range b.Tags {
		if _, err := t.Exec(ctx, sqlInsertTag, b.Seq, name, value, b.At); err != nil {
			return fmt.Errorf("batch %s: %w", b.Key(), err)
		}
	}
	for i, x := range b.Transactions {
		if _, err := t.Exec(ctx, sqlInsertTransaction, b.Seq, i, x.ID, x.FamilyName, x.FamilyVersion, x.SignerPublicKey); err != nil {
			return fmt.Errorf("batch %s: %w", b.Key(), err)
		}
	}
	return nil
}

// orderKey returns the next order key of a lane, which is after the lane's last key, so that a
// clock that stepped back does not put a batch before an earlier batch. SQLite's clock has
// milliseconds. So within a millisecond the keys count on from the last key in any lane, and are
// also in the order of adding across lanes.
func orderKey(now, lane, latest int64) int64 {
	if now <= latest && latest < now+clockStep {
		now = latest + 1
	}
	return max(now, lane+1)
}

// clockStep is the resolution of the database's clock in microseconds.
const clockStep = 1000

// isKnown compares a batch with the stored batch that has the hash of its id, if there is one.
func (t *session) isKnown(ctx context.Context, b *addition) (bool, error) {
	type stored struct {
		ID   batch.ID `db:"header_signature"`
		Same bool     `db:"same"`
	}
	found, err := sqlstore.Query[stored](ctx, t, sqlSame, string(b.Service), b.PayloadHash[:], b.IDHash[:])
	switch {
	case err != nil || len(found) == 0:
		return false, err
	case found[0].ID != b.ID:
		return true, sqlstore.HashConflict(b.Key(), found[0].ID)
	case !found[0].Same:
		return true, fmt.Errorf("%w: batch %s", batch.ErrConflict, b.Key())
	}
	return true, nil
}

// compareKnown compares a batch with the stored batches of its id and of its DataChangeID. It
// reports whether there are any.
func (t *session) compareKnown(ctx context.Context, b *addition) (bool, error) {
	known, err := t.isKnown(ctx, b)
	if err != nil || b.DataChangeID == "" {
		return known, err
	}
	same, changed, err := sqlstore.Get[bool](ctx, t, sqlSameChange, b.PayloadHash[:], string(b.Service), b.DataChangeID)
	if err == nil && changed && !same {
		err = store.ChangeConflict(b.Key(), b.DataChangeID)
	}
	return known || changed, err
}

// footprintArg returns b, or NULL for nil.
func footprintArg(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}
