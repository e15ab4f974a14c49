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

// Tx is a transaction of a driver, or a connection that only reads. It takes statements as this
// package writes them.
type Tx interface {
	// Texts are the texts of the store.
	Texts() *Texts
	// Exec returns the number of rows that a statement changed.
	Exec(ctx context.Context, statement string, args ...any) (int64, error)
	Query(ctx context.Context, statement string, args ...any) (Rows, error)
	// Array is a list as one argument. Its values are int64, string, bool, or nil for NULL.
	Array(n int, at func(i int) any) any
	// Ints is Array for numbers, and allocates nothing for each.
	Ints(list []int64) any
	// ExecAll is Exec for many rows of values as Array has them: in one statement, whose arguments
	// are the columns, or row by row, whichever suits the database.
	ExecAll(ctx context.Context, statement string, rows [][]any) (int64, error)

	// Load locks the rows of these batches, open or final, and reads them with their receipts.
	// It leaves out batches that are not stored. It returns the clock in microseconds, read
	// under the locks.
	Load(ctx context.Context, seqs []int64) (found map[int64]*Stored, now int64, err error)
	// Attempted is Load without receipts. It finds all attempted rows, and may find others.
	Attempted(ctx context.Context, seqs []int64) (found map[int64]*Stored, now int64, err error)
	// SetPrepared writes the prepared bytes, or none, of rows that are still at their versions.
	SetPrepared(ctx context.Context, set []*Stored) error
	// Save writes all rows that differ from the database's.
	Save(ctx context.Context, all []*Stored) error
	// Add adds a batch, and returns its number, or 0 if it is known.
	Add(ctx context.Context, b batch.Batch) (seq int64, err error)
	// Old finds up to limit rows of a kind that are as old as until, oldest first.
	Old(ctx context.Context, of Aging, until int64, limit int) ([]Aged, error)
	// NextKey is an order key behind the whole lane, in a transaction of Adding.
	NextKey(ctx context.Context, service batch.ServiceID) (int64, error)
	// Windows reads lanes as a claim sees them, with the given number of waiting rows in each at
	// most, in the order of services. low are the floors of these lanes, or nil.
	Windows(ctx context.Context, services []batch.ServiceID, low []int64, waiting int) ([][]store.LaneRow, error)
	// Floors are the order keys below which nothing of these lanes is open, for statements that
	// ask for them; nil where statements do not.
	Floors(ctx context.Context, lanes []batch.ServiceID) ([]int64, error)
}

// Run runs do in a transaction, and adds the operation to an error. do may run more than once.
type Run func(ctx context.Context, op string, do func(ctx context.Context, t Tx) error) error

// Runner runs shared operations in transactions of a driver, of type T.
func Runner[T Tx](run func(ctx context.Context, op string, do func(ctx context.Context, t T) error) error) Run {
	return func(ctx context.Context, op string, do func(ctx context.Context, t Tx) error) error {
		return run(ctx, op, func(ctx context.Context, t T) error { return do(ctx, t) })
	}
}

// Driver holds the parts that each database does in its own way.
type Driver struct {
	// Read runs statements that only read; each may see a moment of its own.
	Read Run
	// Snapshot is Read for statements that must all see one moment.
	Snapshot Run
	// Surveying is Snapshot for statements that read tables in the order of an index.
	Surveying Run
	// Write runs statements that also write, Adding those statements that give out order keys.
	Write, Adding Run
	// Pruning runs one removal of Prune: up to PruneChunk rows of a kind.
	Pruning    Run
	PruneChunk int
	// Counting is Snapshot for a count, which reads all open rows: it gives up after
	// [store.StatsLimit], even if nobody listens any more.
	Counting Run
	// Delivering is Read for statements that deliver payloads.
	Delivering Run
	// Sizes are the sizes of the database's parts.
	Sizes func(ctx context.Context, t Tx) ([]store.Size, error)
	// Unusable remembers the names that a scan finds and cannot use.
	Unusable *Unusable
	// Want is the version of the schema that the driver is made for, and Have reads the
	// database's.
	Want int64
	Have func(ctx context.Context) (int64, error)
	// Wrap adds the operation to an error from before a transaction.
	Wrap func(op string, err error) error
	Queries
}

// Store is the part of a driver's store that all drivers share: a driver embeds it.
type Store struct {
	d Driver
	unhinted
}

// unhinted has the methods of [store.CanHint], until the driver has its own.
type unhinted struct{ store.Unimplemented }

// New returns the shared part of a store.
func New(d Driver) Store { return Store{d: d} }

// Abilities returns all of them but [store.CanHint], which each driver has in its own way.
func (s Store) Abilities() store.Abilities { return store.AllAbilities &^ store.CanHint }

// ask runs do, which may run more than once, and returns what its last run found; nothing after an
// error.
func ask[T any](ctx context.Context, run Run, op string, do func(ctx context.Context, t Tx) (T, error)) (T, error) {
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

// Texts are statements in the form that a database takes, each made once.
type Texts struct {
	fill   func(statement string) string
	filled sync.Map
	cols   *columnCache
}

// NewTexts returns the texts that form makes of statements.
func NewTexts(form func(statement string) string) *Texts {
	return &Texts{fill: form, cols: newColumns()}
}

// Of returns a statement as the database takes it.
func (t *Texts) Of(statement string) string {
	if text, ok := t.filled.Load(statement); ok {
		return text.(string)
	}
	text := t.fill(statement)
	t.filled.Store(statement, text)
	return text
}

// Query returns the rows of a statement. Its columns go into the fields of T that have their names
// as tags db; the one column of a statement goes into a T that is no struct.
func Query[T any](ctx context.Context, t Tx, statement string, args ...any) ([]T, error) {
	return QueryMany[T](ctx, t, 0, statement, args...)
}

// QueryMany is Query with about n rows expected.
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

// Each passes the rows of a statement to read, one by one, until read returns an error. read must
// not keep its row: Each uses it again.
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
			if into, err = t.Texts().cols.dest(statement, rows, &one); err != nil {
				return err
			}
		}
		var zero T
		one = zero // a column may be NULL, and bytes must not be shared
		if err := rows.Scan(into...); err != nil {
			return err
		}
		if err := read(&one); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Get reads the one value that a statement finds.
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

func texts[T ~string](t Tx, list []T) any {
	return t.Array(len(list), func(i int) any { return string(list[i]) })
}

// Seqs returns the numbers of n batches, looked up where a ref has no number; 0 where there is no
// such batch.
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

// CommitError is the error of a transaction that may be committed all the same.
type CommitError struct{ Err error }

func (e *CommitError) Error() string { return "commit: " + e.Err.Error() }
func (e *CommitError) Unwrap() error { return e.Err }

// Maybe reports whether a transaction that ended with err may be committed all the same.
func Maybe(err error) bool {
	_, is := errors.AsType[*CommitError](err)
	return is
}
