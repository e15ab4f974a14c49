package queuertest_test

import (
	"flag"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/queuer/queuertest"
)

var badStrategy = flag.String("queuertest.bad", "", "run the suite on this broken strategy")

// brokenStrategy makes a strategy with a fault.
func brokenStrategy(window int, sel func(batch.Lane) []batch.Run) queuer.Strategy {
	return queuer.Strategy{Name: "broken", Window: window, Select: sel}
}

// correctAnswer returns the answer of a correct strategy.
func correctAnswer(l batch.Lane) []batch.Run { return queuer.Parallel(0).Select(l) }

// runsOf makes a run of each position for which pass is true.
func runsOf(l batch.Lane, pass func(p int, b batch.LaneBatch) bool) (out []batch.Run) {
	for p, b := range l.Batches {
		if pass(p, b) {
			out = append(out, batch.Run{p})
		}
	}
	return out
}

func isClaimable(_ int, b batch.LaneBatch) bool { return b.Ready && b.State.Claimable() }

// brokenStrategies maps each broken strategy to the test of the suite that must catch it. Each
// test gets new strategies.
func brokenStrategies() map[string]struct {
	caughtBy    string
	newStrategy func() queuer.Strategy
} {
	plain := func(sel func(batch.Lane) []batch.Run) func() queuer.Strategy {
		return func() queuer.Strategy { return brokenStrategy(100, sel) }
	}
	return map[string]struct {
		caughtBy    string
		newStrategy func() queuer.Strategy
	}{
		"sees nothing":        {"window", func() queuer.Strategy { return brokenStrategy(0, correctAnswer) }},
		"passes conflicts":    {"answers_are_valid", plain(func(l batch.Lane) []batch.Run { return runsOf(l, isClaimable) })},
		"forgets the blocked": {"answers_are_valid", plain(ignoresWaiting)},
		"takes what waits": {"answers_are_valid", plain(func(l batch.Lane) []batch.Run {
			return runsOf(l, func(p int, _ batch.LaneBatch) bool { return p == 0 })
		})},
		"twice":                {"answers_are_valid", plain(func(l batch.Lane) []batch.Run { return slices.Concat(correctAnswer(l), correctAnswer(l)) })},
		"out of range":         {"answers_are_valid", plain(func(l batch.Lane) []batch.Run { return []batch.Run{{len(l.Batches)}} })},
		"backwards":            {"answers_are_valid", plain(runsBackwards)},
		"sets ready":           {"a_lane_is_not_changed", plain(setsReady)},
		"sorts the footprints": {"a_lane_is_not_changed", plain(sortsLane)},
		"keeps its answer":     {"a_lane_is_not_changed", keepsAnswer},
		"has moods":            {"the_same_lane,_the_same_answer", changesItsAnswer},
		"never":                {"nothing_starves", plain(func(batch.Lane) []batch.Run { return nil })},
		"last come first":      {"nothing_starves", plain(lastFirst)},
		"has a favourite": {"lanes_are_fair", plain(func(l batch.Lane) []batch.Run {
			if l.Service == "one" {
				return nil
			}
			return correctAnswer(l)
		})},
		"remembers lanes": {"lanes_are_fair", remembersLastLane},
		"passes the unacknowledged": {"answers_are_valid", hidesFromPipelined(func(b batch.LaneBatch) bool {
			return b.State == batch.Submitting
		})},
		"passes what failed": {"answers_are_valid", hidesFromPipelined(func(b batch.LaneBatch) bool {
			return b.State.Claimable() && !b.Ready
		})},
		"passes the invalid":  {"answers_are_valid", hidesFromPipelined(func(b batch.LaneBatch) bool { return b.State == batch.Invalid })},
		"sends it too late":   {"answers_are_valid", func() queuer.Strategy { return brokenReliantStrategy(9, sendsLostTooLate) }},
		"never asks the lane": {"answers_are_valid", func() queuer.Strategy { return brokenReliantStrategy(9, assumesKeptOrder) }},
	}
}

// brokenReliantStrategy makes a broken strategy that relies on the order of submission.
func brokenReliantStrategy(window int, sel func(batch.Lane) []batch.Run) queuer.Strategy {
	s := brokenStrategy(window, sel)
	s.ReliesOnOrder = true
	return s
}

// hidesFromPipelined makes a strategy with a fault: it hides the batches for which pass is true,
// and which no batch may pass, from a correct strategy, and returns the answer of that.
func hidesFromPipelined(pass func(batch.LaneBatch) bool) func() queuer.Strategy {
	return func() queuer.Strategy {
		return brokenReliantStrategy(9, func(l batch.Lane) []batch.Run {
			var positions []int
			rest := batch.Lane{KeepsOrder: l.KeepsOrder}
			for p, b := range l.Batches {
				if !pass(b) {
					positions, rest.Batches = append(positions, p), append(rest.Batches, b)
				}
			}
			runs := queuer.Pipelined(9).Select(rest)
			for _, run := range runs {
				for i := range run {
					run[i] = positions[run[i]]
				}
			}
			return runs
		})
	}
}

// sendsLostTooLate sends a lost batch as soon as it can, even behind batches that were sent after
// it.
func sendsLostTooLate(l batch.Lane) []batch.Run {
	if l.KeepsOrder && len(l.Batches) > 0 && isClaimable(0, l.Batches[0]) {
		return []batch.Run{{0}}
	}
	return queuer.Pipelined(9).Select(l)
}

// assumesKeptOrder treats every lane as if it had KeepsOrder.
func assumesKeptOrder(l batch.Lane) []batch.Run {
	l.KeepsOrder = true
	return queuer.Pipelined(9).Select(l)
}

// ignoresWaiting compares a batch with those that leave and those under way, and not with those
// that have to wait.
func ignoresWaiting(l batch.Lane) (out []batch.Run) {
	var before batch.Footprints
	for p, b := range l.Batches {
		var alone batch.Footprints
		for _, o := range l.Batches[:p] {
			if !o.State.Claimable() {
				alone.Add(o.Footprint)
			}
		}
		if isClaimable(p, b) && !alone.Add(b.Footprint) && !before.Add(b.Footprint) {
			out = append(out, batch.Run{p})
		}
	}
	return out
}

func runsBackwards(l batch.Lane) []batch.Run {
	var run batch.Run
	for _, r := range correctAnswer(l) {
		run = append(run, r...)
	}
	slices.Reverse(run)
	return []batch.Run{run}
}

func setsReady(l batch.Lane) []batch.Run {
	runs := correctAnswer(l)
	for i := range l.Batches {
		l.Batches[i].Ready = true
	}
	return runs
}

func sortsLane(l batch.Lane) []batch.Run {
	for _, b := range l.Batches {
		slices.Sort(b.Footprint.Writes)
	}
	return correctAnswer(l)
}

func keepsAnswer() queuer.Strategy {
	var mu sync.Mutex
	kept := []batch.Run{{0}}
	return brokenStrategy(1, func(l batch.Lane) []batch.Run {
		mu.Lock()
		defer mu.Unlock()
		if len(queuer.Serial().Select(l)) == 1 {
			return kept
		}
		return nil
	})
}

func changesItsAnswer() queuer.Strategy {
	var mu sync.Mutex
	calls := 0
	return brokenStrategy(100, func(l batch.Lane) []batch.Run {
		mu.Lock()
		defer mu.Unlock()
		if calls++; calls%3 == 0 {
			return nil
		}
		return correctAnswer(l)
	})
}

func lastFirst(l batch.Lane) []batch.Run {
	runs := correctAnswer(l)
	return runs[max(0, len(runs)-1):]
}

// remembersLastLane picks less of a lane that it has just served.
func remembersLastLane() queuer.Strategy {
	var mu sync.Mutex
	var last batch.ServiceID
	return brokenStrategy(100, func(l batch.Lane) []batch.Run {
		mu.Lock()
		defer mu.Unlock()
		same := last == l.Service
		if last = l.Service; same && len(l.Batches)%2 == 1 {
			return nil
		}
		return correctAnswer(l)
	})
}

// The suite catches each broken strategy in the test about its fault.
func TestSuiteReports(t *testing.T) {
	if *badStrategy != "" {
		queuertest.Run(t, brokenStrategies()[*badStrategy].newStrategy, &queuertest.Options{Rounds: 300})
		return
	}
	for name, b := range brokenStrategies() {
		t.Run(name, func(t *testing.T) {
			out, err := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSuiteReports$/^"+b.caughtBy+"$", "-test.timeout=30s", "-queuertest.bad="+name).CombinedOutput()
			assert.Error(t, err, "the suite lets it pass")
			assert.Contains(t, string(out), "--- FAIL: TestSuiteReports/"+b.caughtBy, "%.2000s", out)
		})
	}
}
