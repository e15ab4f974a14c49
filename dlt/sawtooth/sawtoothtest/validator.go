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
	options   *Options
	startedAt time.Time
	lastTime  time.Time // everything up to this time is done
	chain     *chain
	journal   *journal

	completer       *completer
	tracker         *statusTracker
	incomingBatches []incomingBatch // accepted batches that are not in the pool yet, in order
	notYetPending   []notYetPending // sorted by their times
	pool            []*pooledBatch
	inPool          map[batch.ID]struct{}
	failedBatches   []failedBatch // failed since the last block; the next block executes them once more
	nextBlockAt     time.Time     // the time of the next block, while there is something to execute
	limit           poolLimit
	acceptCount     map[batch.ID]int // how often a batch was accepted, for faults; a real node does not count this

	lacksGenesis bool      // the chain has no block yet
	hasHalted    bool      // a block waits for a missing processor
	isDown       bool      // killed, or starting
	upAgainAt    time.Time // when it is up again; zero if it is not starting

	latePosts       lateQueue     // POSTs that arrive after their connection ended
	keptRequests    []*task       // requests that the REST API keeps for a validator that is down
	waits           []*statusWait // status queries that hold a client thread
	waitingRequests []*task       // requests without a client thread
	heldPosts       []*task       // POSTs that wait for the publisher's lock while it is halted
	restartCount    int           // how often the whole node was restarted
}

// incomingBatch is a batch that waits for the publisher thread.
type incomingBatch struct {
	batch     *submittedBatch
	fault     BatchFault
	publishAt time.Time
}

// pooledBatch is a batch in the pending pool.
type pooledBatch struct {
	batch     *submittedBatch
	fault     BatchFault
	runCount  int
	notBefore time.Time
}

// notYetPending is a batch in the pool that is not PENDING yet.
type notYetPending struct {
	id        batch.ID
	pendingAt time.Time
}

// statusWait is a waiting status query. It ends when none of its batches is pending.
type statusWait struct {
	ids    []batch.ID
	until  time.Time
	isDone bool
	isLost bool // true if the validator was killed during the wait
}

func newValidator(now time.Time, o *Options) *validator {
	v := &validator{options: o, startedAt: now, lastTime: now, chain: newChain(now), journal: &journal{lastWord: map[batch.ID]string{}}, acceptCount: map[batch.ID]int{}, lacksGenesis: o.NoGenesis}
	v.crash(now)
	return v
}

// crash leaves only the chain, and the requests that have not arrived yet.
func (v *validator) crash(now time.Time) {
	v.completer = newCompleter(now, v.chain, v.options)
	v.tracker = newTracker(now, v.chain, v.options.InvalidTime)
	v.incomingBatches, v.notYetPending, v.pool, v.failedBatches = nil, nil, nil, nil
	v.inPool = map[batch.ID]struct{}{}
	v.limit = newPoolLimit(v.options.PoolLimit)
	v.waits, v.waitingRequests, v.heldPosts = nil, nil, nil
	v.hasHalted = false
}

// advance does everything that was due until now.
func (v *validator) advance(now time.Time) {
	for {
		at, ok := v.nextTime()
		if !ok || at.After(now) {
			break
		}
		v.lastTime = at
		v.step(at)
		v.freeThreads(at)
	}
	if now.After(v.lastTime) {
		v.lastTime = now
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
		sooner(v.latePosts[0].arrivesAt)
	}
	if len(v.incomingBatches) > 0 {
		sooner(v.incomingBatches[0].publishAt)
	}
	for _, w := range v.waits {
		sooner(w.until)
	}
	if v.isDown && !v.upAgainAt.IsZero() {
		sooner(v.upAgainAt)
	}
	if len(v.notYetPending) > 0 {
		sooner(v.notYetPending[0].pendingAt)
	}
	if v.hasBatchesToRun() {
		sooner(v.nextBlockAt)
	}
	return at, ok
}

// hasBatchesToRun reports whether a block may be made of the batches in the pool.
func (v *validator) hasBatchesToRun() bool {
	return len(v.pool) > 0 && !v.lacksGenesis && !v.hasHalted && !v.isDown
}

// setBlockTime sets the time of the next block: at a multiple of BlockInterval after the start.
func (v *validator) setBlockTime(now time.Time) {
	n := int64(now.Sub(v.startedAt)/v.options.BlockInterval) + 1
	v.nextBlockAt = v.startedAt.Add(time.Duration(n) * v.options.BlockInterval)
}

// step does one thing that is due. Arrivals come before publications, and publications before a
// block.
func (v *validator) step(now time.Time) {
	switch {
	case len(v.latePosts) > 0 && !v.latePosts[0].arrivesAt.After(now):
		l := heap.Pop(&v.latePosts).(lateArrival)
		l.accept(now)
	case len(v.incomingBatches) > 0 && !v.incomingBatches[0].publishAt.After(now):
		in := v.incomingBatches[0]
		v.incomingBatches = v.incomingBatches[1:]
		v.publish(now, in.batch, in.fault)
	case v.expireWaits(now):
	case v.isDown && !v.upAgainAt.IsZero() && !v.upAgainAt.After(now):
		v.finishStart(now)
	case len(v.notYetPending) > 0 && !v.notYetPending[0].pendingAt.After(now):
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
func (v *validator) accept(now time.Time, bs []*submittedBatch) {
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

func (v *validator) enqueue(now time.Time, b *submittedBatch) {
	v.acceptCount[b.id]++
	v.journal.add(Entry{Time: now, Kind: Accepted, Batches: []batch.ID{b.id}, Try: v.acceptCount[b.id]})
	f := v.options.Faults.drawBatch(b.id, v.acceptCount[b.id])
	if f.Lose {
		v.drop(now, b, "lost by a fault")
		return
	}
	// The publisher is one thread, so a later batch is not published earlier.
	at := now.Add(v.options.PublishDelay + f.PublishDelay)
	if n := len(v.incomingBatches); n > 0 && v.incomingBatches[n-1].publishAt.After(at) {
		at = v.incomingBatches[n-1].publishAt
	}
	if len(v.incomingBatches) == 0 && !at.After(now) {
		v.publish(now, b, f)
		return
	}
	v.incomingBatches = append(v.incomingBatches, incomingBatch{batch: b, fault: f, publishAt: at})
}

// publish does the publisher thread's work for a batch, which is in the pool afterwards.
func (v *validator) publish(now time.Time, b *submittedBatch, f BatchFault) {
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
		u := notYetPending{id: b.id, pendingAt: now.Add(late)}
		i, _ := slices.BinarySearchFunc(v.notYetPending, u, func(a, b notYetPending) int { return a.pendingAt.Compare(b.pendingAt) })
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
func (v *validator) pendingDelay(b *submittedBatch) time.Duration {
	if len(v.pool) < busyPoolLen {
		return 0
	}
	d := simnode.Draw{Subject: string(b.id), Try: v.acceptCount[b.id], Salt: "notice"}
	if v.options.Faults != nil {
		d.Seed = v.options.Faults.Seed
	}
	if d.Float("late") >= 3.0/20 {
		return 0
	}
	return d.UpTo("how long", v.options.BlockInterval)
}

// isWaiting reports whether a batch is in the pool and has no outcome yet.
func (v *validator) isWaiting(id batch.ID) bool {
	_, there := v.inPool[id]
	_, bad := v.tracker.invalid.entries[string(id)]
	return there && !bad
}

func (v *validator) drop(now time.Time, b *submittedBatch, why string) {
	v.journal.add(Entry{Time: now, Kind: Dropped, Batches: []batch.ID{b.id}, Word: why})
}

// poolLimit is ten times the average number of batches per block, over all samples since the
// start. A block is a sample if it took, or left in the pool, more batches than the average, or if
// it took a single one: with one batch per block a real node's limit shrank from 300 to 10 and
// stayed there until a restart.
type poolLimit struct {
	fixedLimit, sum, sampleCount int
}

func newPoolLimit(fixed int) poolLimit { return poolLimit{fixedLimit: fixed, sum: 30, sampleCount: 1} }

func (l *poolLimit) get() int {
	if l.fixedLimit > 0 {
		return l.fixedLimit
	}
	return 10 * (l.sum / l.sampleCount)
}

func (l *poolLimit) update(length, consumed int) {
	if avg := l.sum / l.sampleCount; consumed == 1 || consumed > 0 && (length-consumed > avg || consumed > avg) {
		l.sum += consumed
		l.sampleCount++
	}
}

// lateArrival is a POST that reaches the validator after its connection has ended.
type lateArrival struct {
	arrivesAt time.Time
	seq       int
	accept    func(now time.Time)
}

type lateQueue []lateArrival

func (q lateQueue) Len() int { return len(q) }
func (q lateQueue) Less(i, j int) bool {
	if q[i].arrivesAt.Equal(q[j].arrivesAt) {
		return q[i].seq < q[j].seq
	}
	return q[i].arrivesAt.Before(q[j].arrivesAt)
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
