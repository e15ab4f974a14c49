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

// ErrStopped is the error of a Keep that began after Run had ended.
var ErrStopped = errors.New("keeper: stopped")

// keeperWorkers is how many groups are written at once. A row that is locked delays only the rows
// of its group.
const keeperWorkers = 4

// Keeper keeps prepared bytes. A request does not linger for others that could share its write.
type Keeper struct {
	writer *Writer[*request]
}

type request struct {
	prepared   store.Prepared
	callerLeft <-chan struct{} // closed once the caller no longer waits for the answer
	isStored   bool            // read only after the answer
	answer     chan error      // its capacity is one
}

func (r *request) isAbandoned() bool {
	select {
	case <-r.callerLeft:
		return true
	default:
		return false
	}
}

// NewKeeper returns a keeper of groups of at most `most` requests; Run makes it work. timeout
// bounds one write. A failed request is repeated for an eighth of timeout, because its caller's
// claim goes on meanwhile.
func NewKeeper(s PreparedStore, most int, timeout time.Duration) *Keeper {
	return &Keeper{newWriter(Settings{MaxItems: most, Timeout: timeout, RetryFor: timeout / 8}, writerRules[*request]{
		workers:   keeperWorkers,
		key:       func(r **request) batch.Key { return (*r).prepared.Key },
		mayLinger: func(**request) bool { return false },
		size:      func(r **request) int { return len((*r).prepared.Bytes) },
		write:     func(ctx context.Context, group []*request) error { return keepRequests(ctx, s, group) },
		onDone:    answerRequests, onLost: answerRequests,
		onTrouble: func(error) {}, // the callers get the error
	})}
}

// answerRequests answers the requests of a group.
func answerRequests(group []item[*request]) {
	for _, it := range group {
		it.value.answer <- it.firstErr
	}
}

// keepRequests writes the requests whose callers still wait.
func keepRequests(ctx context.Context, s PreparedStore, group []*request) error {
	group = slices.DeleteFunc(slices.Clone(group), (*request).isAbandoned)
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
		group[i].isStored = did[i]
	}
	return err
}

// Keep stores p while Run runs, alone or with other requests. true means that p is stored, as for
// [store.Store].KeepPrepared. After an error p may be stored or not. Keep returns when ctx is
// done. It may be called concurrently.
func (k *Keeper) Keep(ctx context.Context, p store.Prepared) (bool, error) {
	if err := p.Validate(); err != nil {
		return false, err // refused here, because it would make its whole group fail
	}
	r := &request{prepared: p, callerLeft: ctx.Done(), answer: make(chan error, 1)}
	select {
	case k.writer.arrivals <- arrival[*request]{first: r}:
	case <-ctx.Done():
		return false, ctx.Err()
	case <-k.writer.ended:
		return false, ErrStopped
	}
	select {
	case err := <-r.answer:
		return r.isStored, err
	case <-ctx.Done():
		return false, ctx.Err()
	case <-k.writer.ended:
		return false, ErrStopped
	}
}

// Run writes until ctx is done, which cuts off the writes under way. It is called once.
func (k *Keeper) Run(ctx context.Context) { k.writer.Run(ctx) }
