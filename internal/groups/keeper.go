package groups

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// PreparedStore is the part of a store that the keeper writes to.
type PreparedStore interface {
	KeepPrepared(ctx context.Context, kept []store.Prepared) ([]bool, error)
}

// ErrStopped is the error of a Keep that came too late.
var ErrStopped = errors.New("keeper: stopped")

// keeperWorkers is how many groups are written at once: a row that somebody has locked holds up
// only the rows of its group.
const keeperWorkers = 4

// Keeper keeps prepared bytes. No request waits for company.
type Keeper struct {
	w *Writer[*request]
}

type request struct {
	prepared  store.Prepared
	abandoned <-chan struct{} // closed once nobody waits for the answer any more
	stored    bool            // may be read after the answer
	answered  chan error      // has room for one
}

func (r *request) gone() bool {
	select {
	case <-r.abandoned:
		return true
	default:
		return false
	}
}

// NewKeeper returns a keeper of groups of at most `most` requests; Run makes it work. timeout
// bounds one write. A request that failed is retried for an eighth of that: meanwhile its caller's
// claim runs out.
func NewKeeper(s PreparedStore, most int, timeout time.Duration) *Keeper {
	return &Keeper{newWriter(Settings{MaxItems: most, Timeout: timeout, RetryFor: timeout / 8}, rules[*request]{
		workers: keeperWorkers,
		key:     func(r **request) batch.Key { return (*r).prepared.Key },
		lingers: func(**request) bool { return false },
		size:    func(r **request) int { return len((*r).prepared.Bytes) },
		write:   func(ctx context.Context, group []*request) error { return keepRequests(ctx, s, group) },
		done:    answerRequests, lost: answerRequests,
		trouble: func(error) {}, // the callers get it
	})}
}

// answerRequests answers the requests of a group.
func answerRequests(group []item[*request]) {
	for _, it := range group {
		it.value.answered <- it.err
	}
}

// keepRequests writes the requests whose callers still wait.
func keepRequests(ctx context.Context, s PreparedStore, group []*request) error {
	group = slices.DeleteFunc(slices.Clone(group), (*request).gone)
	if len(group) == 0 {
		return nil
	}
	kept := make([]store.Prepared, len(group))
	for i, r := range group {
		kept[i] = r.prepared
	}
	did, err := s.KeepPrepared(ctx, kept)
	if err == nil && len(did) != len(kept) {
		err = fmt.Errorf("keeper: %d answers about %d batches", len(did), len(kept))
	}
	for i := 0; err == nil && i < len(group); i++ {
		group[i].stored = did[i]
	}
	return err
}

// Keep stores p while Run runs, alone or with others. true says that p is stored, as
// [store.Store].KeepPrepared does; after an error that is not known. Keep returns when ctx is
// done. It may be called concurrently.
func (k *Keeper) Keep(ctx context.Context, p store.Prepared) (bool, error) {
	if err := p.Validate(); err != nil {
		return false, err // before it spoils a group
	}
	r := &request{prepared: p, abandoned: ctx.Done(), answered: make(chan error, 1)}
	select {
	case k.w.arrivals <- arrival[*request]{first: r}:
	case <-ctx.Done():
		return false, ctx.Err()
	case <-k.w.ended:
		return false, ErrStopped
	}
	select {
	case err := <-r.answered:
		return r.stored, err
	case <-ctx.Done():
		return false, ctx.Err()
	case <-k.w.ended:
		return false, ErrStopped
	}
}

// Run writes until ctx is done, which cuts off the writes under way. It is called once.
func (k *Keeper) Run(ctx context.Context) { k.w.Run(ctx) }
