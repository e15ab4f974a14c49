package shards

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Number returns the number, from 0 on, of the shard to which a lane belongs for ever, where there
// are of shards: the first 8 bytes of the SHA-256 of its service, as a big-endian number, modulo
// of.
func Number(service batch.ServiceID, of int) int { return store.ShardOf(service, of) }

// Store is a store that knows which shard it is, such as store/postgres and store/postgres/native.
type Store interface {
	store.Store
	// Shard returns the shard as which the store was opened.
	Shard() store.Shard
}

// Shard is one shard, as a process uses it.
type Shard[DB any, S Store] struct {
	// DB is the database in which the application opens its transactions: a *pgxpool.Pool, or an
	// *sql.DB. Shards on one server may share it.
	DB    DB
	Store S
	// Runner serves the shard. [New] makes it.
	Runner *dltbatch.Runner
}

// Set is all shards. Its methods may be called concurrently.
type Set[DB any, S Store] struct{ shards []Shard[DB, S] }

// New returns the set of these shards, which are all shards of one set in the order of their
// numbers. It calls runner for each, to make its Runner over its Store. It does no I/O itself. A
// shard that is missing or twice, or out of its place, gives a [*batch.InputError].
func New[DB any, S Store](runner func(Shard[DB, S]) (*dltbatch.Runner, error), list ...Shard[DB, S]) (*Set[DB, S], error) {
	if len(list) == 0 {
		return nil, &batch.InputError{Field: "shards", Value: "none", Want: "all shards of a set"}
	}
	s := &Set[DB, S]{shards: make([]Shard[DB, S], len(list))}
	set := list[0].Store.Shard().Set
	for i, one := range list {
		want := store.Shard{Set: set, Number: i, Of: len(list)}
		if have := one.Store.Shard(); have != want || set == "" {
			return nil, &batch.InputError{Field: fmt.Sprintf("shards[%d]", i), Value: have.String(), Want: want.String() + ": set postgres.Options.Shard"}
		}
		var err error
		if one.Runner, err = runner(one); err != nil {
			return nil, fmt.Errorf("shard %d: %w", i, err)
		}
		s.shards[i] = one
	}
	return s, nil
}

// Of returns the shard of a lane. Its Runner has the methods that are about one batch or one lane,
// such as Explain, Cancel, Decide and Pause, and AddTx: begin the transaction in its DB, and pass
// it through its Store.
func (s *Set[DB, S]) Of(service batch.ServiceID) Shard[DB, S] {
	return s.shards[Number(service, len(s.shards))]
}

// All returns all shards, in the order of their numbers.
func (s *Set[DB, S]) All() []Shard[DB, S] { return slices.Clone(s.shards) }

// Add is [dltbatch.Runner.Add]. All batches of a call belong to one shard, because it stores all
// of them or none; else it stores nothing and returns a [*batch.InputError].
func (s *Set[DB, S]) Add(ctx context.Context, batches ...batch.Batch) error {
	if len(batches) == 0 {
		return nil
	}
	first := Number(batches[0].Service, len(s.shards))
	for i, b := range batches {
		if number := Number(b.Service, len(s.shards)); number != first {
			return fmt.Errorf("add: %w", &batch.InputError{
				Field: fmt.Sprintf("batches[%d].Service", i), Value: fmt.Sprintf("%s, of shard %d", batch.Excerpt(string(b.Service), 64), number),
				Want: fmt.Sprintf("a service of shard %d, as batches[0] has: one call adds to one shard; make a call for each", first),
			})
		}
	}
	return s.shards[first].Runner.Add(ctx, batches...)
}

// Get is [dltbatch.Runner.Get].
func (s *Set[DB, S]) Get(ctx context.Context, key batch.Key) (batch.Record, error) {
	return s.Of(key.Service).Runner.Get(ctx, key)
}

// Await is [dltbatch.Runner.Await].
func (s *Set[DB, S]) Await(ctx context.Context, key batch.Key) (batch.Record, error) {
	return s.Of(key.Service).Runner.Await(ctx, key)
}

// Wake is [dltbatch.Runner.Wake].
func (s *Set[DB, S]) Wake(service batch.ServiceID) { s.Of(service).Runner.Wake(service) }

// Idle is [dltbatch.Runner.Idle], for all shards.
func (s *Set[DB, S]) Idle(ctx context.Context) error {
	return s.forEach(ctx, func(ctx context.Context, one Shard[DB, S]) error { return one.Runner.Idle(ctx) })
}

// Find looks in all shards for batches by an id, a data change id, or the beginning of one. more
// reports whether some shard has more matching batches than q.Limit.
func (s *Set[DB, S]) Find(ctx context.Context, q store.FindQuery) (found []batch.Record, more bool, err error) {
	lists, mores := make([][]batch.Record, len(s.shards)), make([]bool, len(s.shards))
	err = s.forEach(ctx, func(ctx context.Context, one Shard[DB, S]) (err error) {
		i := one.Store.Shard().Number
		lists[i], mores[i], err = one.Store.Find(ctx, q)
		return err
	})
	if err != nil {
		return nil, false, err
	}
	for i := range lists {
		found, more = append(found, lists[i]...), more || mores[i]
	}
	return found, more, nil
}

// forEach calls do for all shards at once. An error names its shard.
func (s *Set[DB, S]) forEach(ctx context.Context, do func(ctx context.Context, one Shard[DB, S]) error) error {
	all, ctx := errgroup.WithContext(ctx)
	for i, one := range s.shards {
		all.Go(func() error {
			if err := do(ctx, one); err != nil {
				return fmt.Errorf("shard %d: %w", i, err)
			}
			return nil
		})
	}
	return all.Wait()
}

// restartPause is the pause before a Run that has failed is called again.
const restartPause = 5 * time.Second

// isFinalError reports whether err is an error of a Run that another try cannot mend.
func isFinalError(err error) bool {
	for _, is := range []error{
		store.ErrOtherShard, store.ErrNotMigrated, store.ErrNewerSchema, store.ErrUnreleasedSchema, batch.ErrInvalidInput,
		dltbatch.ErrOtherLedger, dltbatch.ErrRunning, dltbatch.ErrDrain,
	} {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}

// Run runs the Runners of all shards until ctx is done. Where one fails, as while its server is
// down at the start, the others go on: Run calls failed, which may be nil, and runs it again after
// 5 s. It ends all of them, and returns the error, where no later try can help:
// [store.ErrOtherShard], a schema that is not migrated or of another version
// ([store.ErrNotMigrated], [store.ErrNewerSchema], [store.ErrUnreleasedSchema]),
// [dltbatch.ErrOtherLedger], [batch.ErrInvalidInput], [dltbatch.ErrRunning] and
// [dltbatch.ErrDrain].
func (s *Set[DB, S]) Run(ctx context.Context, failed func(number int, err error)) error {
	return s.forEach(ctx, func(ctx context.Context, one Shard[DB, S]) error {
		for {
			err := one.Runner.Run(ctx)
			if err == nil || ctx.Err() != nil {
				return err
			}
			if isFinalError(err) {
				return err
			}
			if failed != nil {
				failed(one.Store.Shard().Number, err)
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(restartPause):
			}
		}
	})
}
