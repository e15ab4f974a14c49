// Package keeper stores the bytes that clients prepare before their first POSTs, in groups.
package keeper

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/store"
)

// Store is the part of a store that the keeper writes to.
type Store interface {
	KeepPrepared(ctx context.Context, kept []store.Prepared) ([]bool, error)
}

// Options of a keeper; all must be set.
type Options struct {
	Max     int           // in a group
	Timeout time.Duration // of a group, however often it is written
}

// ErrStopped is the error of a Keep that came too late.
var ErrStopped = errors.New("keeper: stopped")

// writers is how many groups are written at once: a row that somebody has locked holds up only
// the rows of its group.
const writers = 4

// Keeper groups requests: requests that come while all writers are busy share the next write,
// and no request waits for company.
type Keeper struct {
	store Store
	o     Options
	in    chan request
	ended chan struct{} // closed when Run returns
}

type request struct {
	p      store.Prepared
	gone   <-chan struct{} // nobody waits for the answer any more
	answer chan<- answer   // has room for one answer
}

type answer struct {
	did bool
	err error
}

// New returns a keeper; Run makes it work.
func New(s Store, o Options) *Keeper {
	return &Keeper{store: s, o: o, in: make(chan request, 4*o.Max), ended: make(chan struct{})}
}

// Keep stores p while Run runs, alone or with others. true says that p is stored, as
// [store.PreparedKeeper].KeepPrepared does; after an error that is not known. Keep returns when ctx is
// done. It may be called concurrently.
func (k *Keeper) Keep(ctx context.Context, p store.Prepared) (bool, error) {
	if err := p.Validate(); err != nil {
		return false, err // before it spoils a group
	}
	a := make(chan answer, 1)
	select {
	case k.in <- request{p, ctx.Done(), a}:
	case <-ctx.Done():
		return false, ctx.Err()
	case <-k.ended:
		return false, ErrStopped
	}
	select {
	case got := <-a:
		return got.did, got.err
	case <-ctx.Done():
		return false, ctx.Err()
	case <-k.ended:
		select {
		case got := <-a:
			return got.did, got.err
		default:
			return false, ErrStopped
		}
	}
}

// Run writes until ctx is done, which cuts off the writes under way. It is called once.
func (k *Keeper) Run(ctx context.Context) {
	defer close(k.ended)
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for {
				select {
				case r := <-k.in:
					k.write(ctx, k.gather(r))
				case <-ctx.Done():
					return
				}
			}
		})
	}
	all.Wait()
}

// gather adds the requests that are there already.
func (k *Keeper) gather(r request) []request {
	group := []request{r}
	for len(group) < k.o.Max {
		select {
		case r = <-k.in:
			group = append(group, r)
		default:
			return group
		}
	}
	return group
}

// write keeps a group. If that fails, it writes each request by itself, so that one bad row
// does not hold up the others, and retries for an eighth of the group's time in all: meanwhile
// the callers' claims run out.
func (k *Keeper) write(ctx context.Context, group []request) {
	ctx, cancel := context.WithTimeout(ctx, k.o.Timeout)
	defer cancel()
	waiting := group[:0]
	for _, r := range group {
		select {
		case <-r.gone:
		default:
			waiting = append(waiting, r)
		}
	}
	if len(waiting) == 0 {
		return
	}
	did, err := k.keep(ctx, waiting)
	if err == nil || ctx.Err() != nil {
		answerAll(waiting, did, err)
		return
	}
	brief, end := context.WithTimeout(ctx, k.o.Timeout/8)
	defer end()
	for i := range waiting {
		one := waiting[i : i+1]
		err := loop.Retry(brief, func(error) {}, func() (err error) {
			did, err = k.keep(ctx, one)
			return err
		})
		answerAll(one, did, err)
	}
}

// keep makes one call of the store. Without an error, did has an element for each request.
func (k *Keeper) keep(ctx context.Context, group []request) (did []bool, err error) {
	kept := make([]store.Prepared, len(group))
	for i, r := range group {
		kept[i] = r.p
	}
	err = loop.Contain(func() error {
		did, err = k.store.KeepPrepared(ctx, kept)
		if err == nil && len(did) != len(kept) {
			err = fmt.Errorf("keeper: %d answers about %d batches", len(did), len(kept))
		}
		return err
	})
	return did, err
}

func answerAll(group []request, did []bool, err error) {
	for i, r := range group {
		r.answer <- answer{err == nil && did[i], err}
	}
}
