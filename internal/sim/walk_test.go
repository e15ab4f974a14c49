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

// setups are the kinds of ledger, each with the strategies that it allows.
func setups() []setup {
	duplicates := dlt.Traits{Name: "executes duplicates", LateArrival: 2 * minute, Resolves: true}
	forever := dlt.Traits{Name: "ignores duplicates", ResendHarmlessFor: dlt.Forever, Grace: minute, ResendQuiet: 3 * minute}
	ordered := forever
	ordered.Name, ordered.KeepsOrder = "keeps order", true
	window := dlt.Traits{Name: "ignores duplicates for a while", ResendHarmlessFor: walkWindow * minute, LateArrival: 2 * minute, Grace: minute, Resolves: true}
	return []setup{
		{name: "Serial", traits: duplicates, strategy: queuer.Serial()},
		{name: "Serial", traits: forever, ignores: true, strategy: queuer.Serial()},
		{name: "Serial", traits: window, window: true, strategy: queuer.Serial()},
		{name: "Pipelined", traits: ordered, ignores: true, strategy: queuer.Pipelined(2)},
	}
}

// TestWalk walks all interleavings of the real decisions: PlanLane, Row.Apply, Judge, Decide and
// the fences, for two processes, one lane of two batches, and a ledger that may lose, delay,
// repeat, forget, refuse with unknown words and answer nonsense, with crashes between any two
// steps, frozen processes, and a database's clock that steps. States with few faults come first:
// all of them with none, then all with one, and so on, for as long as there is time. The checks
// are promises 2 to 6 and 10. Promise 6 says: no batch stands longer than its deadline unless a
// person was called, once.
func TestWalk(t *testing.T) {
	tier.Long(t)
	tier.Plain(t)
	for _, u := range setups() {
		t.Run(u.traits.Name+"/"+u.name, func(t *testing.T) {
			w := newWalker(u)
			seen := w.walk(int8(*walkFaults), *walkSteps)
			t.Log(seen)
			if seen.failure != "" {
				t.Fatal(seen.failure)
			}
		})
	}
}

// walked says what a walk has seen.
type walked struct {
	states, steps int
	levels        []string // how far it came with so many faults
	failure       string
}

func (k walked) String() string {
	return fmt.Sprintf("%d states, %d steps: %s", k.states, k.steps, strings.Join(k.levels, ", "))
}

// canonical is the state without what no rule reads any more, and with the processes, which are
// all alike, in one order.
func canonical(s state) state {
	for b := range s.rows {
		s.rows[b] = s.rows[b].bare()
		if s.rows[b].final {
			s.past[b] = past{}
		}
	}
	for p := range s.procs {
		s.procs[p].tidy(&s)
	}
	if l := &s.ledger; l.pool[0] == 0 || l.pool[1] == 0 {
		l.second = 0
	}
	a, b := bytesOf(&s.procs[0]), bytesOf(&s.procs[1])
	if cmp.Compare(a, b) <= 0 {
		return s
	}
	s.procs[0], s.procs[1] = s.procs[1], s.procs[0]
	for i := range s.wire {
		if q := &s.wire[i]; q.on && q.by >= 0 {
			q.by = 1 - q.by
		}
	}
	return s
}

func bytesOf(p *proc) string { return unsafe.String((*byte)(unsafe.Pointer(p)), unsafe.Sizeof(*p)) }

// way is how a state was reached: by the n-th step of another.
type way struct{ from, step int32 }

type reached struct {
	state state
	at    int32
}

// mostStates bounds the memory of one walk: some 200 bytes for each.
const mostStates = 20_000_000

// walk visits states by their number of faults, and in breadth among these.
func (w *walker) walk(most int8, limit int) (k walked) {
	w.most = most
	one, two := maphash.MakeSeed(), maphash.MakeSeed()
	known := map[[2]uint64]struct{}{}
	var ways []way
	levels := make([][]reached, most+1)
	visit := func(s state, from, step int32) {
		s = canonical(s)
		key := [2]uint64{maphash.Comparable(one, s), maphash.Comparable(two, s)}
		if _, ok := known[key]; ok {
			return
		}
		known[key] = struct{}{}
		ways = append(ways, way{from, step})
		levels[s.faults] = append(levels[s.faults], reached{s, int32(len(ways) - 1)})
	}
	visit(start(), -1, 0)
	for n := range levels {
		done := 0
		for ; len(levels[n]) > 0; done++ {
			if k.steps > limit || len(known) > mostStates {
				k.levels = append(k.levels, fmt.Sprintf("with %d faults %d of %d or more", n, done, done+len(levels[n])))
				k.states = len(known)
				return k
			}
			r := levels[n][0]
			levels[n] = levels[n][1:]
			step := int32(0)
			w.steps(r.state, func(_ string, next state) {
				if k.steps++; w.broken != nil && k.failure == "" {
					k.failure = fmt.Sprintf("%v\n%s", w.broken, w.trace(ways, r.at, step))
				}
				visit(next, r.at, step)
				step++
			})
			if k.failure != "" {
				return k
			}
		}
		k.levels = append(k.levels, fmt.Sprintf("all %d with %d faults", done, n))
		levels[n] = nil
	}
	k.states = len(known)
	return k
}

// trace is the way to a state and its last step, in words.
func (w *walker) trace(ways []way, at, last int32) string {
	steps := []int32{last}
	for ; ways[at].from >= 0; at = ways[at].from {
		steps = append(steps, ways[at].step)
	}
	w.named = true
	defer func() { w.named = false }()
	var b strings.Builder
	s := canonical(start())
	for i, step := range slices.Backward(steps) {
		n, found := int32(0), state{}
		w.steps(s, func(name string, next state) {
			if n == step {
				fmt.Fprintf(&b, "%2d. %s\n", len(steps)-i, name)
				found = next
			}
			n++
		})
		s = canonical(found)
		if len(steps) < 60 || i < 30 {
			fmt.Fprintf(&b, "%s", s.String())
		}
	}
	return b.String()
}
