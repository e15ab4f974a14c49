package queuertest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/queuer"
)

// maxTicks is the most ticks that a batch takes from claimable to final, with its failures: after
// each of up to maxFailures attempts without effect it waits, and then the ledger takes its time.
const (
	maxTicks    = (maxFailures + 1) * (maxWait + 1)
	maxFailures = 2
	maxWait     = 6
)

// openBatch is one batch of a service.
type openBatch struct {
	batch.LaneBatch
	seq          int // its place in the lane
	cameFrom     batch.State
	readyTick    int // the tick from which it may be claimed
	dueTick      int // the tick at which the ledger says more
	failures     int
	deadlineTick int // the tick at which it must be final
	claimedTick  int // the tick of its last claim
}

// simulatedService simulates one lane and a ledger. A posted batch is accepted, fails without
// effect, or ends in doubt. An accepted batch becomes final after a while, or is lost, in any
// order.
type simulatedService struct {
	t          *testing.T
	name       batch.ServiceID
	strategy   queuer.Strategy
	random     *rand.Rand
	tickNow    int
	nextSeq    int          // seq of the next batch
	open       []*openBatch // open batches in the order of seq
	trace      []string
	keepsOrder bool // whether the ledger keeps the order of submission, for a strategy that relies on it
}

func newSimulatedService(t *testing.T, name batch.ServiceID, st queuer.Strategy, rng *rand.Rand) *simulatedService {
	return &simulatedService{t: t, name: name, strategy: st, random: rng, keepsOrder: st.ReliesOnOrder}
}

// add appends a batch. It must be final in time, even if all batches before it have to go first.
func (s *simulatedService) add(f batch.Footprint) *openBatch {
	b := &openBatch{seq: s.nextSeq, deadlineTick: s.tickNow + (len(s.open)+2)*maxTicks}
	b.ID, b.State, b.Footprint = batch.ID(fmt.Sprint(s.nextSeq)), batch.Queued, f
	s.nextSeq++
	s.open = append(s.open, b)
	return b
}

// visibleLane returns the lane as a store shows it, and the item of each position.
func (s *simulatedService) visibleLane() (l batch.Lane, items []*openBatch) {
	waiting := 0
	for _, attempted := range []bool{true, false} {
		for _, b := range s.open {
			if (b.Attempt > 0) != attempted || !attempted && waiting == s.strategy.Window {
				continue
			}
			if !attempted {
				waiting++
			}
			b.Ready = b.State.Claimable() && s.tickNow >= b.readyTick
			items = append(items, b)
		}
	}
	l = batch.Lane{Service: s.name, Batches: make([]batch.LaneBatch, len(items)), KeepsOrder: s.keepsOrder}
	for i, b := range items {
		l.Batches[i] = b.LaneBatch
	}
	return l, items
}

// claim calls the strategy, checks the answer, and posts up to limit batches.
func (s *simulatedService) claim(limit int) (posted int) {
	l, items := s.visibleLane()
	runs := s.strategy.Select(l)
	checkAnswer(s.t, l, runs)
	for _, run := range runs {
		run = run[:min(len(run), limit-posted)]
		for _, p := range run { // the whole run is marked before its first batch is posted
			b := items[p]
			b.cameFrom, b.State, b.claimedTick = b.State, batch.Submitting, s.tickNow
			b.Attempt++
		}
		posted += len(run)
		for i, p := range run {
			if !s.post(items[p]) {
				for _, q := range run[i+1:] {
					items[q].State = items[q].cameFrom
				}
				break
			}
		}
	}
	return posted
}

// post posts a batch, and reports whether the run goes on.
func (s *simulatedService) post(b *openBatch) bool {
	for _, o := range s.open {
		if o == b || !o.Footprint.Conflicts(b.Footprint) {
			continue
		}
		sameRun := o.seq < b.seq && (o.claimedTick == s.tickNow || s.keepsOrder) && o.State == batch.Pending
		if under := !o.State.Claimable() && o.State != batch.Submitting; o.seq < b.seq && !sameRun || under && !sameRun {
			require.Failf(s.t, "overtaken", "%s is posted while %s is %s, which it conflicts with\n%s", b.ID, o.ID, o.State, s)
		}
	}
	s.traceEvent("posted", b)
	k := s.random.IntN(10)
	if b.failures == maxFailures {
		k = 9
	}
	b.dueTick = s.tickNow + 1 + s.random.IntN(maxWait-1)
	switch k {
	case 0: // no effect, and not claimable for a while
		b.State, b.readyTick = batch.Delayed, b.dueTick
		b.failures++
		return false
	case 1: // in doubt: the batch stays Submitting
		b.failures++
		return false
	}
	b.State = batch.Pending
	return true
}

// tick lets time pass: the ledger decides the batches that are due.
func (s *simulatedService) tick() {
	s.tickNow++
	for _, b := range slices.Clone(s.open) {
		if s.tickNow > b.deadlineTick {
			require.Failf(s.t, "starved", "%s is %s after %d ticks\n%s", b.ID, b.State, s.tickNow, s)
		}
		if b.dueTick > s.tickNow {
			continue
		}
		switch b.State {
		case batch.Submitting: // the doubt is resolved: the batch never arrived
			b.State, b.readyTick = batch.Unknown, s.tickNow
		case batch.Pending:
			if b.failures < maxFailures && s.random.IntN(20) == 0 { // the batch was accepted, and is lost
				b.State, b.readyTick = batch.Unknown, s.tickNow
				b.failures++
				s.traceEvent("lost", b)
				continue
			}
			s.traceEvent("final", b)
			s.open = slices.DeleteFunc(s.open, func(o *openBatch) bool { return o == b })
		}
	}
}

func (s *simulatedService) traceEvent(what string, b *openBatch) {
	s.trace = append(s.trace, fmt.Sprintf("%d %s %s", s.tickNow, what, b.ID))
}

// String describes the service for a failure.
func (s *simulatedService) String() string {
	l, _ := s.visibleLane()
	return fmt.Sprintf("tick %d; the last that happened: %q\n%s", s.tickNow, s.trace[max(0, len(s.trace)-12):], describe(l, nil))
}

// simulateServices calls test, which plays whole lanes to their end, in a tenth of the suite's
// rounds.
func (s suite) simulateServices(t *testing.T, test func(t *testing.T, r *rand.Rand)) {
	t.Helper()
	s.rounds = max(1, s.rounds/10)
	s.eachRound(t, test)
}

// runToEnd plays until all batches are final. No batch may be added afterwards.
func (s *simulatedService) runToEnd() {
	for len(s.open) > 0 {
		s.claim(1 << 30)
		s.tick()
	}
}

// testOrder: conflicting batches are posted one after the other, in the order in which they were
// added, whatever the ledger answers and whenever.
func (s suite) testOrder(t *testing.T) {
	st := s.newStrategy()
	s.simulateServices(t, func(t *testing.T, r *rand.Rand) {
		sv := newSimulatedService(t, "s", st, r)
		for range 40 {
			for range r.IntN(3) {
				sv.add(randomFootprint(r))
			}
			sv.claim(1 + r.IntN(8))
			sv.tick()
		}
		sv.runToEnd()
	})
}

// testStarvation: the time until a batch is final depends on the batches before it, not on the
// batches that are added behind it all the time. New batches conflict with nothing, or with the
// batch that waits for many.
func (s suite) testStarvation(t *testing.T) {
	st := s.newStrategy()
	s.simulateServices(t, func(t *testing.T, r *rand.Rand) {
		sv := newSimulatedService(t, "s", st, r)
		for i := range 1 + r.IntN(3) {
			sv.add(batch.Footprint{Writes: []string{fmt.Sprintf("aa%02x", i)}})
		}
		sv.add([]batch.Footprint{{}, {Writes: []string{"aa"}}, {Reads: []string{"aa"}}}[r.IntN(3)]) // waits for all of them
		for i := range 8 * maxTicks {
			sv.add(batch.Footprint{Writes: []string{[]string{"bb", "aa"}[r.IntN(2)] + fmt.Sprintf("%06x", i)}})
			sv.claim(1) // no more than the new batches
			sv.tick()
		}
		sv.runToEnd()
	})
}

// testFairness: a lane's answers do not depend on the other lanes about which the strategy is
// called, and a full lane does not hold up a free lane.
func (s suite) testFairness(t *testing.T) {
	const lanes = 4
	st := s.newStrategy()
	play := func(t *testing.T, seed uint64, which ...int) [][]string {
		t.Helper()
		all := make([]*simulatedService, len(which))
		for i, k := range which {
			all[i] = newSimulatedService(t, batch.ServiceID(fmt.Sprint(k)), st, rand.New(rand.NewPCG(seed, uint64(k))))
			for range 10 * (1 + k) {
				all[i].add(randomFootprint(all[i].random))
			}
		}
		for range 30 {
			for _, sv := range all {
				sv.claim(1 << 30)
				sv.tick()
			}
		}
		traces := make([][]string, len(all))
		for i, sv := range all {
			traces[i] = sv.trace
		}
		return traces
	}
	s.simulateServices(t, func(t *testing.T, r *rand.Rand) {
		seed := r.Uint64()
		together := play(t, seed, 0, 1, 2, 3)
		for k := range lanes {
			require.Equal(t, play(t, seed, k)[0], together[k], "lane %d is treated otherwise beside other lanes", k)
		}
	})

	crowd := newSimulatedService(t, "crowd", st, rand.New(rand.NewPCG(s.seed, 1)))
	for i := range st.Window + 100 {
		crowd.add(batch.Footprint{Writes: []string{fmt.Sprintf("aa%06x", i)}})
	}
	for i := range 20 {
		one := newSimulatedService(t, "one", st, rand.New(rand.NewPCG(s.seed, uint64(i))))
		crowd.claim(3)
		one.add(batch.Footprint{Writes: []string{"aa000000"}})
		require.Equal(t, 1, one.claim(3), "seed %d: one batch in a lane of its own leaves at once", s.seed)
	}
}
