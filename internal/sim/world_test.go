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

// kind is one of the ledgers that share the seeds.
type kind struct {
	name   string
	traits dlt.Traits
	ignore bool // it never executes a duplicate
	dedup  time.Duration
	late   time.Duration // a request arrives at most this late; 0 is LateArrival

	scabbard bool // see scabbardKind
}

// ledger is the part of a ledger that the scheduler and the checks use.
type ledger interface {
	Submit(ctx context.Context, a batch.Attempt) error
	Log(service batch.ServiceID) []batch.ID
	Restart()
}

var kinds = []kind{
	{name: "executes duplicates", traits: dlt.Traits{
		Name: "memory", LateArrival: 3 * time.Second, MaxIDsPerQuery: 50, GroupsByService: true,
		PressureScope: dlt.ScopeService, Resolves: true, // and no Grace, so that LateArrival alone protects it
	}},
	{name: "sawtooth", ignore: true, traits: dlt.Traits{
		Name: "sawtooth", ResendHarmlessFor: dlt.Forever, Grace: 4 * time.Second,
		ResendQuiet: 1260 * time.Second, Settle: 5 * time.Second, MaxIDsPerQuery: 50,
	}},
	{name: "harmless for a while", traits: dlt.Traits{ // as Canton is: it names attempts, too
		Name: "window", ResendHarmlessFor: window, LateArrival: 3 * time.Second, Grace: 3 * time.Second,
		MaxIDsPerQuery: 50, Resolves: true,
	}, dedup: window},
}

// window is short, so that the time often passes its end.
const window = 30 * time.Second

// The workers' times; short, so that much happens in little virtual time.
const (
	ttl            = 12 * time.Second
	requestTimeout = 3 * time.Second
	margin         = time.Second
)

// world is one simulation.
type world struct {
	t      testing.TB
	rng    *rand.Rand
	late   *rand.Rand // chooses late Adds: of its own, so that the rest of a seed stays as it was
	kind   kind
	store  *memory.Store
	ledger ledger
	events events
	seq    int
	trace  []string
	lanes  *lanes
	choose store.Choose
	inTx   bool // a transaction of the store is open

	workers []*worker
	adding  int  // Adds that are still to come
	faulty  bool // faults happen; they stop, so that the world can come to rest
	acked   map[batch.ServiceID][]batch.ID
	spans   map[batch.ID]span // of the Adds
	adds    int               // begun and ended
	posting map[batch.ID]int  // POSTs under way
	told    map[batch.ID]bool
	sent    map[batch.ID]*sent
	moved   map[batch.ID]bool // by an operator: its place in the order does not count
	decided int               // times that a person decided
	stepped bool              // the database's clock was not always right
	awake   time.Time         // nobody rests before
	still   bool              // nothing moves any more
	heard   map[batch.ID]bool // reported as decided against
	waits   map[batch.ID]*waits
	failure error
}

// sent counts the POSTs of a batch, as the wire saw them.
type sent struct {
	budget  batch.Budget
	posts   int       // without misconfigured ones
	unsure  int       // POSTs in a row that may have been taken, since evidence or a requeue
	lastEnd time.Time // of the last unsure POST
	inside  bool      // the ledger has got a POST since it started, even if it has forgotten it
}

type event struct {
	at  time.Time
	seq int
	do  func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	if c := e[i].at.Compare(e[j].at); c != 0 {
		return c < 0
	}
	return e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}

func newWorld(t testing.TB, k kind, l *lanes, seed uint64) *world {
	w := &world{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), late: rand.New(rand.NewPCG(seed, 13)), kind: k, spans: map[batch.ID]span{}, lanes: l, store: memory.New(), faulty: true,
		acked: map[batch.ServiceID][]batch.ID{}, posting: map[batch.ID]int{}, told: map[batch.ID]bool{},
		sent: map[batch.ID]*sent{}, moved: map[batch.ID]bool{}, heard: map[batch.ID]bool{}, waits: map[batch.ID]*waits{},
	}
	if k.scabbard {
		w.ledger = newScabbard(w)
		w.kind.traits = w.client().Traits("")
	} else {
		w.ledger = w.memory()
	}
	choose := queuer.Choose(l.strategy, func(batch.ServiceID) bool { return l.keeps }, func(s batch.ServiceID, err error) { w.fail("lane %q held: %w", s, err) })
	w.choose = func(l batch.Lane) []batch.Run {
		w.inTx = true
		defer func() { w.inTx = false }()
		return choose(l)
	}
	return w
}

func (w *world) memory() *ledgermem.Ledger {
	k := w.kind
	commit := time.Duration(w.rng.IntN(1500)) * time.Millisecond
	if k.ignore && w.rng.IntN(3) == 0 {
		commit = w.between(0, 20*time.Second) // so that much of it is lost in a restart
	}
	return ledgermem.New(&ledgermem.Options{
		Traits: &k.traits, IgnoreDuplicates: k.ignore, DeduplicateFor: k.dedup, NameAttempts: k.dedup > 0, EarlierVerdicts: k.dedup > 0, Endpoint: "node",
		CommitAfter: commit,
		Fault: func(a batch.Attempt) ledgermem.Fault {
			// The scheduler makes the faults on the wire; these are the faults of the ledger.
			return ledgermem.Fault{
				InvalidFirst:  k.ignore && w.chance(0.05),
				Delay:         w.between(0, k.traits.Settle/2),
				FailFirst:     w.chance(0.08),
				DecideAgainst: k.dedup > 0 && w.chance(0.2),
			}
		},
	})
}

func (w *world) chance(p float64) bool { return w.faulty && w.rng.Float64() < p }

func (w *world) between(lo, hi time.Duration) time.Duration {
	if hi <= lo {
		return lo
	}
	return lo + time.Duration(w.rng.Int64N(int64(hi-lo)))
}

func (w *world) after(d time.Duration, do func()) {
	w.seq++
	heap.Push(&w.events, event{time.Now().Add(d), w.seq, do})
}

func (w *world) note(format string, args ...any) {
	w.trace = append(w.trace, time.Now().UTC().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

func (w *world) fail(format string, args ...any) {
	if w.failure == nil {
		w.failure = fmt.Errorf(format, args...)
		w.note("BROKEN: %v", w.failure)
	}
}

// run steps through the events until the world is at rest, or broken.
func (w *world) run(limit time.Duration) {
	end := time.Now().Add(limit)
	for len(w.events) > 0 && w.failure == nil {
		e := heap.Pop(&w.events).(event)
		if e.at.After(end) {
			w.fail("not at rest after %s", limit)
			return
		}
		time.Sleep(time.Until(e.at))
		e.do()
	}
}

// populate adds batches over a while; some calls carry several, some fail halfway,
// some are repeated.
func (w *world) populate() {
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
			if w.kind.scabbard {
				b = signed().batches[i]
				b.Service = "aaaaa-bbbbb::a0" + service
			}
			if w.rng.IntN(6) == 0 {
				b.Budget = batch.Budget{Attempts: 1 + w.rng.IntN(4), EveryTry: w.rng.IntN(2) == 0}
			}
			w.lanes.declare(&b)
			call = append(call, b)
			i++
		}
		at += w.between(0, 2*time.Second)
		w.adding++
		w.after(at, func() {
			if w.late.IntN(5) == 0 {
				w.addLate(call)
				return
			}
			w.add(call)
			w.adding--
		})
	}
}

// span is the time from an Add's begin until it was over and its batches visible.
type span struct{ began, ended int }

// before reports whether one batch of a lane belongs before another: Adds that overlap have
// no order.
func (w *world) before(service batch.ServiceID, a, b batch.ID) bool {
	if w.spans[a] == w.spans[b] { // one call
		return slices.Index(w.acked[service], a) < slices.Index(w.acked[service], b)
	}
	return w.spans[a].ended < w.spans[b].began
}

func (w *world) add(call []batch.Batch) {
	if err := w.store.Add(context.Background(), call...); err != nil {
		w.fail("add: %w", err)
		return
	}
	if w.chance(0.1) { // the caller did not get the answer and adds again
		if err := w.store.Add(context.Background(), call...); err != nil {
			w.fail("add again: %w", err)
		}
	}
	w.adds++
	w.added(call, span{w.adds, w.adds})
}

// addLate adds batches that become visible long after many later batches: the order keys are
// those of now.
func (w *world) addLate(call []batch.Batch) {
	tx := w.store.Begin()
	if err := w.store.Tx(tx).Add(context.Background(), call...); err != nil {
		w.fail("add late: %w", err)
		return
	}
	w.adds++
	at := span{began: w.adds}
	w.note("add of %s begins", call[0].Key())
	w.after(time.Duration(w.late.Int64N(int64(40*time.Second))), func() {
		w.adding--
		if err := tx.Commit(); err != nil {
			w.fail("commit: %w", err)
			return
		}
		w.adds++
		at.ended = w.adds
		w.added(call, at)
	})
}

func (w *world) added(call []batch.Batch, at span) {
	for _, b := range call {
		w.acked[b.Service] = append(w.acked[b.Service], b.ID)
		w.spans[b.ID] = at
		w.sent[b.ID] = &sent{budget: b.Budget}
		w.note("added %s", b.Key())
	}
}

// check compares the ledger's log with the order of the Adds.
func (w *world) check() {
	l := w.lanes
	var silent map[batch.ID]bool
	if led, ok := w.ledger.(*ledgermem.Ledger); ok && l.keeps && w.still {
		silent = decidedTwice(led, w.heard)
	}
	for service, order := range w.acked {
		log := w.ledger.Log(service)
		for i, id := range log {
			switch {
			case slices.Contains(log[:i], id):
				w.fail("promise 3: %s executed twice", id)
			case !slices.Contains(order, id):
				w.fail("%s was never added", id)
			case w.moved[id], silent[id], l.keeps && !w.still: // a report may still come
			default:
				if later := w.overtaken(service, log[:i], id); later != "" {
					w.fail("promise 2: %s executed after %s", id, later)
				}
			}
		}
	}
}

// checkRest checks what must hold at rest: promises 1, 6 and 10.
func (w *world) checkRest() {
	for service, order := range w.acked {
		log := w.ledger.Log(service)
		for _, id := range order {
			rec, err := w.store.Get(context.Background(), batch.Key{Service: service, ID: id})
			if err != nil {
				w.fail("promise 1: %s: %w", id, err)
				continue
			}
			committed := slices.Contains(log, id)
			switch {
			case !rec.Final() && (w.kind.scabbard || rec.Decision == "" && !w.behindDecision(service, id)):
				w.fail("promise 6: %s is %s and nothing moves it", id, rec.State)
			case rec.Final() && committed != (rec.State == batch.Committed):
				w.fail("promise 10: %s is recorded %s, committed on the ledger: %v", id, rec.State, committed)
			case rec.Budget.EveryTry && rec.Spent < w.sent[id].posts:
				w.fail("%s spent %d for %d posts", id, rec.Spent, w.sent[id].posts)
			case rec.Final() && rec.DoubtSince != (time.Time{}):
				w.fail("%s is final with an open doubt", id)
			}
		}
	}
}

// behindDecision reports whether the batch waits for a batch of its lane that waits for a
// person.
func (w *world) behindDecision(service batch.ServiceID, id batch.ID) bool {
	return w.held(service, id, map[batch.ID]bool{id: true})
}

// open returns the batches that are not final.
func (w *world) open() []batch.Record {
	open, _, err := w.store.List(context.Background(), store.ListQuery{Open: true, Limit: 1000})
	if err != nil {
		w.fail("list: %w", err)
	}
	return open
}

var longID = regexp.MustCompile(`([0-9a-f]{8})[0-9a-f]{120}`)

func (w *world) dump() string { return longID.ReplaceAllString(strings.Join(w.trace, "\n"), "$1") }
