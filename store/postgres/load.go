package postgres

import (
	"context"
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// load locks the rows of these batches, open or final, and reads them with their receipts. It
// leaves out batches that are not stored. It returns the clock, read under the locks, in
// microseconds.
func (t *session) load(ctx context.Context, seqs []int64) (found map[int64]*stored, now int64, err error) {
	found = make(map[int64]*stored, len(seqs))
	missing := seqs
	for _, from := range [...]struct {
		dest      func(*stored) []any
		statement string
		unpack    func(*stored)
	}{
		{lockedDest, sqlAttemptedRows, (*stored).unpack},
		{waitingDest, sqlWaitingRows, (*stored).unpackWaiting},
		{outcomeDest, sqlOutcomeRows, (*stored).unpack},
	} {
		if len(missing) == 0 {
			break
		}
		rows, err := query(ctx, t, from.dest, from.statement, ints(missing))
		if err != nil {
			return nil, 0, err
		}
		for i := range rows {
			from.unpack(&rows[i])
			found[rows[i].seq] = &rows[i]
			now = max(now, rows[i].clock)
		}
		missing = without(seqs, found)
	}
	if len(missing) > 0 {
		// It is gone, or was moving against the direction of the search.
		keys, err := t.keys(ctx, sqlKeys, ints(missing))
		if err != nil {
			return nil, 0, err
		}
		if len(keys) > 0 {
			return nil, 0, errMoved
		}
	}
	if now == 0 {
		if now, err = t.now(ctx); err != nil {
			return nil, 0, err
		}
	}
	return found, now, t.loadReceipts(ctx, found)
}

func without(seqs []int64, found map[int64]*stored) (missing []int64) {
	for _, seq := range seqs {
		if found[seq] == nil {
			missing = append(missing, seq)
		}
	}
	return missing
}

// keys are the names of the batches that a statement finds.
func (t *session) keys(ctx context.Context, statement string, args ...any) ([]store.Ref, error) {
	rows, err := query(ctx, t, func(c *batchCols) []any { return []any{&c.seq, &c.headerSignature, &c.serviceID} }, statement, args...)
	if err != nil {
		return nil, err
	}
	refs := make([]store.Ref, len(rows))
	for i := range rows {
		refs[i] = rows[i].ref()
	}
	return refs, nil
}

// seqs are the numbers of batches, looked up where a ref has no number; 0 where there is no
// such batch.
func (t *session) seqs(ctx context.Context, n int, ref func(i int) store.Ref) ([]int64, error) {
	seqs := make([]int64, n)
	var ask []batch.ID
	for i := range n {
		r := ref(i)
		if seqs[i] = r.Row; r.Row == 0 {
			ask = append(ask, r.Key.ID)
		}
	}
	if len(ask) == 0 {
		return seqs, nil
	}
	refs, err := t.keys(ctx, sqlSeqs, idHashes(ask))
	if err != nil {
		return nil, err
	}
	byKey := make(map[batch.Key]int64, len(refs))
	for _, r := range refs {
		byKey[r.Key] = r.Row
	}
	for i := range n {
		if seqs[i] == 0 {
			seqs[i] = byKey[ref(i).Key]
		}
	}
	return seqs, nil
}

// loadOne is load for the batch of a key. The error wraps batch.ErrNotFound if there is no
// such batch.
func (t *session) loadOne(ctx context.Context, key batch.Key) (*stored, int64, error) {
	seqs, err := t.seqs(ctx, 1, func(int) store.Ref { return store.Ref{Key: key} })
	if err != nil {
		return nil, 0, err
	}
	if seqs[0] != 0 {
		found, now, err := t.load(ctx, seqs)
		if err != nil {
			return nil, 0, err
		}
		if s := found[seqs[0]]; s != nil {
			return s, now, nil
		}
	}
	return nil, 0, fmt.Errorf("%w: %s", batch.ErrNotFound, key)
}

type receiptCols struct {
	seq int64
	r   batch.Receipt
}

func (t *session) loadReceipts(ctx context.Context, found map[int64]*stored) error {
	var seqs []int64
	for seq, s := range found {
		if s.inDatabase > 0 {
			seqs = append(seqs, seq)
		}
	}
	if len(seqs) == 0 {
		return nil
	}
	rows, err := query(ctx, t, func(c *receiptCols) []any {
		return []any{&c.seq, &c.r.TransactionID, &c.r.Valid, &c.r.Message, &c.r.Data}
	}, sqlReceipts, ints(seqs))
	if err != nil {
		return err
	}
	for _, c := range rows {
		if len(c.r.Data) == 0 {
			c.r.Data = nil
		}
		found[c.seq].was.Receipts = append(found[c.seq].was.Receipts, c.r)
	}
	for _, seq := range seqs {
		found[seq].now.Receipts = found[seq].was.Receipts
	}
	return nil
}
