package postgres

import (
	"context"
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
)

// numbering is how the rows of a table get their order keys and their numbers. Its fields are
// statements.
type numbering struct {
	factsStatement    string // reads the facts for an addition: see [session.readFacts]
	factsWithoutReads string // reads the same facts without reading any table
	takenStatement    string // reports whether rows have one of these numbers
	raiseStatement    string // sets the sequence to the largest number of a row
}

var (
	batchNumbering = numbering{sqlBeforeAdd, sqlSerialAdd, sqlTaken, sqlRaiseNumbers}
	orderNumbering = numbering{sqlBeforeOrders, sqlSerialOrders, sqlOrdersTaken, sqlRaiseOrderNumbers}
)

// orderKeys gives n batches or orders their order keys: max(clock, the lane's last key + 1 us), 1
// us apart within the call. It returns a number for each. of returns the lane of each; more are
// further arguments of the statement of by.
func (t *session) orderKeys(ctx context.Context, by numbering, n int, of func(i int) (lane batch.ServiceID, at *int64), more ...any) (seqs []int64, err error) {
	last := map[batch.ServiceID]int64{}
	var lanes []batch.ServiceID
	for i := range n {
		lane, _ := of(i)
		if _, ok := last[lane]; !ok {
			last[lane] = 0
			lanes = append(lanes, lane)
		}
	}
	now, seqs, err := t.readFacts(ctx, by, lanes, n, last, more...)
	if err != nil {
		return nil, err
	}
	latest := now - 1 // the latest key that this call has assigned, in any lane
	for i := range n {
		lane, at := of(i)
		latest = max(latest, last[lane]) + 1
		*at, last[lane] = latest, latest
	}
	t.store.noteOrderKey(latest)
	return seqs, nil
}

// noteOrderKey keeps the latest order key or time of the database's clock that this process has
// seen.
func (s *Store) noteOrderKey(at int64) {
	for {
		was := s.latestOrderKey.Load()
		if at <= was || s.latestOrderKey.CompareAndSwap(was, at) {
			return
		}
	}
}

// seqBlock is how many numbers one increment of a sequence reserves.
const seqBlock = 1000

// readFacts reads the facts for an addition of n: the clock, n numbers, and, into last, the last
// order key of each lane or party whose key may be ahead of the clock. more are further arguments
// of the statement.
//
// In a serializable transaction any read of a lane's end locks a whole page of an index, in which
// other lanes may end, too. So such a transaction reads the ends only if the clock is behind what
// this process has seen before, because only then may lanes end ahead of the clock.
func (t *session) readFacts(ctx context.Context, by numbering, lanes []batch.ServiceID, n int, last map[batch.ServiceID]int64, more ...any) (now int64, seqs []int64, err error) {
	blocks := int64(n+seqBlock-1) / seqBlock
	if t.isolation != serializable {
		return t.scanFacts(ctx, n, last, by.factsStatement, append([]any{texts(lanes), blocks}, more...)...)
	}
	seen := t.store.latestOrderKey.Load()
	if now, seqs, err = t.scanFacts(ctx, n, last, by.factsWithoutReads, append([]any{blocks}, more...)...); err != nil || now > seen {
		return now, seqs, err
	}
	now, _, err = t.scanFacts(ctx, 0, last, by.factsStatement, append([]any{texts(lanes), int64(0)}, more...)...)
	return now, seqs, err
}

// scanFacts reads the result of a statement of a numbering.
func (t *session) scanFacts(ctx context.Context, n int, last map[batch.ServiceID]int64, statement string, args ...any) (now int64, seqs []int64, err error) {
	type fact struct {
		Kind    int    `db:"kind"`
		Service string `db:"service_id"`
		N       int64  `db:"n"`
	}
	facts, err := sqlstore.Query[fact](ctx, t, statement, args...)
	if err != nil {
		return 0, nil, err
	}
	seqs = make([]int64, 0, n)
	for _, f := range facts {
		switch f.Kind {
		case 0:
			now = f.N
		case 1:
			last[batch.ServiceID(f.Service)] = f.N
		case 3:
			if err := t.checkServer(f.Service); err != nil {
				return 0, nil, err
			}
		default:
			for i := int64(0); i < seqBlock && len(seqs) < n; i++ {
				seqs = append(seqs, f.N+i)
			}
		}
	}
	return now, seqs, nil
}

// notStored returns the error for rows that were not inserted although neither their ids nor their
// keys are stored. The addition may be tried again. Either the rows were stored and have been
// removed since, or their numbers are taken, because the sequence is behind; then notStored moves
// the sequence.
func (t *session) notStored(ctx context.Context, by numbering, seqs ...int64) error {
	taken, _, err := sqlstore.Get[bool](ctx, t, by.takenStatement, ints(seqs))
	if err != nil {
		return err
	}
	if !taken {
		return fmt.Errorf("%w: a row that was not inserted is not stored either, unless a unique index that dltbatch has not made refuses it", sqlstore.ErrMoved)
	}
	if _, err := sqlstore.Query[int64](ctx, t, by.raiseStatement); err != nil {
		return fmt.Errorf("numbers from %d on are taken, and the sequence cannot be moved behind them: %w", seqs[0], err)
	}
	return fmt.Errorf("%w: numbers from %d on were taken, and the sequence is moved behind them", sqlstore.ErrMoved, seqs[0])
}
