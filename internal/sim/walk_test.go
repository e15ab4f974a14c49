package sim

import (
	"cmp"
	"flag"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/queuer"
)

var (
	walkSteps  = flag.Int("sim.walk.steps", 2_000_000, "steps of TestWalk in each of its setups: ten seconds of one quiet processor for all")
	walkFaults = flag.Int("sim.walk.faults", 6, "faults in one walk, at most")
)

// setups returns the kinds of ledger, each with the strategies that it allows.
func setups() []walkSetup {
	duplicates := dlt.Traits{Name: "executes duplicates", LateArrival: 2 * minute, Resolves: true}
	forever := dlt.Traits{Name: "ignores duplicates", ResendHarmlessFor: dlt.Forever, Grace: minute, ResendQuiet: 3 * minute}
	ordered := forever
	ordered.Name, ordered.KeepsOrder = "keeps order", true
	window := dlt.Traits{Name: "ignores duplicates for a while", ResendHarmlessFor: walkDedupMinutes * minute, LateArrival: 2 * minute, Grace: minute, Resolves: true}
	return []walkSetup{
		{name: "Serial", traits: duplicates, strategy: queuer.Serial()},
		{name: "Serial", traits: forever, ignoresDuplicates: true, strategy: queuer.Serial()},
		{name: "Serial", traits: window, ignoresForAWhile: true, strategy: queuer.Serial()},
		{name: "Pipelined", traits: ordered, ignoresDuplicates: true, strategy: queuer.Pipelined(2)},
	}
}

// TestWalk visits all interleavings of the real decisions: PlanLane, Row.Apply, Judge, Decide and
// the fences, for two processes, one lane of two batches, and a ledger that may lose, delay,
// repeat, forget, refuse with unknown texts and answer nonsense, with crashes between any two
// steps, frozen processes, and steps of the database's clock. States with few faults come first:
// all with none, then all with one, and so on, as long as there is time. The checks are promises 2
// to 6 and 10. Promise 6 says that no batch stands longer than its deadline unless a person was
// called, once.
func TestWalk(t *testing.T) {
	tier.Long(t)
	tier.Plain(t)
	for _, u := range setups() {
		t.Run(u.traits.Name+"/"+u.name, func(t *testing.T) {
			w := newWalker(u)
			seen := w.visitStates(int8(*walkFaults), *walkSteps)
			t.Log(seen)
			if seen.failure != "" {
				t.Fatal(seen.failure)
			}
		})
	}
}

// walkResult is what a walk has visited.
type walkResult struct {
	stateCount, stepCount int
	visitedByFaults       []string // for each number of faults, how far the walk came
	failure               string
}

func (k walkResult) String() string {
	return fmt.Sprintf("%d states, %d steps: %s", k.stateCount, k.stepCount, strings.Join(k.visitedByFaults, ", "))
}

// canonicalState returns the state without values that no rule reads any more, and with the
// processes, which are interchangeable, in a fixed order.
func canonicalState(s walkState) walkState {
	for b := range s.rows {
		s.rows[b] = s.rows[b].withoutUnread()
		if s.rows[b].final {
			s.history[b] = batchHistory{}
		}
	}
	for p := range s.procs {
		s.procs[p].clearEnded(&s)
	}
	if l := &s.ledger; l.pooledAttempt[0] == 0 || l.pooledAttempt[1] == 0 {
		l.secondInPool = 0
	}
	a, b := procBytes(&s.procs[0]), procBytes(&s.procs[1])
	if cmp.Compare(a, b) <= 0 {
		return s
	}
	s.procs[0], s.procs[1] = s.procs[1], s.procs[0]
	for i := range s.wire {
		if q := &s.wire[i]; q.isOnWire && q.waitingProcess >= 0 {
			q.waitingProcess = 1 - q.waitingProcess
		}
	}
	return s
}

func procBytes(p *walkProcess) string {
	return unsafe.String((*byte)(unsafe.Pointer(p)), unsafe.Sizeof(*p))
}

// stateOrigin says how a state was reached: by step stepNumber of another state.
type stateOrigin struct{ fromState, stepNumber int32 }

type queuedState struct {
	state       walkState
	originIndex int32
}

// mostStates bounds the number of states of a walk, each of which takes some 200 bytes.
const mostStates = 20_000_000

// visitStates visits states by their number of faults, and breadth-first among those with the same
// number.
func (w *walker) visitStates(most int8, limit int) (k walkResult) {
	w.maxFaults = most
	one, two := maphash.MakeSeed(), maphash.MakeSeed()
	known := map[[2]uint64]struct{}{}
	var ways []stateOrigin
	levels := make([][]queuedState, most+1)
	visit := func(s walkState, from, step int32) {
		s = canonicalState(s)
		key := [2]uint64{maphash.Comparable(one, s), maphash.Comparable(two, s)}
		if _, ok := known[key]; ok {
			return
		}
		known[key] = struct{}{}
		ways = append(ways, stateOrigin{from, step})
		levels[s.faultCount] = append(levels[s.faultCount], queuedState{s, int32(len(ways) - 1)})
	}
	visit(startState(), -1, 0)
	for n := range levels {
		done := 0
		for ; len(levels[n]) > 0; done++ {
			if k.stepCount > limit || len(known) > mostStates {
				k.visitedByFaults = append(k.visitedByFaults, fmt.Sprintf("with %d faults %d of %d or more", n, done, done+len(levels[n])))
				k.stateCount = len(known)
				return k
			}
			r := levels[n][0]
			levels[n] = levels[n][1:]
			step := int32(0)
			w.yieldSteps(r.state, func(_ string, next walkState) {
				if k.stepCount++; w.brokenPromise != nil && k.failure == "" {
					k.failure = fmt.Sprintf("%v\n%s", w.brokenPromise, w.stepsTo(ways, r.originIndex, step))
				}
				visit(next, r.originIndex, step)
				step++
			})
			if k.failure != "" {
				return k
			}
		}
		k.visitedByFaults = append(k.visitedByFaults, fmt.Sprintf("all %d with %d faults", done, n))
		levels[n] = nil
	}
	k.stateCount = len(known)
	return k
}

// stepsTo returns the steps that lead to a state, and a last step, in words.
func (w *walker) stepsTo(ways []stateOrigin, at, last int32) string {
	steps := []int32{last}
	for ; ways[at].fromState >= 0; at = ways[at].fromState {
		steps = append(steps, ways[at].stepNumber)
	}
	w.namesSteps = true
	defer func() { w.namesSteps = false }()
	var b strings.Builder
	s := canonicalState(startState())
	for i, step := range slices.Backward(steps) {
		n, found := int32(0), walkState{}
		w.yieldSteps(s, func(name string, next walkState) {
			if n == step {
				fmt.Fprintf(&b, "%2d. %s\n", len(steps)-i, name)
				found = next
			}
			n++
		})
		s = canonicalState(found)
		if len(steps) < 60 || i < 30 {
			fmt.Fprintf(&b, "%s", s.String())
		}
	}
	return b.String()
}
