package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Rows are the rows that a statement found, as database/sql has them.
type Rows interface {
	Columns() ([]string, error)
	Next() bool
	Scan(dest ...any) error
	Err() error
	Close() error
}

// Tx is a transaction of a driver, or a connection that only reads. It takes statements in the
// form in which this package writes them.
type Tx interface {
	// Texts returns the cache of statements of the store.
	Texts() *Texts
	// Exec returns the number of rows that a statement changed.
	Exec(ctx context.Context, statement string, args ...any) (int64, error)
	Query(ctx context.Context, statement string, args ...any) (Rows, error)
	// Array returns a list of n values as one argument. Each value is an int64, a string, a bool,
	// or nil for NULL.
	Array(n int, at func(i int) any) any
	// Ints is Array for numbers, without an allocation for each number.
	Ints(list []int64) any
	// ExecAll is Exec for many rows, whose values are as in Array. It runs one statement whose
	// arguments are the columns, or a statement for each row, whichever suits the database.
	ExecAll(ctx context.Context, statement string, rows [][]any) (int64, error)

	// Load locks the rows of these batches, open or final, and reads them with their receipts.
	// It leaves out batches that are not stored. It returns the clock in microseconds, read
	// under the locks.
	Load(ctx context.Context, seqs []int64) (found map[int64]*Stored, now int64, err error)
	// Attempted is Load without receipts. It finds all attempted rows of these batches, and may
	// also find others of their rows.
	Attempted(ctx context.Context, seqs []int64) (found map[int64]*Stored, now int64, err error)
	// SetPrepared writes the prepared bytes of rows that still have their versions; nil removes
	// the bytes.
	SetPrepared(ctx context.Context, set []*Stored) error
	// Save writes those rows in which Now differs from Was.
	Save(ctx context.Context, all []*Stored) error
	// Add adds a batch and returns its number, or 0 if the batch is stored already.
	Add(ctx context.Context, b batch.Batch) (seq int64, err error)
	// Old finds up to limit rows of a kind whose time is not after until, oldest first.
	Old(ctx context.Context, of Aging, until int64, limit int) ([]Aged, error)
	// NextKey returns an order key after all keys of the lane. It is for transactions of
	// Driver.Adding.
	NextKey(ctx context.Context, service batch.ServiceID) (int64, error)
	// Windows reads lanes as a claim sees them, in the order of services, with up to `waiting`
	// waiting rows of each. low are the floors of these lanes, or nil.
	Windows(ctx context.Context, services []batch.ServiceID, low []int64, waiting int) ([][]store.LaneRow, error)
	// Floors returns the floor of each lane: an order key below which nothing of the lane is open.
	// It returns nil if the driver's statements do not use floors.
	Floors(ctx context.Context, lanes []batch.ServiceID) ([]int64, error)
}

// Run runs do in a transaction, and adds the name of the operation to an error. do may run more
// than once.
type Run func(ctx context.Context, op string, do func(ctx context.Context, t Tx) error) error

// Runner runs shared operations in transactions of a driver, of type T.
func Runner[T Tx](run func(ctx context.Context, op string, do func(ctx context.Context, t T) error) error) Run {
	return func(ctx context.Context, op string, do func(ctx context.Context, t Tx) error) error {
		return run(ctx, op, func(ctx context.Context, t T) error { return do(ctx, t) })
	}
}

// Driver holds the parts that each database does in its own way.
type Driver struct {
	// Read runs statements that only read; each statement may see another moment.
	Read Run
	// Snapshot is Read for statements that must all see one moment.
	Snapshot Run
	// Surveying is Snapshot for statements that read tables in the order of an index.
	Surveying Run
	// Write runs statements that also write, and Adding statements that assign order keys.
	Write, Adding Run
	// Pruning runs one removal of Prune, of up to PruneChunk rows of a kind.
	Pruning    Run
	PruneChunk int
	// Counting is Snapshot for a count of all open rows. It gives up after [store.StatsLimit],
	// even if the caller does not wait any more.
	Counting Run
	// Delivering is Read for statements that deliver payloads.
	Delivering Run
	// Sizes returns the sizes of the database's parts.
	Sizes func(ctx context.Context, t Tx) ([]store.Size, error)
	// Unusable remembers the names that a scan finds and cannot use.
	Unusable *Unusable
	// Want is the schema version that the driver is made for. Have reads the version of the
	// database.
	Want int64
	Have func(ctx context.Context) (int64, error)
	// Wrap adds the name of the operation to an error that occurred outside a transaction.
	Wrap func(op string, err error) error
	Queries
}

// Store is the part of a driver's store that all drivers share: a driver embeds it.
type Store struct {
	driver Driver
	withoutHints
}

// withoutHints has the methods of [store.CanHint] for a driver that does not have its own.
type withoutHints struct{ store.Unimplemented }

// New returns the shared part of a store.
func New(d Driver) Store { return Store{driver: d} }

// Abilities returns all abilities except [store.CanHint], since each driver has hints of its own.
func (s Store) Abilities() store.Abilities { return store.AllAbilities &^ store.CanHint }

// readResult runs do, which may run more than once. It returns the result of the last run, or the
// zero value and an error.
func readResult[T any](ctx context.Context, run Run, op string, do func(ctx context.Context, t Tx) (T, error)) (T, error) {
	var none, found T
	err := run(ctx, op, func(ctx context.Context, t Tx) (err error) {
		found, err = do(ctx, t)
		return err
	})
	if err != nil {
		return none, err
	}
	return found, nil
}

// Texts is a cache of statements in the form of one database. Each statement is converted once.
type Texts struct {
	convert   func(statement string) string
	converted sync.Map
	columns   *columnCache
}

// NewTexts returns a cache of the statements that form converts.
func NewTexts(form func(statement string) string) *Texts {
	return &Texts{convert: form, columns: newColumns()}
}

// Of returns a statement in the form of the database.
func (t *Texts) Of(statement string) string {
	if text, ok := t.converted.Load(statement); ok {
		return text.(string)
	}
	text := t.convert(statement)
	t.converted.Store(statement, text)
	return text
}

// Query returns the rows of a statement. Each column goes into the field of T whose tag db is the
// column's name. If T is no struct, the statement has one column, which goes into T.
func Query[T any](ctx context.Context, t Tx, statement string, args ...any) ([]T, error) {
	return QueryMany[T](ctx, t, 0, statement, args...)
}

// QueryMany is Query with space for about n rows.
func QueryMany[T any](ctx context.Context, t Tx, n int, statement string, args ...any) (found []T, err error) {
	err = Each(ctx, t, func(row *T) error {
		if found == nil && n > 0 {
			found = make([]T, 0, n)
		}
		found = append(found, *row)
		return nil
	}, statement, args...)
	if err != nil {
		return nil, err
	}
	return found, nil
}

// Each calls read with each row of a statement, until read returns an error. read must not keep
// its row, since Each uses the row again.
func Each[T any](ctx context.Context, t Tx, read func(row *T) error, statement string, args ...any) (err error) {
	rows, err := t.Query(ctx, statement, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var one T
	var into []any
	for rows.Next() {
		if into == nil {
			if into, err = t.Texts().columns.destinations(statement, rows, &one); err != nil {
				return err
			}
		}
		var zero T
		one = zero // since a NULL leaves a value as it was, and rows must not share bytes
		if err := rows.Scan(into...); err != nil {
			return err
		}
		if err := read(&one); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Get reads the one value that a statement finds. ok is false if it finds none.
func Get[T any](ctx context.Context, t Tx, statement string, args ...any) (v T, ok bool, err error) {
	found, err := Query[T](ctx, t, statement, args...)
	if err != nil || len(found) == 0 {
		return v, false, err
	}
	return found[0], true, nil
}

// Now reads the database's clock, in microseconds.
func Now(ctx context.Context, t Tx) (int64, error) {
	us, _, err := Get[int64](ctx, t, sqlNow)
	if err != nil {
		return 0, fmt.Errorf("read the clock: %w", err)
	}
	return us, nil
}

func textArray[T ~string](t Tx, list []T) any {
	return t.Array(len(list), func(i int) any { return string(list[i]) })
}

// Seqs returns the numbers of n batches. It looks up those whose ref has no number. 0 means that
// the batch is not stored.
func Seqs(ctx context.Context, t Tx, n int, ref func(i int) store.Ref) ([]int64, error) {
	seqs := make([]int64, n)
	var ask []batch.Key
	for i := range n {
		r := ref(i)
		if seqs[i] = r.Row; r.Row == 0 {
			ask = append(ask, r.Key)
		}
	}
	if len(ask) == 0 {
		return seqs, nil
	}
	found, err := Query[BatchCols](ctx, t, sqlSeqs, hashesOf(t, ask))
	if err != nil {
		return nil, err
	}
	byKey := make(map[batch.Key]int64, len(found))
	for i := range found {
		byKey[found[i].Key()] = found[i].Seq
	}
	for i := range n {
		if seqs[i] == 0 {
			seqs[i] = byKey[ref(i).Key]
		}
	}
	return seqs, nil
}

// seqOf returns the number of a batch. The error wraps batch.ErrNotFound if the batch is not
// stored.
func seqOf(ctx context.Context, t Tx, key batch.Key) (int64, error) {
	seqs, err := Seqs(ctx, t, 1, func(int) store.Ref { return store.Ref{Key: key} })
	if err == nil && seqs[0] == 0 {
		err = notFoundError(key)
	}
	if err != nil {
		return 0, err
	}
	return seqs[0], nil
}

func notFoundError(key batch.Key) error { return fmt.Errorf("%w: %s", batch.ErrNotFound, key) }

// CommitError is the error of a transaction that may nevertheless be committed.
type CommitError struct{ Err error }

func (e *CommitError) Error() string { return "commit: " + e.Err.Error() }
func (e *CommitError) Unwrap() error { return e.Err }

// Maybe reports whether a transaction that ended with err may nevertheless be committed.
func Maybe(err error) bool {
	_, is := errors.AsType[*CommitError](err)
	return is
}
