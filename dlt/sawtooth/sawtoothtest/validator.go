package sawtoothtest

import (
	"container/heap"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/internal/simnode"
)

// validator is the state machine behind the REST API. It has no goroutine and no clock: advance
// gets the time, and does everything that was due, in the order of its times. The node's lock
// guards it.
type validator struct {
	o       *Options
	start   time.Time
	clock   time.Time // everything up to this time is done
	chain   *chain
	journal *journal

	completer     *completer
	tracker       *tracker
	incoming      []incomingBatch // accepted batches that are not in the pool yet, in order
	notYetPending []notYetPending // sorted by their times
	pool          []*pooledBatch
	inPool        map[batch.ID]struct{}
	failed        []failedBatch // failed since the last block; the next block executes them once more
	blockAt       time.Time     // the time of the next block, while there is something to execute
	limit         poolLimit
	accepted      map[batch.ID]int // how often a batch was accepted, for faults; a real node does not count this

	noGenesis bool      // the chain has no block yet
	halted    bool      // a block waits for a missing processor
	down      bool      // killed, or starting
	startAt   time.Time // when it is up again; zero if it is not starting

	latePosts lateQueue     // POSTs that arrive after their connection ended
	outbox    []*task       // requests that the REST API keeps for a validator that is down
	waits     []*statusWait // status queries that hold a client thread
	backlog   []*task       // requests without a client thread
	heldPosts []*task       // POSTs that wait for the publisher's lock while it is halted
	epoch     int           // how often the whole node was restarted
}

// incomingBatch is a batch that waits for the publisher thread.
type incomingBatch struct {
	batch *submitted
	fault BatchFault
	at    time.Time
}

// pooledBatch is a batch in the pending pool.
type pooledBatch struct {
	batch     *submitted
	fault     BatchFault
	runs      int
	notBefore time.Time
}

// notYetPending is a batch in the pool that is not PENDING yet.
type notYetPending struct {
	id batch.ID
	at time.Time
}

// statusWait is a waiting status query. It ends when none of its batches is pending.
type statusWait struct {
	ids   []batch.ID
	until time.Time
	done  bool
	lost  bool // true if the validator was killed during the wait
}

func newValidator(now time.Time, o *Options) *validator {
	v := &validator{o: o, start: now, clock: now, chain: newChain(now), journal: &journal{lastWord: map[batch.ID]string{}}, accepted: map[batch.ID]int{}, noGenesis: o.NoGenesis}
	v.crash(now)
	return v
}

// crash leaves only the chain, and the requests that have not arrived yet.
func (v *validator) crash(now time.Time) {
	v.completer = newCompleter(now, v.chain, v.o)
	v.tracker = newTracker(now, v.chain, v.o.InvalidTime)
	v.incoming, v.notYetPending, v.pool, v.failed = nil, nil, nil, nil
	v.inPool = map[batch.ID]struct{}{}
	v.limit = newPoolLimit(v.o.PoolLimit)
	v.waits, v.backlog, v.heldPosts = nil, nil, nil
	v.halted = false
}

// advance does everything that was due until now.
func (v *validator) advance(now time.Time) {
	for {
		at, ok := v.nextTime()
		if !ok || at.After(now) {
			break
		}
		v.clock = at
		v.step(at)
		v.freeThreads(at)
	}
	if now.After(v.clock) {
		v.clock = now
	}
}

// nextTime returns the time when the next step is due. ok is false if nothing is due.
func (v *validator) nextTime() (at time.Time, ok bool) {
	sooner := func(t time.Time) {
		if !ok || t.Before(at) {
			at, ok = t, true
		}
	}
	if len(v.latePosts) > 0 {
		sooner(v.latePosts[0].at)
	}
	if len(v.incoming) > 0 {
		sooner(v.incoming[0].at)
	}
	for _, w := range v.waits {
		sooner(w.until)
	}
	if v.down && !v.startAt.IsZero() {
		sooner(v.startAt)
	}
	if len(v.notYetPending) > 0 {
		sooner(v.notYetPending[0].at)
	}
	if v.hasBatchesToRun() {
		sooner(v.blockAt)
	}
	return at, ok
}

// hasBatchesToRun reports whether a block may be made of the batches in the pool.
func (v *validator) hasBatchesToRun() bool {
	return len(v.pool) > 0 && !v.noGenesis && !v.halted && !v.down
}

// setBlockTime sets the time of the next block: at a multiple of BlockInterval after the start.
func (v *validator) setBlockTime(now time.Time) {
	n := int64(now.Sub(v.start)/v.o.BlockInterval) + 1
	v.blockAt = v.start.Add(time.Duration(n) * v.o.BlockInterval)
}

// step does one thing that is due. Arrivals come before publications, and publications before a
// block.
func (v *validator) step(now time.Time) {
	switch {
	case len(v.latePosts) > 0 && !v.latePosts[0].at.After(now):
		l := heap.Pop(&v.latePosts).(lateArrival)
		l.run(now)
	case len(v.incoming) > 0 && !v.incoming[0].at.After(now):
		in := v.incoming[0]
		v.incoming = v.incoming[1:]
		v.publish(now, in.batch, in.fault)
	case v.expireWaits(now):
	case v.down && !v.startAt.IsZero() && !v.startAt.After(now):
		v.finishStart(now)
	case len(v.notYetPending) > 0 && !v.notYetPending[0].at.After(now):
		if id := v.notYetPending[0].id; v.isWaiting(id) {
			v.tracker.pending[id] = struct{}{}
		}
		v.notYetPending = v.notYetPending[1:]
	default:
		v.makeBlock(now)
		v.setBlockTime(now)
	}
}

// isFull reports whether the pool is full. Each POST is tested once, for back pressure
// (docs/ledgers/sawtooth.md#back-pressure).
func (v *validator) isFull() bool { return len(v.pool) >= v.limit.get() }

// accept accepts a verified list. From here on its batches are independent.
func (v *validator) accept(now time.Time, bs []*submitted) {
	for _, b := range bs {
		if v.completer.wasAccepted(now, b.id) {
			v.journal.add(Entry{Time: now, Kind: Ignored, Batches: []batch.ID{b.id}, Word: "remembered"})
			continue
		}
		ready := v.completer.add(now, b)
		if len(ready) == 0 {
			v.journal.add(Entry{Time: now, Kind: Parked, Batches: []batch.ID{b.id}})
		}
		for _, r := range ready {
			v.enqueue(now, r)
		}
	}
}

func (v *validator) enqueue(now time.Time, b *submitted) {
	v.accepted[b.id]++
	v.journal.add(Entry{Time: now, Kind: Accepted, Batches: []batch.ID{b.id}, Try: v.accepted[b.id]})
	f := v.o.Faults.drawBatch(b.id, v.accepted[b.id])
	if f.Lose {
		v.drop(now, b, "lost by a fault")
		return
	}
	// The publisher is one thread, so a later batch is not published earlier.
	at := now.Add(v.o.PublishDelay + f.PublishDelay)
	if n := len(v.incoming); n > 0 && v.incoming[n-1].at.After(at) {
		at = v.incoming[n-1].at
	}
	if len(v.incoming) == 0 && !at.After(now) {
		v.publish(now, b, f)
		return
	}
	v.incoming = append(v.incoming, incomingBatch{batch: b, fault: f, at: at})
}

// publish does the publisher thread's work for a batch, which is in the pool afterwards.
func (v *validator) publish(now time.Time, b *submitted, f BatchFault) {
	if _, done := v.chain.batches[b.id]; done {
		v.journal.add(Entry{Time: now, Kind: Ignored, Batches: []batch.ID{b.id}, Word: "committed"})
		return
	}
	if _, there := v.inPool[b.id]; there {
		v.journal.add(Entry{Time: now, Kind: Ignored, Batches: []batch.ID{b.id}, Word: "in the pool"})
		return
	}
	if !v.hasBatchesToRun() {
		v.setBlockTime(now)
	}
	v.inPool[b.id] = struct{}{}
	v.pool = append(v.pool, &pooledBatch{batch: b, fault: f})
	v.journal.add(Entry{Time: now, Kind: Published, Batches: []batch.ID{b.id}})
	if late := v.pendingDelay(b); late > 0 {
		v.tracker.noteTransactions(now, b)
		u := notYetPending{id: b.id, at: now.Add(late)}
		i, _ := slices.BinarySearchFunc(v.notYetPending, u, func(a, b notYetPending) int { return a.at.Compare(b.at) })
		v.notYetPending = slices.Insert(v.notYetPending, i, u)
		return
	}
	v.tracker.notePending(now, b)
}

// busyPoolLen is the number of batches in the pool from which a node counts as busy.
const busyPoolLen = 10

// pendingDelay returns how much later than its entry into the pool a batch is PENDING. A real
// node under load, with a block a second, answered UNKNOWN for up to 933 ms in 3 cases of 20;
// an idle one did so in none of 20.
func (v *validator) pendingDelay(b *submitted) time.Duration {
	if len(v.pool) < busyPoolLen {
		return 0
	}
	d := simnode.Draw{Subject: string(b.id), Try: v.accepted[b.id], Salt: "notice"}
	if v.o.Faults != nil {
		d.Seed = v.o.Faults.Seed
	}
	if d.Float("late") >= 3.0/20 {
		return 0
	}
	return d.UpTo("how long", v.o.BlockInterval)
}

// isWaiting reports whether a batch is in the pool and has no outcome yet.
func (v *validator) isWaiting(id batch.ID) bool {
	_, there := v.inPool[id]
	_, bad := v.tracker.invalid.entries[string(id)]
	return there && !bad
}

func (v *validator) drop(now time.Time, b *submitted, why string) {
	v.journal.add(Entry{Time: now, Kind: Dropped, Batches: []batch.ID{b.id}, Word: why})
}

// poolLimit is ten times the average number of batches per block, over all samples since the
// start. A block is a sample if it took, or left in the pool, more batches than the average, or if
// it took a single one: with one batch per block a real node's limit shrank from 300 to 10 and
// stayed there until a restart.
type poolLimit struct {
	fixed, sum, samples int
}

func newPoolLimit(fixed int) poolLimit { return poolLimit{fixed: fixed, sum: 30, samples: 1} }

func (l *poolLimit) get() int {
	if l.fixed > 0 {
		return l.fixed
	}
	return 10 * (l.sum / l.samples)
}

func (l *poolLimit) update(length, consumed int) {
	if avg := l.sum / l.samples; consumed == 1 || consumed > 0 && (length-consumed > avg || consumed > avg) {
		l.sum += consumed
		l.samples++
	}
}

// lateArrival is a POST that reaches the validator after its connection has ended.
type lateArrival struct {
	at  time.Time
	seq int
	run func(now time.Time)
}

type lateQueue []lateArrival

func (q lateQueue) Len() int { return len(q) }
func (q lateQueue) Less(i, j int) bool {
	if q[i].at.Equal(q[j].at) {
		return q[i].seq < q[j].seq
	}
	return q[i].at.Before(q[j].at)
}
func (q lateQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push implements heap.Interface.
func (q *lateQueue) Push(x any) { *q = append(*q, x.(lateArrival)) }

// Pop implements heap.Interface.
func (q *lateQueue) Pop() any {
	last := len(*q) - 1
	x := (*q)[last]
	(*q)[last] = lateArrival{}
	*q = (*q)[:last]
	return x
}
