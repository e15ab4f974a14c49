package position

import (
	"flag"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	large   = flag.Bool("position.large", false, "go through larger worlds, too: minutes, and gigabytes")
	walks   = flag.Uint64("position.walks", 10, "random walks of each kind")
	walkOne = flag.Uint64("position.seed", 0, "the one random walk to take")
)

// readCommitted and repeatableRead are the steps of an addition: of Add, and of AddTx in a
// transaction above READ COMMITTED, whose snapshot is as old as the transaction.
const (
	readCommitted  = "begin snap clock end"
	repeatableRead = "snap begin clock end"
)

func two(steps string) []string   { return []string{steps, steps} }
func three(steps string) []string { return []string{steps, steps, steps} }

// after returns the moves with which a world begins: each adder makes its number of steps, one
// adder after another. Before an adder other than the first reads the clock, the clock moves by
// `by`.
func after(by int8, steps ...int) (first []move) {
	for i, n := range steps {
		for step := range n {
			m := move{addStep, int8(i), 0}
			if step == 2 && i > 0 { // this step of readCommitted reads the clock
				m.j = by
			}
			first = append(first, m)
		}
	}
	return first
}

// claimed returns the moves of a whole claim of the first lane by the first claimer, which takes
// nothing.
func claimed() []move {
	step := move{claimStep, 0, 0}
	return []move{{beginClaim, 0, 0}, step, step, step, step}
}

// locked are the moves after which the first claimer has locked the second lane.
var locked = []move{{beginClaim, 0, 1}, {claimStep, 0, 0}}

// worlds are explored completely. No batch is ever hidden in any of them.
var worlds = []setting{
	{name: "ids", adders: two(readCommitted), claimers: []int{0}, claims: 3, clock: 2, seal: 'x'},
	{name: "locks", adders: two(readCommitted), claimers: []int{0}, claims: 3, clock: 2, seal: 'l'},
	{name: "either", adders: two(readCommitted), claimers: []int{0}, claims: 3, clock: 2, seal: 'b', first: after(1, 3)},
	{name: "ids clock back", adders: two(readCommitted), claimers: []int{0}, claims: 3, from: 3, clock: 3, back: 1, seal: 'x', first: after(0, 2, 2)},
	{name: "clock on and back", adders: two(readCommitted), claimers: []int{0}, claims: 3, clock: 3, back: 1, seal: 'x', first: after(0, 4)},
	{name: "locks clock back", adders: two(readCommitted), claimers: []int{0}, claims: 3, from: 3, clock: 3, back: 1, seal: 'l', first: after(0, 2, 4)},
	{name: "ids repeatable read", adders: []string{repeatableRead, readCommitted, readCommitted}, claimers: []int{0}, claims: 3, clock: 2, seal: 'x', first: after(0, 1, 4, 4)},
	{name: "locks repeatable read", adders: []string{repeatableRead, readCommitted, readCommitted}, claimers: []int{0}, claims: 3, clock: 2, seal: 'l', first: after(0, 1, 4, 4)},
	{name: "ids two claims", lanes: 2, adders: two(readCommitted), claimers: []int{0, 0}, claims: 3, clock: 2, used: true, seal: 'x', first: slices.Concat(locked, after(1, 3, 4))},
	{name: "locks two claims", lanes: 2, adders: two(readCommitted), claimers: []int{0, 0}, claims: 3, clock: 2, used: true, seal: 'l', first: slices.Concat(locked, after(1, 3, 4))},
	{name: "sealed meanwhile", lanes: 2, adders: two(readCommitted), claimers: []int{0, 0}, claims: 4, clock: 2, used: true, seal: 'x', first: slices.Concat(after(1, 3, 4), claimed())},
	{name: "two lanes", lanes: 2, lane: []int{0, 1}, adders: two(readCommitted), claimers: []int{0}, claims: 4, clock: 2, seal: 'x', first: after(1, 4, 3)},
	{name: "two processes", adders: two(readCommitted), claimers: []int{0, 1}, claims: 4, clock: 2, seal: 'x', first: after(1, 3, 3)},
	{name: "far apart", adders: three(readCommitted), claimers: []int{0}, claims: 3, clock: 3, unit: 2 * minGapMicros, seal: 'x', first: after(1, 4, 3, 1)},
	{name: "cut off", adders: three(readCommitted), claimers: []int{0}, claims: 4, clock: 3, unit: 2 * minGapMicros, limit: 3, narrow: true, seal: 'x', first: after(1, 4, 4, 4)},
	{name: "rolled back", adders: two(readCommitted), claimers: []int{0}, claims: 3, clock: 2, seal: 'x', aborts: 1, first: after(0, 3)},
	{name: "requeued in place", adders: two(readCommitted), claimers: []int{0}, claims: 4, clock: 2, seal: 'x', cancels: 2, first: after(1, 4, 3)},
	{name: "halted", adders: two(readCommitted), claimers: []int{0}, claims: 3, clock: 2, seal: 'x', halts: 1, first: after(1, 4, 3)},
	{name: "lost and requeued", adders: two(readCommitted), claimers: []int{0, 0}, claims: 4, clock: 2, seal: 'x', lost: 1, cancels: 2, first: slices.Concat(after(1, 4, 4), claimed(), []move{{finish, 0, 0}})},
	{name: "prepared ids", adders: []string{"begin snap clock prepare end", readCommitted}, claimers: []int{0}, claims: 3, clock: 2, seal: 'x', crashes: 1, first: after(1, 4, 4)},
	{name: "prepared locks", adders: []string{"begin snap clock prepare end", readCommitted}, claimers: []int{0}, claims: 3, clock: 2, seal: 'l', crashes: 1, first: after(1, 4, 4)},
	{name: "prepared two claims", adders: []string{"begin snap clock prepare end", readCommitted}, claimers: []int{0, 0}, claims: 4, clock: 2, seal: 'l', crashes: 1, first: slices.Concat(after(1, 4, 4), claimed())},
	{name: "restarted", adders: []string{"begin snap clock prepare end", readCommitted}, claimers: []int{0}, claims: 4, clock: 2, seal: 'l', restarts: 1, first: after(1, 4, 3)},
	{name: "pruned", adders: two(readCommitted), claimers: []int{0}, claims: 4, from: 3, clock: 6, back: 1, prunes: 1, age: 3, seal: 'x', first: slices.Concat(after(0, 4, 1), claimed(), claimed())},
	{name: "failed over", adders: two(readCommitted), claimers: []int{0, 0}, claims: 5, clock: 2, seal: 'x', failover: 1, first: slices.Concat(after(1, 4, 4), claimed())},
	{name: "failed over locks", adders: two(readCommitted), claimers: []int{0, 0}, claims: 5, clock: 2, seal: 'l', failover: 1, first: slices.Concat(after(1, 4, 4), claimed())},
}

func TestModel(t *testing.T) {
	for _, s := range worlds {
		t.Run(s.name, func(t *testing.T) {
			e := explore(s, 10_000_000)
			require.Empty(t, e.wrong, "%v", e)
			t.Logf("%d states", len(e.seen))
		})
	}
}

// The large worlds have the same settings without the first moves, with a little more of
// everything, and settings that are too large for each run.
func TestModelLarge(t *testing.T) {
	if !*large {
		t.Log("-position.large goes through larger worlds")
		return
	}
	all := slices.Clone(worlds)
	for i := range all {
		all[i].name, all[i].first = all[i].name+" from the beginning", nil
	}
	all = append(all,
		setting{name: "three additions", adders: three(readCommitted), claimers: []int{0}, claims: 3, clock: 2, seal: 'x'},
		setting{name: "three additions, locks", adders: three(readCommitted), claimers: []int{0}, claims: 3, clock: 2, seal: 'l'},
		setting{name: "four claims", adders: two(readCommitted), claimers: []int{0}, claims: 4, clock: 3, back: 1, seal: 'x'},
		setting{name: "four claims, locks", adders: two(readCommitted), claimers: []int{0}, claims: 4, clock: 3, back: 1, seal: 'l'},
		setting{name: "two processes, both far", adders: two(readCommitted), claimers: []int{0, 1}, claims: 6, clock: 2, seal: 'x'},
	)
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) {
			e := explore(s, 10_000_000)
			require.Empty(t, e.wrong, "%v", e)
			t.Logf("%d states, all of them: %t", len(e.seen), len(e.seen) < e.most)
		})
	}
}

// wide is a world with many of everything, of which the test makes some random runs.
func TestModelAtRandom(t *testing.T) {
	wide := setting{
		adders: slices.Repeat([]string{readCommitted, readCommitted, "begin snap clock prepare end"}, 8),
		lane:   slices.Repeat([]int{0, 1, 0, 0, 2, 1}, 4), lanes: 3, claimers: []int{0, 0, 1}, claims: 100, clock: 12, back: 2,
		limit: 3, narrow: true, seal: 'b', aborts: 2, cancels: 20, halts: 10, restarts: 1, crashes: 1, lost: 2, failover: 1, wholes: true,
	}
	far, small := wide, wide
	far.unit, small.memory = 2*minGapMicros, 4
	first, n := uint64(0), *walks
	if *walkOne > 0 {
		first, n = *walkOne, 1
	}
	for i, s := range []setting{wide, far, small} {
		moved := 0
		for seed := first; seed < first+n; seed++ {
			e := wander(s, seed, 600)
			require.Empty(t, e.wrong, "-position.seed=%d of %d: %v", seed, i, e)
			moved += e.moved
		}
		require.Positive(t, moved, "no position ever moved")
		t.Logf("seeds %d to %d: %d positions", first, first+n-1, moved)
	}
}

// If a caller breaks the rules, a batch is hidden and the model finds that. This shows that the
// model can fail.
func TestModelFinds(t *testing.T) {
	old, statement := "snap clock begin end", "snap xid clock end"
	for _, s := range []setting{
		{name: "a clock that is read before the id", adders: two(old), claimers: []int{0}, claims: 3, clock: 2, seal: 'x', first: after(1, 2)},
		{name: "a clock that is read before the lock", adders: two(old), claimers: []int{0}, claims: 3, clock: 2, seal: 'l', first: after(1, 2, 1)},
		{name: "an id of the statement that reads the clock", adders: two(statement), claimers: []int{0}, claims: 3, from: 3, clock: 3, back: 1, seal: 'x', first: after(0, 1, 4)},
		{name: "a lock that is released before the commit", adders: two("lock snap clock unlock end"), claimers: []int{0}, claims: 3, clock: 2, seal: 'l', first: after(1, 3)},
		{name: "pg_snapshot_xmax for an id", adders: []string{readCommitted, "xid quit", readCommitted}, claimers: []int{0}, claims: 3, clock: 3, back: 1, used: true, seal: 'x', xmax: true,
			first: []move{{addStep, 0, 0}, {addStep, 0, 0}, {addStep, 0, 1}, {beginClaim, 0, 0}, {claimStep, 0, 1}, {addStep, 1, 0}, {addStep, 2, 0}, {addStep, 2, 0}}},
		{name: "repeatable read, and a clock that steps back", adders: []string{repeatableRead, readCommitted}, claimers: []int{0}, claims: 3, from: 3, clock: 3, back: 1, seal: 'x', first: after(0, 1, 4)},
		{name: "a clock that is ahead of the one of additions", adders: []string{repeatableRead, readCommitted, readCommitted}, claimers: []int{0}, claims: 3, clock: 2, seal: 'x', ahead: 1, first: after(0, 1, 4, 4)},
		{name: "retention sooner than the clock can step back", adders: two(readCommitted), claimers: []int{0}, claims: 4, from: 3, clock: 3, back: 1, prunes: 1, seal: 'x', first: slices.Concat(after(0, 4), claimed(), claimed())},
		{name: "asynchronous commits, and a crash", adders: two(readCommitted), claimers: []int{0}, claims: 4, clock: 2, seal: 'x', failover: 1, async: true, first: slices.Concat(after(1, 4, 4), claimed())},
		{name: "a requeue that is not counted", adders: two(readCommitted), claimers: []int{0}, claims: 4, clock: 2, seal: 'x', cancels: 2, uncounted: true, first: after(1, 4, 4)},
		{name: "one statement's word for both", adders: two(readCommitted), claimers: []int{0}, claims: 4, clock: 2, seal: 'x', halts: 1, oneWord: true, first: after(1, 4, 4)},
	} {
		t.Run(s.name, func(t *testing.T) {
			e := explore(s, 2_000_000)
			assert.Contains(t, e.wrong, "hidden", "%d states", len(e.seen))
			t.Log(e)
		})
	}
}
