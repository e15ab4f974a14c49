package sim

import (
	"container/heap"
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// ledgerKind is one of the kinds of ledger that the seeds use in turn.
type ledgerKind struct {
	name              string
	traits            dlt.Traits
	ignoresDuplicates bool // true if the ledger never executes a duplicate
	dedupFor          time.Duration
	maxArrivalDelay   time.Duration // the longest time after which a request arrives; 0 is LateArrival

	isScabbard bool // see scabbardKind
}

// simulatedLedger is the part of a ledger that the scheduler and the checks use.
type simulatedLedger interface {
	Submit(ctx context.Context, a batch.Attempt) error
	Log(service batch.ServiceID) []batch.ID
	Restart()
}

var ledgerKinds = []ledgerKind{
	{name: "executes duplicates", traits: dlt.Traits{
		Name: "memory", LateArrival: 3 * time.Second, MaxIDsPerQuery: 50, GroupsByService: true,
		PressureScope: dlt.ScopeService, Resolves: true, // no Grace, so that LateArrival alone protects the ledger
	}},
	{name: "sawtooth", ignoresDuplicates: true, traits: dlt.Traits{
		Name: "sawtooth", ResendHarmlessFor: dlt.Forever, Grace: 4 * time.Second,
		ResendQuiet: 1260 * time.Second, Settle: 5 * time.Second, MaxIDsPerQuery: 50,
	}},
	{name: "harmless for a while", traits: dlt.Traits{ // as Canton's, which also names attempts
		Name: "window", ResendHarmlessFor: dedupWindow, LateArrival: 3 * time.Second, Grace: 3 * time.Second,
		MaxIDsPerQuery: 50, Resolves: true,
	}, dedupFor: dedupWindow},
}

// dedupWindow is short, so that time often passes its end.
const dedupWindow = 30 * time.Second

// The workers' times are short, so that much happens in little virtual time.
const (
	claimTTL       = 12 * time.Second
	requestTimeout = 3 * time.Second
	claimMargin    = time.Second
)

// world is the state of one simulation.
type world struct {
	t            testing.TB
	rng          *rand.Rand
	lateAddRand  *rand.Rand // chooses late Adds; separate, so that the rest of a seed does not change
	ledgerKind   ledgerKind
	store        *memory.Store
	ledger       simulatedLedger
	events       eventHeap
	lastSequence int
	trace        []string
	lanes        *laneSetup
	choose       store.Choose
	txIsOpen     bool // true while a transaction of the store is open

	workers         []*worker
	addsToCome      int  // the number of Adds that are still to come
	faultsHappen    bool // true while faults happen; they stop, so that the world can come to rest
	addedBatches    map[batch.ServiceID][]batch.ID
	spans           map[batch.ID]addSpan // the span of the Add of each batch
	addMoments      int                  // the number of Adds that have begun or ended
	postsUnderWay   map[batch.ID]int     // the number of POSTs under way of each batch
	saidCommitted   map[batch.ID]bool
	postsByBatch    map[batch.ID]*batchPosts
	placeIsMoved    map[batch.ID]bool // an operator has moved the batch, so its place in the order does not count
	decisionCount   int               // how often a person has decided
	clockHasStepped bool              // true if the database's clock was not always right
	noRestBefore    time.Time         // no worker rests before this time
	isAtRest        bool              // true once nothing happens any more
	saidInvalid     map[batch.ID]bool // batches that were reported as decided against
	turnDeadlines   map[batch.ID]*turnDeadline
	failure         error
}

// batchPosts counts the POSTs of a batch, as they were seen on the wire.
type batchPosts struct {
	budget        batch.Budget
	postCount     int       // without those that failed as misconfigured
	unsurePosts   int       // POSTs in a row that may have been taken, since evidence or a requeue
	lastEnd       time.Time // when the last unsure POST ended
	reachedLedger bool      // true if the ledger has got a POST since it started, even if it has forgotten the POST
}

type scheduledEvent struct {
	time     time.Time
	sequence int
	do       func()
}

type eventHeap []scheduledEvent

func (e eventHeap) Len() int { return len(e) }
func (e eventHeap) Less(i, j int) bool {
	if c := e[i].time.Compare(e[j].time); c != 0 {
		return c < 0
	}
	return e[i].sequence < e[j].sequence
}
func (e eventHeap) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *eventHeap) Push(x any)   { *e = append(*e, x.(scheduledEvent)) }
func (e *eventHeap) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}

func newWorld(t testing.TB, k ledgerKind, l *laneSetup, seed uint64) *world {
	w := &world{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), lateAddRand: rand.New(rand.NewPCG(seed, 13)), ledgerKind: k, spans: map[batch.ID]addSpan{}, lanes: l, store: memory.New(), faultsHappen: true,
		addedBatches: map[batch.ServiceID][]batch.ID{}, postsUnderWay: map[batch.ID]int{}, saidCommitted: map[batch.ID]bool{},
		postsByBatch: map[batch.ID]*batchPosts{}, placeIsMoved: map[batch.ID]bool{}, saidInvalid: map[batch.ID]bool{}, turnDeadlines: map[batch.ID]*turnDeadline{},
	}
	if k.isScabbard {
		w.ledger = newScabbard(w)
		w.ledgerKind.traits = w.newSplinterClient().Traits("")
	} else {
		w.ledger = w.newMemoryLedger()
	}
	choose := queuer.Choose(l.strategy, func(batch.ServiceID) bool { return l.keepsOrder }, func(s batch.ServiceID, err error) { w.fail("lane %q held: %w", s, err) })
	w.choose = func(l batch.Lane) []batch.Run {
		w.txIsOpen = true
		defer func() { w.txIsOpen = false }()
		return choose(l)
	}
	return w
}

func (w *world) newMemoryLedger() *ledgermem.Ledger {
	k := w.ledgerKind
	commit := time.Duration(w.rng.IntN(1500)) * time.Millisecond
	if k.ignoresDuplicates && w.rng.IntN(3) == 0 {
		commit = w.between(0, 20*time.Second) // so that a restart loses many of them
	}
	return ledgermem.New(&ledgermem.Options{
		Traits: &k.traits, IgnoreDuplicates: k.ignoresDuplicates, DeduplicateFor: k.dedupFor, NameAttempts: k.dedupFor > 0, EarlierVerdicts: k.dedupFor > 0, Endpoint: "node",
		CommitAfter: commit,
		Fault: func(a batch.Attempt) ledgermem.Fault {
			// The scheduler makes the faults on the network. These are the faults of the ledger
			// itself.
			return ledgermem.Fault{
				InvalidFirst:  k.ignoresDuplicates && w.chance(0.05),
				Delay:         w.between(0, k.traits.Settle/2),
				FailFirst:     w.chance(0.08),
				DecideAgainst: k.dedupFor > 0 && w.chance(0.2),
			}
		},
	})
}

func (w *world) chance(p float64) bool { return w.faultsHappen && w.rng.Float64() < p }

func (w *world) between(lo, hi time.Duration) time.Duration {
	if hi <= lo {
		return lo
	}
	return lo + time.Duration(w.rng.Int64N(int64(hi-lo)))
}

func (w *world) scheduleAfter(d time.Duration, do func()) {
	w.lastSequence++
	heap.Push(&w.events, scheduledEvent{time.Now().Add(d), w.lastSequence, do})
}

func (w *world) addTrace(format string, args ...any) {
	w.trace = append(w.trace, time.Now().UTC().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

func (w *world) fail(format string, args ...any) {
	if w.failure == nil {
		w.failure = fmt.Errorf(format, args...)
		w.addTrace("BROKEN: %v", w.failure)
	}
}

// runUntilRest runs the events until the world is at rest, or a check has failed.
func (w *world) runUntilRest(limit time.Duration) {
	end := time.Now().Add(limit)
	for len(w.events) > 0 && w.failure == nil {
		e := heap.Pop(&w.events).(scheduledEvent)
		if e.time.After(end) {
			w.fail("not at rest after %s", limit)
			return
		}
		time.Sleep(time.Until(e.time))
		e.do()
	}
}

// scheduleAdds adds batches over some time. Some calls have several batches, some fail in the
// middle, and some are repeated.
func (w *world) scheduleAdds() {
	services := 1 + w.rng.IntN(4)
	n := 4 + w.rng.IntN(14)
	at := time.Duration(0)
	for i := 0; i < n; {
		service := batch.ServiceID(fmt.Sprintf("s%d", w.rng.IntN(services)))
		var call []batch.Batch
		for range 1 + w.rng.IntN(3) {
			payload := fmt.Sprintf("batch %d", i)
			if w.rng.IntN(12) == 0 {
				payload = "invalid " + payload
			} else if w.rng.IntN(20) == 0 {
				payload = "reject " + payload
			}
			b := batch.Batch{ID: batch.ID(fmt.Sprintf("b%03d", i)), Service: service, Payload: []byte(payload)}
			if w.ledgerKind.isScabbard {
				b = signedOnce().batches[i]
				b.Service = "aaaaa-bbbbb::a0" + service
			}
			if w.rng.IntN(6) == 0 {
				b.Budget = batch.Budget{Attempts: 1 + w.rng.IntN(4), EveryTry: w.rng.IntN(2) == 0}
			}
			w.lanes.setFootprint(&b)
			call = append(call, b)
			i++
		}
		at += w.between(0, 2*time.Second)
		w.addsToCome++
		w.scheduleAfter(at, func() {
			if w.lateAddRand.IntN(5) == 0 {
				w.addLate(call)
				return
			}
			w.addNow(call)
			w.addsToCome--
		})
	}
}

// addSpan is the time from the beginning of an Add until its batches were visible and it had
// ended.
type addSpan struct{ beganAt, visibleAt int }

// belongsBefore reports whether a belongs before b in their lane. The batches of Adds that overlap
// have no order.
func (w *world) belongsBefore(service batch.ServiceID, a, b batch.ID) bool {
	if w.spans[a] == w.spans[b] { // both are of one call
		return slices.Index(w.addedBatches[service], a) < slices.Index(w.addedBatches[service], b)
	}
	return w.spans[a].visibleAt < w.spans[b].beganAt
}

func (w *world) addNow(call []batch.Batch) {
	if err := w.store.Add(context.Background(), call...); err != nil {
		w.fail("add: %w", err)
		return
	}
	if w.chance(0.1) { // the caller did not get the answer, and adds the batches again
		if err := w.store.Add(context.Background(), call...); err != nil {
			w.fail("add again: %w", err)
		}
	}
	w.addMoments++
	w.noteAdded(call, addSpan{w.addMoments, w.addMoments})
}

// addLate adds batches that become visible long after many batches that are added later, with
// order keys of the present time.
func (w *world) addLate(call []batch.Batch) {
	tx := w.store.Begin()
	if err := w.store.Tx(tx).Add(context.Background(), call...); err != nil {
		w.fail("add late: %w", err)
		return
	}
	w.addMoments++
	at := addSpan{beganAt: w.addMoments}
	w.addTrace("add of %s begins", call[0].Key())
	w.scheduleAfter(time.Duration(w.lateAddRand.Int64N(int64(40*time.Second))), func() {
		w.addsToCome--
		if err := tx.Commit(); err != nil {
			w.fail("commit: %w", err)
			return
		}
		w.addMoments++
		at.visibleAt = w.addMoments
		w.noteAdded(call, at)
	})
}

func (w *world) noteAdded(call []batch.Batch, at addSpan) {
	for _, b := range call {
		w.addedBatches[b.Service] = append(w.addedBatches[b.Service], b.ID)
		w.spans[b.ID] = at
		w.postsByBatch[b.ID] = &batchPosts{budget: b.Budget}
		w.addTrace("added %s", b.Key())
	}
}

// checkLog compares the ledger's log with the order of the Adds.
func (w *world) checkLog() {
	l := w.lanes
	var silent map[batch.ID]bool
	if led, ok := w.ledger.(*ledgermem.Ledger); ok && l.keepsOrder && w.isAtRest {
		silent = unheardInvalid(led, w.saidInvalid)
	}
	for service, order := range w.addedBatches {
		log := w.ledger.Log(service)
		for i, id := range log {
			switch {
			case slices.Contains(log[:i], id):
				w.fail("promise 3: %s executed twice", id)
			case !slices.Contains(order, id):
				w.fail("%s was never added", id)
			case w.placeIsMoved[id], silent[id], l.keepsOrder && !w.isAtRest: // a report of this may still come
			default:
				if later := w.firstOvertaker(service, log[:i], id); later != "" {
					w.fail("promise 2: %s executed after %s", id, later)
				}
			}
		}
	}
}

// checkRest checks what must be true at rest: promises 1, 6 and 10.
func (w *world) checkRest() {
	for service, order := range w.addedBatches {
		log := w.ledger.Log(service)
		for _, id := range order {
			rec, err := w.store.Get(context.Background(), batch.Key{Service: service, ID: id})
			if err != nil {
				w.fail("promise 1: %s: %w", id, err)
				continue
			}
			committed := slices.Contains(log, id)
			switch {
			case !rec.Final() && (w.ledgerKind.isScabbard || rec.Decision == "" && !w.waitsBehindDecision(service, id)):
				w.fail("promise 6: %s is %s and nothing moves it", id, rec.State)
			case rec.Final() && committed != (rec.State == batch.Committed):
				w.fail("promise 10: %s is recorded %s, committed on the ledger: %v", id, rec.State, committed)
			case rec.Budget.EveryTry && rec.Spent < w.postsByBatch[id].postCount:
				w.fail("%s spent %d for %d posts", id, rec.Spent, w.postsByBatch[id].postCount)
			case rec.Final() && rec.DoubtSince != (time.Time{}):
				w.fail("%s is final with an open doubt", id)
			}
		}
	}
}

// waitsBehindDecision reports whether the batch waits for a batch of its lane that waits for a
// person.
func (w *world) waitsBehindDecision(service batch.ServiceID, id batch.ID) bool {
	return w.waitsForPerson(service, id, map[batch.ID]bool{id: true})
}

// openBatches returns the batches that are not final.
func (w *world) openBatches() []batch.Record {
	open, _, err := w.store.List(context.Background(), store.ListQuery{Open: true, Limit: 1000})
	if err != nil {
		w.fail("list: %w", err)
	}
	return open
}

var longIDPattern = regexp.MustCompile(`([0-9a-f]{8})[0-9a-f]{120}`)

func (w *world) traceText() string {
	return longIDPattern.ReplaceAllString(strings.Join(w.trace, "\n"), "$1")
}
