package position

import (
	"flag"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	exploresLargeWorlds = flag.Bool("position.large", false, "go through larger worlds, too: minutes, and gigabytes")
	walkCount           = flag.Uint64("position.walks", 10, "random walks of each kind")
	onlySeed            = flag.Uint64("position.seed", 0, "the one random walk to take")
)

// readCommitted and repeatableRead are the steps of an addition: of Add, and of AddTx in a
// transaction above READ COMMITTED, whose snapshot is as old as the transaction.
const (
	readCommitted  = "begin snap clock end"
	repeatableRead = "snap begin clock end"
)

func twoAdders(steps string) []string   { return []string{steps, steps} }
func threeAdders(steps string) []string { return []string{steps, steps, steps} }

// adderMoves returns the moves with which a world begins: each adder makes its number of steps,
// one adder after another. Before an adder other than the first reads the clock, the clock moves
// by `by`.
func adderMoves(by int8, steps ...int) (first []move) {
	for i, n := range steps {
		for step := range n {
			m := move{addStep, int8(i), 0}
			if step == 2 && i > 0 { // this step of readCommitted reads the clock
				m.argument = by
			}
			first = append(first, m)
		}
	}
	return first
}

// wholeClaimMoves returns the moves of a whole claim of the first lane by the first claimer, which
// takes nothing.
func wholeClaimMoves() []move {
	step := move{claimStep, 0, 0}
	return []move{{beginClaim, 0, 0}, step, step, step, step}
}

// lockedClaimMoves are the moves after which the first claimer has locked the second lane.
var lockedClaimMoves = []move{{beginClaim, 0, 1}, {claimStep, 0, 0}}

// worlds are explored completely. In none of them is a batch ever hidden.
var worlds = []worldLimits{
	{name: "ids", adderSteps: twoAdders(readCommitted), processOfClaimer: []int{0}, maxClaims: 3, lastTick: 2, sealBy: 'x'},
	{name: "locks", adderSteps: twoAdders(readCommitted), processOfClaimer: []int{0}, maxClaims: 3, lastTick: 2, sealBy: 'l'},
	{name: "either", adderSteps: twoAdders(readCommitted), processOfClaimer: []int{0}, maxClaims: 3, lastTick: 2, sealBy: 'b', firstMoves: adderMoves(1, 3)},
	{name: "ids clock back", adderSteps: twoAdders(readCommitted), processOfClaimer: []int{0}, maxClaims: 3, firstTick: 3, lastTick: 3, backSteps: 1, sealBy: 'x', firstMoves: adderMoves(0, 2, 2)},
	{name: "clock on and back", adderSteps: twoAdders(readCommitted), processOfClaimer: []int{0}, maxClaims: 3, lastTick: 3, backSteps: 1, sealBy: 'x', firstMoves: adderMoves(0, 4)},
	{name: "locks clock back", adderSteps: twoAdders(readCommitted), processOfClaimer: []int{0}, maxClaims: 3, firstTick: 3, lastTick: 3, backSteps: 1, sealBy: 'l', firstMoves: adderMoves(0, 2, 4)},
	{name: "ids repeatable read", adderSteps: []string{repeatableRead, readCommitted, readCommitted}, processOfClaimer: []int{0}, maxClaims: 3, lastTick: 2, sealBy: 'x', firstMoves: adderMoves(0, 1, 4, 4)},
	{name: "locks repeatable read", adderSteps: []string{repeatableRead, readCommitted, readCommitted}, processOfClaimer: []int{0}, maxClaims: 3, lastTick: 2, sealBy: 'l', firstMoves: adderMoves(0, 1, 4, 4)},
	{name: "ids two claims", laneCount: 2, adderSteps: twoAdders(readCommitted), processOfClaimer: []int{0, 0}, maxClaims: 3, lastTick: 2, lanesWereUsed: true, sealBy: 'x', firstMoves: slices.Concat(lockedClaimMoves, adderMoves(1, 3, 4))},
	{name: "locks two claims", laneCount: 2, adderSteps: twoAdders(readCommitted), processOfClaimer: []int{0, 0}, maxClaims: 3, lastTick: 2, lanesWereUsed: true, sealBy: 'l', firstMoves: slices.Concat(lockedClaimMoves, adderMoves(1, 3, 4))},
	{name: "sealed meanwhile", laneCount: 2, adderSteps: twoAdders(readCommitted), processOfClaimer: []int{0, 0}, maxClaims: 4, lastTick: 2, lanesWereUsed: true, sealBy: 'x', firstMoves: slices.Concat(adderMoves(1, 3, 4), wholeClaimMoves())},
	{name: "two lanes", laneCount: 2, laneOfAdder: []int{0, 1}, adderSteps: twoAdders(readCommitted), processOfClaimer: []int{0}, maxClaims: 4, lastTick: 2, sealBy: 'x', firstMoves: adderMoves(1, 4, 3)},
	{name: "two processes", adderSteps: twoAdders(readCommitted), processOfClaimer: []int{0, 1}, maxClaims: 4, lastTick: 2, sealBy: 'x', firstMoves: adderMoves(1, 3, 3)},
	{name: "far apart", adderSteps: threeAdders(readCommitted), processOfClaimer: []int{0}, maxClaims: 3, lastTick: 3, microsPerTick: 2 * minGapMicros, sealBy: 'x', firstMoves: adderMoves(1, 4, 3, 1)},
	{name: "cut off", adderSteps: threeAdders(readCommitted), processOfClaimer: []int{0}, maxClaims: 4, lastTick: 3, microsPerTick: 2 * minGapMicros, windowLimit: 3, limitMayBeOne: true, sealBy: 'x', firstMoves: adderMoves(1, 4, 4, 4)},
	{name: "rolled back", adderSteps: twoAdders(readCommitted), processOfClaimer: []int{0}, maxClaims: 3, lastTick: 2, sealBy: 'x', aborts: 1, firstMoves: adderMoves(0, 3)},
	{name: "requeued in place", adderSteps: twoAdders(readCommitted), processOfClaimer: []int{0}, maxClaims: 4, lastTick: 2, sealBy: 'x', cancels: 2, firstMoves: adderMoves(1, 4, 3)},
	{name: "halted", adderSteps: twoAdders(readCommitted), processOfClaimer: []int{0}, maxClaims: 3, lastTick: 2, sealBy: 'x', halts: 1, firstMoves: adderMoves(1, 4, 3)},
	{name: "lost and requeued", adderSteps: twoAdders(readCommitted), processOfClaimer: []int{0, 0}, maxClaims: 4, lastTick: 2, sealBy: 'x', lostConnections: 1, cancels: 2, firstMoves: slices.Concat(adderMoves(1, 4, 4), wholeClaimMoves(), []move{{finishBatch, 0, 0}})},
	{name: "prepared ids", adderSteps: []string{"begin snap clock prepare end", readCommitted}, processOfClaimer: []int{0}, maxClaims: 3, lastTick: 2, sealBy: 'x', crashes: 1, firstMoves: adderMoves(1, 4, 4)},
	{name: "prepared locks", adderSteps: []string{"begin snap clock prepare end", readCommitted}, processOfClaimer: []int{0}, maxClaims: 3, lastTick: 2, sealBy: 'l', crashes: 1, firstMoves: adderMoves(1, 4, 4)},
	{name: "prepared two claims", adderSteps: []string{"begin snap clock prepare end", readCommitted}, processOfClaimer: []int{0, 0}, maxClaims: 4, lastTick: 2, sealBy: 'l', crashes: 1, firstMoves: slices.Concat(adderMoves(1, 4, 4), wholeClaimMoves())},
	{name: "restarted", adderSteps: []string{"begin snap clock prepare end", readCommitted}, processOfClaimer: []int{0}, maxClaims: 4, lastTick: 2, sealBy: 'l', restarts: 1, firstMoves: adderMoves(1, 4, 3)},
	{name: "pruned", adderSteps: twoAdders(readCommitted), processOfClaimer: []int{0}, maxClaims: 4, firstTick: 3, lastTick: 6, backSteps: 1, prunes: 1, pruneAge: 3, sealBy: 'x', firstMoves: slices.Concat(adderMoves(0, 4, 1), wholeClaimMoves(), wholeClaimMoves())},
	{name: "failed over", adderSteps: twoAdders(readCommitted), processOfClaimer: []int{0, 0}, maxClaims: 5, lastTick: 2, sealBy: 'x', failover: 1, firstMoves: slices.Concat(adderMoves(1, 4, 4), wholeClaimMoves())},
	{name: "failed over locks", adderSteps: twoAdders(readCommitted), processOfClaimer: []int{0, 0}, maxClaims: 5, lastTick: 2, sealBy: 'l', failover: 1, firstMoves: slices.Concat(adderMoves(1, 4, 4), wholeClaimMoves())},
}

func TestModel(t *testing.T) {
	for _, s := range worlds {
		t.Run(s.name, func(t *testing.T) {
			e := explore(s, 10_000_000)
			require.Empty(t, e.violation, "%v", e)
			t.Logf("%d states", len(e.visitedStates))
		})
	}
}

// The large worlds have the same settings without the first moves, with a little more of
// everything, and settings that are too large for each run.
func TestModelLarge(t *testing.T) {
	if !*exploresLargeWorlds {
		t.Log("-position.large goes through larger worlds")
		return
	}
	all := slices.Clone(worlds)
	for i := range all {
		all[i].name, all[i].firstMoves = all[i].name+" from the beginning", nil
	}
	all = append(all,
		worldLimits{name: "three additions", adderSteps: threeAdders(readCommitted), processOfClaimer: []int{0}, maxClaims: 3, lastTick: 2, sealBy: 'x'},
		worldLimits{name: "three additions, locks", adderSteps: threeAdders(readCommitted), processOfClaimer: []int{0}, maxClaims: 3, lastTick: 2, sealBy: 'l'},
		worldLimits{name: "four claims", adderSteps: twoAdders(readCommitted), processOfClaimer: []int{0}, maxClaims: 4, lastTick: 3, backSteps: 1, sealBy: 'x'},
		worldLimits{name: "four claims, locks", adderSteps: twoAdders(readCommitted), processOfClaimer: []int{0}, maxClaims: 4, lastTick: 3, backSteps: 1, sealBy: 'l'},
		worldLimits{name: "two processes, both far", adderSteps: twoAdders(readCommitted), processOfClaimer: []int{0, 1}, maxClaims: 6, lastTick: 2, sealBy: 'x'},
	)
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) {
			e := explore(s, 10_000_000)
			require.Empty(t, e.violation, "%v", e)
			t.Logf("%d states, all of them: %t", len(e.visitedStates), len(e.visitedStates) < e.maxStates)
		})
	}
}

// wide is a world with many of everything, of which the test makes some random runs.
func TestModelAtRandom(t *testing.T) {
	wide := worldLimits{
		adderSteps:  slices.Repeat([]string{readCommitted, readCommitted, "begin snap clock prepare end"}, 8),
		laneOfAdder: slices.Repeat([]int{0, 1, 0, 0, 2, 1}, 4), laneCount: 3, processOfClaimer: []int{0, 0, 1}, maxClaims: 100, lastTick: 12, backSteps: 2,
		windowLimit: 3, limitMayBeOne: true, sealBy: 'b', aborts: 2, cancels: 20, halts: 10, restarts: 1, crashes: 1, lostConnections: 2, failover: 1, readsWholeLanes: true,
	}
	far, small := wide, wide
	far.microsPerTick, small.memoryLimit = 2*minGapMicros, 4
	first, n := uint64(0), *walkCount
	if *onlySeed > 0 {
		first, n = *onlySeed, 1
	}
	for i, s := range []worldLimits{wide, far, small} {
		moved := 0
		for seed := first; seed < first+n; seed++ {
			e := walkAtRandom(s, seed, 600)
			require.Empty(t, e.violation, "-position.seed=%d of %d: %v", seed, i, e)
			moved += e.movedPositions
		}
		require.Positive(t, moved, "no position ever moved")
		t.Logf("seeds %d to %d: %d positions", first, first+n-1, moved)
	}
}

// If a caller breaks the rules, a batch is hidden and the model finds that. This shows that the
// model can fail.
func TestModelFinds(t *testing.T) {
	old, statement := "snap clock begin end", "snap xid clock end"
	for _, s := range []worldLimits{
		{name: "a clock that is read before the id", adderSteps: twoAdders(old), processOfClaimer: []int{0}, maxClaims: 3, lastTick: 2, sealBy: 'x', firstMoves: adderMoves(1, 2)},
		{name: "a clock that is read before the lock", adderSteps: twoAdders(old), processOfClaimer: []int{0}, maxClaims: 3, lastTick: 2, sealBy: 'l', firstMoves: adderMoves(1, 2, 1)},
		{name: "an id of the statement that reads the clock", adderSteps: twoAdders(statement), processOfClaimer: []int{0}, maxClaims: 3, firstTick: 3, lastTick: 3, backSteps: 1, sealBy: 'x', firstMoves: adderMoves(0, 1, 4)},
		{name: "a lock that is released before the commit", adderSteps: twoAdders("lock snap clock unlock end"), processOfClaimer: []int{0}, maxClaims: 3, lastTick: 2, sealBy: 'l', firstMoves: adderMoves(1, 3)},
		{name: "pg_snapshot_xmax for an id", adderSteps: []string{readCommitted, "xid quit", readCommitted}, processOfClaimer: []int{0}, maxClaims: 3, lastTick: 3, backSteps: 1, lanesWereUsed: true, sealBy: 'x', notesXmax: true,
			firstMoves: []move{{addStep, 0, 0}, {addStep, 0, 0}, {addStep, 0, 1}, {beginClaim, 0, 0}, {claimStep, 0, 1}, {addStep, 1, 0}, {addStep, 2, 0}, {addStep, 2, 0}}},
		{name: "repeatable read, and a clock that steps back", adderSteps: []string{repeatableRead, readCommitted}, processOfClaimer: []int{0}, maxClaims: 3, firstTick: 3, lastTick: 3, backSteps: 1, sealBy: 'x', firstMoves: adderMoves(0, 1, 4)},
		{name: "a clock that is ahead of the one of additions", adderSteps: []string{repeatableRead, readCommitted, readCommitted}, processOfClaimer: []int{0}, maxClaims: 3, lastTick: 2, sealBy: 'x', claimClockAhead: 1, firstMoves: adderMoves(0, 1, 4, 4)},
		{name: "retention sooner than the clock can step back", adderSteps: twoAdders(readCommitted), processOfClaimer: []int{0}, maxClaims: 4, firstTick: 3, lastTick: 3, backSteps: 1, prunes: 1, sealBy: 'x', firstMoves: slices.Concat(adderMoves(0, 4), wholeClaimMoves(), wholeClaimMoves())},
		{name: "asynchronous commits, and a crash", adderSteps: twoAdders(readCommitted), processOfClaimer: []int{0}, maxClaims: 4, lastTick: 2, sealBy: 'x', failover: 1, losesCommitsSilently: true, firstMoves: slices.Concat(adderMoves(1, 4, 4), wholeClaimMoves())},
		{name: "a requeue that is not counted", adderSteps: twoAdders(readCommitted), processOfClaimer: []int{0}, maxClaims: 4, lastTick: 2, sealBy: 'x', cancels: 2, requeuesAreUncounted: true, firstMoves: adderMoves(1, 4, 4)},
		{name: "one statement's word for both", adderSteps: twoAdders(readCommitted), processOfClaimer: []int{0}, maxClaims: 4, lastTick: 2, sealBy: 'x', halts: 1, oneStatementOpensLane: true, firstMoves: adderMoves(1, 4, 4)},
	} {
		t.Run(s.name, func(t *testing.T) {
			e := explore(s, 2_000_000)
			assert.Contains(t, e.violation, "hidden", "%d states", len(e.visitedStates))
			t.Log(e)
		})
	}
}
