// Package queuertest is the conformance suite of [queuer.Strategy]: the rules that every
// strategy must keep. The strategies of this module pass it, and so should any other:
//
//	func TestStrategy(t *testing.T) {
//		queuertest.Run(t, func() queuer.Strategy { return mystrategy.New() }, nil)
//	}
//
// The suite makes random lanes with random conflicts, plays a ledger that answers late, in any
// order, and not always kindly, and checks every answer of the strategy. For a strategy that
// relies on the order of submission ([queuer.Strategy]) the ledger keeps the order. A
// failure names its seed; with that in [Options] the suite plays the same again.
package queuertest

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/dltbatch/dltbatch/queuer"
)

// Options are the options of [Run].
type Options struct {
	// Seed makes the suite repeat an earlier run. Defaults to one drawn for this run.
	Seed uint64
	// Rounds is how many random lanes a test plays. Defaults to 300.
	Rounds int
}

// suite is one run.
type suite struct {
	newStrategy func() queuer.Strategy
	seed        uint64
	rounds      int
	// reliesOnOrder is true for a strategy that sets ReliesOnOrder. It sees lanes of ledgers that
	// keep the order of submission, and lanes of others.
	reliesOnOrder bool
}

// Run runs the suite. It calls newStrategy once before the tests and at least once in each;
// several goroutines use each result at once. nil options are the defaults.
func Run(t *testing.T, newStrategy func() queuer.Strategy, o *Options) {
	t.Helper()
	s := suite{newStrategy: newStrategy, seed: uint64(time.Now().UnixNano()), rounds: 300}
	if o != nil {
		if o.Seed != 0 {
			s.seed = o.Seed
		}
		if o.Rounds > 0 {
			s.rounds = o.Rounds
		}
	}
	s.reliesOnOrder = newStrategy().ReliesOnOrder
	t.Logf("to play this again: queuertest.Options{Seed: %d}", s.seed)
	t.Run("window", s.testWindow)
	t.Run("answers are valid", s.testValid)
	t.Run("a lane is not changed", s.testUnchanged)
	t.Run("the same lane, the same answer", s.testPure)
	t.Run("no conflict is overtaken", s.testOrder)
	t.Run("nothing starves", s.testStarvation)
	t.Run("lanes are fair", s.testFairness)
}

// eachRound calls a test once in each round, with new random numbers, until it fails.
func (s suite) eachRound(t *testing.T, test func(t *testing.T, r *rand.Rand)) {
	t.Helper()
	for round := range s.rounds {
		test(t, rand.New(rand.NewPCG(s.seed, uint64(round))))
		if t.Failed() {
			t.Fatalf("seed %d, round %d", s.seed, round)
		}
	}
}
