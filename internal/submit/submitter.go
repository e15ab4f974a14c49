// Package submit is the submitter at work: one goroutine takes claimed runs, a bounded pool of
// hands posts them, and the outcome of each attempt is given to the recorder.
package submit

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/internal/pool"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/submitter"
)

// Options of a submitter; all must be set except Trace and, where no traits say Prepares, Keep.
type Options struct {
	MaxRequests    int           // most requests at once
	RequestTimeout time.Duration // limit of one request
	// Retry says how many times a service is tried again within a claim, and the first pause,
	// which then doubles.
	Retry func(batch.ServiceID) (retries int, pause time.Duration)
	// Reliant is true if batches are sent behind others that the ledger has accepted and not
	// decided: see [batch.LaneBatch.MayFollow]. Then only a busy ledger is tried again within a
	// claim.
	Reliant    bool
	MaxBatches int // most batches that are taken and not yet posted
	// MaxBytes is how many bytes of payloads may be taken and not yet posted: when they are
	// reached, nothing more is taken. 0 means no bound.
	MaxBytes int
	Rules    submitter.Rules
	// Keep stores the bytes that the ledger has prepared. Nothing is posted unless Keep returns
	// true.
	Keep func(context.Context, store.Prepared) (bool, error)
	// Record takes the outcome of an attempt. It may block, but not on the submitter.
	Record func(store.Outcome)
	// Trace begins a span for a request that posts claims. The request gets the context that Trace
	// returns, and end, unless it is nil, is called with the request's error. A nil Trace makes no
	// spans.
	Trace func(context.Context, []store.Claim) (_ context.Context, end func(error))
	// Ready is called whenever there may be room again.
	Ready func()
	// Paused and Resumed are called when a scope is closed and opened.
	Paused  func(sc Scope, err error)
	Resumed func(sc Scope)
}

// hangsAfter returns the time after which a request counts as hanging: others then get its hand
// and its place at the gate.
func (o *Options) hangsAfter() time.Duration { return min(time.Second, o.RequestTimeout/4) }

// Submitter posts runs. All methods may be called concurrently.
type Submitter struct {
	ledger  dlt.Ledger
	options *Options
	pool    *pool.Pool
	gates   *gates
	sender  *sender
	wake    chan struct{}

	mu            sync.Mutex
	queue         []run // taken and not yet given to a hand
	payloadBytes  int   // size of the payloads in the queue and in the hands
	isFull        bool  // whether Room was 0 because of the queue
	isStopped     bool  // whether nothing more is posted
	batchesAtGate int   // batches that have a hand and that the gate does not know of yet
}

// run is a claimed run with everything needed to post it.
type run struct {
	store.ClaimedRun
	payloads [][]byte
	bytes    int // size of the payloads
	until    time.Time
}

// New returns a submitter; Run makes it work.
func New(l dlt.Ledger, o Options) *Submitter {
	g := &gates{ledger: l, options: &o, byScope: map[Scope]*gate{}, forgetAt: maxGates}
	s := &Submitter{ledger: l, options: &o, gates: g, sender: &sender{ledger: l, options: &o, gates: g}, wake: make(chan struct{}, 1)}
	s.pool = pool.New(o.MaxRequests, o.hangsAfter(), func() {
		loop.Poke(s.wake)
		o.Ready()
	})
	return s
}

// Room returns how many batches can be taken: the number of free hands or the number of batches
// posted in the last 100 ms, whichever is more, less the queued batches, and never more than the
// gate of a ledger under pressure lets through. If n is 0, again is when it may change by itself.
// A lane that is claimed and finds the gate closed goes back behind all others, so no more is
// claimed than the gate lets through.
func (s *Submitter) Room() (n int, again time.Duration) {
	now := time.Now()
	n = min(max(s.pool.Free(), s.pool.Recent(now)), s.options.MaxBatches)
	s.mu.Lock()
	if s.isStopped {
		s.mu.Unlock()
		return 0, 0
	}
	queued := s.queuedBatches()
	if heavy := s.options.MaxBytes > 0 && s.payloadBytes >= s.options.MaxBytes; heavy {
		n = 0
	}
	s.isFull = queued > 0 && n <= queued
	ready := s.batchesAtGate
	s.mu.Unlock()
	n -= queued
	// A closed gate stops everything only if there is one ledger. That there is one gate does not
	// prove this, because a gate is made by the first request. With several ledgers Closed decides
	// for each lane.
	if g := s.gates.onlyGate(); g != nil && !s.ledger.Traits("").Routed {
		if g.closedFor(now) > 0 {
			return 0, g.closedFor(now)
		} else if probe := g.freePlaces(now) - queued - ready; probe < n && g.isRestricted() {
			n, again = probe, probePause
		}
	}
	return max(0, n), again
}

// BytesLeft returns how many bytes of payloads may be taken, at least one; 0 means no bound.
func (s *Submitter) BytesLeft() int {
	if s.options.MaxBytes <= 0 {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(1, s.options.MaxBytes-s.payloadBytes)
}

// Busy returns how many requests are under way.
func (s *Submitter) Busy() int { return s.pool.Busy() }

// PausedBy returns the error for which nothing of a service is posted at present, or nil if its
// batches are posted. all reports whether its whole ledger is paused. after is as in PauseOver.
func (s *Submitter) PausedBy(service batch.ServiceID, after time.Duration) (why error, all bool) {
	return s.gates.closedBy(service, after)
}

// PauseOver reports whether the pause of a scope has been over for longer than after, and nothing
// waited that could have found out whether the ledger takes batches again.
func (s *Submitter) PauseOver(sc Scope, after time.Duration) bool {
	return s.gates.pauseHasEnded(sc, after)
}

// Closed returns for how long no batch of a service may be sent.
func (s *Submitter) Closed(service batch.ServiceID) time.Duration {
	if wait := s.gates.closedFor(service); wait > 0 {
		return wait
	}
	if s.pool.Hangs(string(service)) {
		return 100 * time.Millisecond // requests of this service hang
	}
	return 0
}

// queuedBatches returns how many batches wait for a hand. Batches of a service whose requests hang
// and have its whole share do not count: they keep no other service from being claimed.
func (s *Submitter) queuedBatches() (n int) {
	crowded := s.pool.Crowded() // rarely true
	for _, r := range s.queue {
		if !crowded || !s.pool.Hangs(string(r.Service)) {
			n += len(r.Batches)
		}
	}
	return n
}

// Post takes a run, and does not wait until the run is sent. After a stop it puts the run back. A
// batch whose payload is nil fails without being sent.
func (s *Submitter) Post(r store.ClaimedRun, payloads [][]byte, until time.Time) {
	s.mu.Lock()
	if s.isStopped {
		s.mu.Unlock()
		s.Return(r.Batches)
		return
	}
	size := 0
	for _, p := range payloads {
		size += len(p)
	}
	s.payloadBytes += size
	s.queue = append(s.queue, run{r, payloads, size, until})
	s.mu.Unlock()
	loop.Poke(s.wake)
}

// Return puts back claims that will not be posted.
func (s *Submitter) Return(claims []store.Claim) {
	for _, c := range claims {
		s.options.Record(submitter.Unposted(c))
	}
}

// Run posts the runs that Post takes until ctx is done. Then it puts back the runs that have no
// hand yet, waits for the requests under way, which end within the request timeout, and returns.
func (s *Submitter) Run(ctx context.Context) {
	var hands sync.WaitGroup
	stopping := context.AfterFunc(ctx, func() { loop.Poke(s.wake) })
	defer stopping()
	for {
		if left, room := s.dispatch(ctx, &hands); room || left && s.pool.Crowded() {
			s.options.Ready() // Room counts a run with a hand as one, and does not count runs of a crowded service
		}
		if ctx.Err() != nil {
			break
		}
		<-s.wake
	}
	s.drain()
	hands.Wait()
}

// drain puts back the runs that wait for a hand, and all later runs.
func (s *Submitter) drain() {
	s.mu.Lock()
	queue := s.queue
	s.queue, s.isStopped = nil, true
	s.mu.Unlock()
	for _, r := range queue {
		s.releasePayloads(r)
		s.Return(r.Batches)
	}
}

// dispatch gives runs to free hands, in order. It passes over a run whose service has used up its
// share. left reports whether runs are left. room reports whether there may be room again: Room
// counts each batch of a run that waits, and one hand takes the whole run.
func (s *Submitter) dispatch(ctx context.Context, hands *sync.WaitGroup) (left, room bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.queue)
	rest := s.queue[:0]
	for _, r := range s.queue {
		hand, ok := s.pool.Acquire(string(r.Service))
		if !ok {
			rest = append(rest, r)
			continue
		}
		s.batchesAtGate += len(r.Batches)
		hands.Go(func() { s.work(ctx, r, hand) })
	}
	clear(s.queue[len(rest):])
	s.queue = rest
	if room = s.isFull && len(rest) < before; room {
		s.isFull = false
	}
	return len(rest) > 0, room
}

// work posts a run, and then runs that wait for a hand: a goroutine that has posted already has
// the stack that a request needs.
func (s *Submitter) work(ctx context.Context, r run, hand *pool.Hand) {
	for ok := true; ok; {
		used, hung := s.post(ctx, r, hand)
		s.releasePayloads(r)
		if !used {
			hand.ReleaseUnused()
			return
		}
		hand.ReleaseQuietly(hung)
		r, hand, ok = s.takeNext(ctx)
		s.options.Ready()
	}
	loop.Poke(s.wake)
}

// releasePayloads frees the bytes of a run whose payloads are no longer needed.
func (s *Submitter) releasePayloads(r run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.payloadBytes -= r.bytes
}

// takeNext takes the first waiting run that may have a hand.
func (s *Submitter) takeNext(ctx context.Context) (run, *pool.Hand, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil { // Run stops, and puts the waiting runs back
		return run{}, nil, false
	}
	for i, r := range s.queue {
		if hand, ok := s.pool.Acquire(string(r.Service)); ok {
			if i == 0 { // almost always true
				s.queue[0], s.queue = run{}, s.queue[1:]
			} else {
				s.queue = slices.Delete(s.queue, i, i+1)
			}
			s.batchesAtGate += len(r.Batches)
			return r, hand, true
		}
	}
	return run{}, nil, false
}

// post sends the batches of a run, one after the other or several in one request, until one fails,
// and puts the rest back. used reports whether anything was sent, and hung whether the last
// request ran into its time limit.
func (s *Submitter) post(ctx context.Context, r run, hand *pool.Hand) (used, hung bool) {
	at := batchesBeforeGate{submitter: s, batches: len(r.Batches)}
	defer at.passGate()
	prepared := s.sender.runPrepared(r)
	alone := 0 // batches before this index are sent one by one, since their list was refused or could not be taken yet
	for i := 0; i < len(r.Batches); {
		if ctx.Err() != nil || !s.sender.requestFits(r.until) {
			s.Return(r.Batches[i:])
			return used, hung
		}
		if r.payloads[i] == nil { // nothing to send: batch and lane wait, longer each time
			s.options.Record(submitter.Judge(r.Batches[i], errNoPayload, true, s.options.Rules))
			s.Return(r.Batches[i+1:])
			return used, hung
		}
		n := 1
		if i >= alone {
			n = s.sender.listLength(r, i)
		}
		post, kept, err := s.sender.makeAttempt(ctx, r.Batches[i:i+n], r.payloads[i:i+n], lanePrepared(r, prepared, i), r.until, &at)
		if prepared != nil {
			prepared[i] = kept
		}
		if !wasSent(post) && err == nil {
			s.Return(r.Batches[i:])
			return used, hung
		}
		used = true
		hand.Posted(n)
		if kind := dlt.Kind(err); n > 1 && (kind == batch.KindRejected || kind == batch.KindNotYet) {
			alone = i + n
			continue
		}
		known := recordedPart(n, err)
		for _, c := range r.Batches[i : i+known] {
			o := submitter.Judge(c, err, wasSent(post), s.options.Rules)
			o.Post, o.Report = post, reportOf(c, o, err, post.Took)
			s.options.Record(o)
		}
		if err != nil {
			s.Return(r.Batches[i+known:])
			return true, errors.Is(err, context.DeadlineExceeded)
		}
		clear(r.payloads[i : i+n])
		i += n
	}
	return used, hung
}

// batchesBeforeGate counts the batches of a run between its hand and the gate.
type batchesBeforeGate struct {
	submitter *Submitter
	batches   int
}

// passGate is called when the gate knows of the run, or never will.
func (a *batchesBeforeGate) passGate() {
	if a.batches > 0 {
		a.submitter.mu.Lock()
		a.submitter.batchesAtGate -= a.batches
		a.submitter.mu.Unlock()
		a.batches = 0
	}
}

// errNoPayload is a certain failure that spends nothing. A person has to look.
var errNoPayload = &dlt.Error{Op: "load payload", Kind: dlt.ErrMisconfigured, Err: batch.ErrNotFound}
