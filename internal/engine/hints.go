package engine

import (
	"context"
	"slices"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/health"
	"github.com/dltbatch/dltbatch/internal/hints"
	"github.com/dltbatch/dltbatch/store"
)

// newHints returns the node that sends hints to other processes and receives theirs.
func (e *Engine) newHints() *hints.Node {
	o := hints.Options{Timeout: e.options.ClaimTTL / 4, Changed: e.hintsChanged}
	if e.store.Abilities().Has(store.CanHint) {
		o.Store = e.store
	}
	return hints.New(o)
}

// Tell sends a hint to other processes, also while no Run runs in this process.
func (e *Engine) Tell(_ context.Context, h store.Hint) {
	e.hints.Tell(h)
	if r := e.run.Load(); r != nil && h.WholeTopics.Has(store.TopicLanes) {
		r.queuer.Scan()
	}
}

// Ended tells other processes that batches are final, if some process waits for such hints.
func (e *Engine) Ended(keys ...batch.Key) {
	if !e.hints.Wanted(store.TopicFinals) {
		return
	}
	h := store.Hint{Finals: make([]uint64, len(keys))}
	for i, key := range keys {
		h.Finals[i] = Hash(key)
	}
	e.hints.Tell(h)
}

// Hash returns the number that stands for a batch in hints.
func Hash(key batch.Key) uint64 { return store.KeyHash(string(key.Service), string(key.ID)) }

// HearEnds calls heard with the hashes of batches that other processes saw become final, until ctx
// is done. It calls look when hints may have been missed.
func (e *Engine) HearEnds(ctx context.Context, heard func(hashes []uint64, many bool), look func()) {
	e.hints.Hear(ctx, store.TopicFinals, func(h store.Hint) { heard(h.Finals, h.WholeTopics.Has(store.TopicFinals)) }, look)
}

// hearHints acts on hints of other processes about new work, until ctx is done.
func (r *run) hearHints(ctx context.Context) {
	if r.options.IdlePause > 0 {
		return // a session that listens would keep the database awake
	}
	r.hints.Hear(ctx, store.TopicLanes, r.handleHint, r.queuer.Scan)
}

// handleHint names the lanes of a hint that this Run has served before. A scan finds the others,
// if they have a batch: names may be made up, and a claim that meets a service decides for good
// who serves it. A scan also finds all lanes while more lanes are due than one scan reads.
func (r *run) handleHint(h store.Hint) {
	_, waiting := r.lanes.Waiting()
	if h.WholeTopics.Has(store.TopicLanes) || waiting > scanLanes {
		r.queuer.Scan()
		return
	}
	met := slices.DeleteFunc(slices.Clone(h.Lanes), func(s batch.ServiceID) bool { return !r.admission.entryOf(s).isJudged })
	r.lanes.Added(met...)
	if len(met) < len(h.Lanes) {
		r.queuer.Scan()
	}
}

// canSend reports whether this Run can send a service's batches now, so that other processes need
// not be told.
func (r *run) canSend(s batch.ServiceID) bool {
	return !r.stopCounts.stopBegan.Load() && r.admission.entryOf(s).err == nil && r.submitter.Closed(s) <= 0
}

// tellAllLanes tells other processes that batches wait which this one does not send.
func (r *run) tellAllLanes() { r.hints.Tell(store.Hint{WholeTopics: store.TopicLanes}) }

// tellAtEnd is tellAllLanes at the end of a Run that leaves batches to others. It waits for the
// store, for lastWritesTime at most, because the application may close the database after Run. A
// process that misses the hint finds the batches by a scan.
func (r *run) tellAtEnd(ctx context.Context) {
	if !r.store.Abilities().Has(store.CanHint) || r.queuer.Empty(r.options.ScanInterval) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lastWritesTime)
	defer cancel()
	_ = r.store.Tell(ctx, store.Hint{WholeTopics: store.TopicLanes}) // a hint may be lost
}

// hintsHealth returns whether this Run receives hints.
func (r *run) hintsHealth() health.Hints {
	return health.Hints(r.hints.State(store.TopicLanes))
}

// hintsChanged tells the present Run, which scans less often while hints arrive.
func (e *Engine) hintsChanged(t store.Topics, before, now hints.State) {
	hints.Log(e.events.Logger(), t, before, now)
	if r := e.run.Load(); r != nil && t == store.TopicLanes {
		r.lanes.Wake()
	}
}
