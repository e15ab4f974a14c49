package queuertest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
)

// testWindow tests Window, which is read at every claim and must never be 0.
func (s suite) testWindow(t *testing.T) {
	st := s.newStrategy()
	w := st.Window
	assert.GreaterOrEqual(t, w, 1, "Window: how many waiting batches Select wants to see")
	assert.NoError(t, st.Check())
	assert.Empty(t, st.Select(batch.Lane{Service: "s"}), "of a lane without batches")
}

// checkAnswer fails the test unless an answer is valid: its positions are in the lane, claimable
// and ready, ascending, and none occurs twice. No batch passes an open batch with which it
// conflicts, except an accepted batch if the ledger keeps the order. The rule is written here a
// second time, independent of [batch.Lane.Check], and simple instead of quick.
func checkAnswer(t *testing.T, l batch.Lane, runs []batch.Run) {
	t.Helper()
	if bad := whyInvalid(l, runs); bad != "" {
		require.Fail(t, bad, describe(l, runs))
	}
	require.NoError(t, l.Check(runs))
}

// whyInvalid returns why an answer is invalid, or "" if it is valid.
func whyInvalid(l batch.Lane, runs []batch.Run) string {
	run := map[int]int{} // position to the number of the run that took it
	for i, ps := range runs {
		last := -1
		for _, p := range ps {
			if p < 0 || p >= len(l.Batches) {
				return fmt.Sprintf("there is no position %d", p)
			}
			if _, twice := run[p]; twice {
				return fmt.Sprintf("position %d twice", p)
			}
			if p < last {
				return fmt.Sprintf("position %d after %d", p, last)
			}
			if b := l.Batches[p]; !b.State.Claimable() || !b.Ready {
				return fmt.Sprintf("position %d is %s and not ready", p, b.State)
			}
			run[p], last = i, p
		}
	}
	for p, i := range run {
		for q, b := range l.Batches {
			accepted := b.State == batch.Pending || b.State == batch.Valid
			switch {
			case b.State == batch.Submitting:
			case l.KeepsOrder && q > p && (accepted || b.State == batch.Invalid): // the batch at p would be executed behind b, which is later in the lane
			case l.KeepsOrder && q < p && accepted && (l.Batches[p].State == batch.Unknown || l.Batches[p].Failed): // both may be lost
			case q >= p, l.KeepsOrder && accepted:
				continue
			}
			if j, taken := run[q]; (!taken || i != j) && b.Footprint.Conflicts(l.Batches[p].Footprint) {
				return fmt.Sprintf("position %d passes %d, which it conflicts with", p, q)
			}
		}
	}
	return ""
}

func (s suite) testValid(t *testing.T) {
	st := s.newStrategy()
	s.eachRound(t, func(t *testing.T, r *rand.Rand) {
		l := s.randomLane(r, st.Window)
		checkAnswer(t, l, st.Select(l))
	})
}

func (s suite) testUnchanged(t *testing.T) {
	st := s.newStrategy()
	s.eachRound(t, func(t *testing.T, r *rand.Rand) {
		l := s.randomLane(r, st.Window)
		before := cloneLane(l)
		runs := st.Select(l)
		require.Equal(t, before, l, "the lane belongs to the caller")
		for _, run := range runs { // the caller may change the answer
			for i := range run {
				run[i] = -7
			}
		}
		checkAnswer(t, l, st.Select(l))
	})
}

// testPure: the answer depends on the lane alone, not on earlier or concurrent calls or on their
// caller. A claim whose transaction is cut off calls Select again.
func (s suite) testPure(t *testing.T) {
	const askers = 4
	st := s.newStrategy()
	answers := make([][][]batch.Run, askers)
	var wg sync.WaitGroup
	for k := range askers {
		wg.Go(func() {
			own := st
			if k == 0 {
				own = s.newStrategy() // a strategy that was never called before
			}
			answers[k] = make([][]batch.Run, s.rounds)
			for i := range s.rounds {
				if k > 1 { // calls it in another order
					i = s.rounds - 1 - i
				}
				answers[k][i] = own.Select(s.randomLane(rand.New(rand.NewPCG(s.seed, uint64(i))), own.Window))
			}
		})
	}
	wg.Wait()
	for k := range askers {
		for i := range s.rounds {
			if !sameRuns(answers[0][i], answers[k][i]) {
				l := s.randomLane(rand.New(rand.NewPCG(s.seed, uint64(i))), st.Window)
				t.Fatalf("seed %d, round %d: asked again, it answers %v\n%s", s.seed, i, answers[k][i], describe(l, answers[0][i]))
			}
		}
	}
}

// sameRuns compares two answers, and ignores empty runs.
func sameRuns(a, b []batch.Run) bool {
	return assert.ObjectsAreEqual(withoutEmpty(a), withoutEmpty(b))
}

func withoutEmpty(runs []batch.Run) (out []batch.Run) {
	for _, r := range runs {
		if len(r) > 0 {
			out = append(out, r)
		}
	}
	return out
}
