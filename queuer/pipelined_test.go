package queuer_test

import (
	"errors"
	"slices"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
)

// laneOfStates makes a lane on a ledger that keeps order, with one batch for each letter: q
// queued, d delayed and u unknown, all ready; f delayed and n not ready, after an attempt that
// failed; s submitting, p pending, v valid, i invalid; D, U and F like d, u and f, and numbered.
func laneOfStates(states string) batch.Lane {
	l := batch.Lane{Service: "s", KeepsOrder: true}
	for i, c := range states {
		numbered := c == 'D' || c == 'U' || c == 'F'
		c = unicode.ToLower(c)
		w := batch.LaneBatch{ID: batch.ID(rune('a' + i)), Attempt: 1, Numbered: numbered, Ready: c == 'q' || c == 'd' || c == 'u' || c == 'f', Failed: c == 'f' || c == 'n'}
		w.State = map[rune]batch.State{
			'q': batch.Queued, 'd': batch.Delayed, 'u': batch.Unknown, 'n': batch.Delayed, 'f': batch.Delayed,
			's': batch.Submitting, 'p': batch.Pending, 'v': batch.Valid, 'i': batch.Invalid,
		}[c]
		if c == 'q' {
			w.Attempt = 0
		}
		l.Batches = append(l.Batches, w)
	}
	return l
}

func TestPipelinedSelect(t *testing.T) {
	for states, want := range map[string]batch.Run{
		"":         nil,
		"q":        {0},
		"qqq":      {0, 1, 2},
		"qqqqqq":   {0, 1, 2, 3}, // no more than four
		"dqq":      {0, 1, 2},
		"uqq":      {0, 1, 2},
		"pqq":      {1, 2},
		"vpqqq":    {2, 3},
		"vvpqqq":   {3},
		"ppppqq":   nil,
		"pppppqq":  nil, // more than four: another process's strategy has a larger depth
		"nqq":      nil,
		"qnq":      {0},
		"pnq":      nil, // no batch passes a failed one
		"fqq":      {0, 1, 2},
		"pfq":      nil, // when the ledger could not be reached, it may have lost the accepted one
		"pqfq":     {1},
		"pun":      nil, // the lost batch waits for the pending one: it may be lost, too
		"sqq":      nil, // not acknowledged
		"psqq":     nil,
		"qs":       nil,
		"iqq":      nil, // may still be committed
		"piq":      nil,
		"upq":      nil, // the pending batch cannot be called back, and the lost one waits for it
		"upu":      nil,
		"unpq":     nil,
		"pupq":     nil,
		"uupq":     nil,
		"ddpq":     nil,
		"uuq":      {0, 1, 2}, // both were lost together
		"pppqqqqq": {3},
		"Upp":      {0}, // its bytes keep its place
		"pUp":      {1},
		"pFp":      {1},
		"pUUp":     {1, 2},
		"pUupp":    {1}, // the second u has no place of its own
		"uUp":      nil,
		"pUq":      {1, 2},
		"pUpq":     {1}, // and nothing new leaves before it is sent
		"pUsp":     nil,
		"pUip":     nil,
	} {
		var runs []batch.Run
		if want != nil {
			runs = []batch.Run{want}
		}
		l := laneOfStates(states)
		got := queuer.Pipelined(4).Select(l)
		assert.Equal(t, runs, got, states)
		assert.NoError(t, l.Check(got), states)

		l.KeepsOrder = false
		assert.Equal(t, queuer.Serial().Select(l), queuer.Pipelined(4).Select(l), "%s, of a ledger that does not keep order", states)
	}
	assert.Equal(t, 4, queuer.Pipelined(4).Window)
	assert.True(t, queuer.Pipelined(4).ReliesOnOrder)
	assert.False(t, queuer.Serial().ReliesOnOrder)
	assert.False(t, queuer.Parallel(0).ReliesOnOrder)
}

// orderReliantStrategy makes a strategy that relies on order.
func orderReliantStrategy(sel func(batch.Lane) []batch.Run) queuer.Strategy {
	s := strategyOf(sel)
	s.ReliesOnOrder = true
	return s
}

// Choose lets a batch pass accepted ones only if both the strategy and the ledger allow it.
func TestChooseLetsPassWhatWasAccepted(t *testing.T) {
	pick := func(batch.Lane) []batch.Run { return []batch.Run{{1}} }
	second := strategyOf(pick)
	lane := laneOfStates("pq")
	lane.KeepsOrder = false // the value in the lane as a store shows it
	for name, c := range map[string]struct {
		strategy   queuer.Strategy
		keepsOrder bool
		isGood     bool
	}{
		"both":         {orderReliantStrategy(pick), true, true},
		"the strategy": {orderReliantStrategy(pick), false, false},
		"the ledger":   {second, true, false},
		"neither":      {second, false, false},
	} {
		var reportedErrs []error
		runs := queuer.Choose(c.strategy, func(batch.ServiceID) bool { return c.keepsOrder },
			func(_ batch.ServiceID, err error) { reportedErrs = append(reportedErrs, err) })(lane)
		assert.Equal(t, c.isGood, len(runs) == 1, name)
		assert.Equal(t, !c.isGood, len(reportedErrs) == 1, name)
		assert.False(t, lane.KeepsOrder, name)
	}
}

func TestChooseContainsLyingReliantStrategies(t *testing.T) {
	for name, c := range map[string]struct {
		lane   string
		answer []batch.Run
		isBad  bool
	}{
		"honest":                      {"ppqq", []batch.Run{{2, 3}}, false},
		"unacknowledged":              {"psq", []batch.Run{{2}}, true},
		"unacknowledged, behind":      {"pqs", []batch.Run{{1}}, true},
		"overtakes what failed":       {"pnq", []batch.Run{{2}}, true},
		"overtakes one that is ready": {"pdq", []batch.Run{{2}}, true},
		"overtakes the invalid":       {"piq", []batch.Run{{2}}, true},
		"a gap in a run":              {"pqqq", []batch.Run{{1, 3}}, true},
		"two runs":                    {"pqq", []batch.Run{{1}, {2}}, true},
		"backwards":                   {"pqq", []batch.Run{{2, 1}}, true},
		"sends what is accepted":      {"ppq", []batch.Run{{1, 2}}, true},
		"sends again what is behind":  {"upq", []batch.Run{{0}}, true},
		"sends what keeps its place":  {"pUpU", []batch.Run{{1}}, false},
		"and what does not":           {"pUup", []batch.Run{{1, 2}}, true},
	} {
		var reportedErrs []error
		s := orderReliantStrategy(func(batch.Lane) []batch.Run { return c.answer })
		runs := queuer.Choose(s, func(batch.ServiceID) bool { return true },
			func(_ batch.ServiceID, err error) { reportedErrs = append(reportedErrs, err) })(laneOfStates(c.lane))
		if c.isBad {
			assert.Nil(t, runs, name)
			assert.Len(t, reportedErrs, 1, name)
		} else {
			assert.Equal(t, c.answer, runs, name)
			assert.Empty(t, reportedErrs, name)
		}
	}
}

// If keepsOrder panics, nothing of the lane is picked, and the panic is reported.
func TestChooseContainsTheLedger(t *testing.T) {
	var reportedErrs []error
	choose := queuer.Choose(queuer.Pipelined(2), func(batch.ServiceID) bool { panic(errors.New("boom")) },
		func(_ batch.ServiceID, err error) { reportedErrs = append(reportedErrs, err) })
	require.Nil(t, choose(laneOfStates("q")))
	require.Len(t, reportedErrs, 1)
}

// The waiting batches beyond the number that Wants returns would not have changed the answer of
// Select, wherever they stand among the attempted ones.
func TestWantsIsEnough(t *testing.T) {
	tier.Plain(t)
	var lanes []string
	for letters, most := range map[string]int{"qdunspviw": 3, "dupw": 5, "DUupw": 4} { // w is waiting, and was never attempted
		some := []string{""}
		for from := 0; len(some[from]) < most; from++ {
			for _, c := range letters {
				some = append(some, some[from]+string(c))
			}
		}
		lanes = append(lanes, some...)
	}
	now := time.Now()
	for _, strategy := range []queuer.Strategy{queuer.Serial(), queuer.Pipelined(1), queuer.Pipelined(2), queuer.Pipelined(3), queuer.Pipelined(9)} {
		for _, keeps := range []bool{true, false} {
			keeping := func(batch.ServiceID) bool { return keeps }
			choose := queuer.Choose(strategy, keeping, func(_ batch.ServiceID, err error) { require.NoError(t, err) })
			q := store.ClaimQuery{Window: strategy.Window, TTL: time.Minute, Numbered: keeping}
			wants := q
			wants.Wants = queuer.Wants(strategy, keeping)
			for _, lane := range lanes {
				attempted, waiting := storedRows(lane+"wwwwwwwww", now)
				leave := func(q store.ClaimQuery) []store.ClaimedRun {
					n := store.Wanted("s", attempted, now, q)
					rows := slices.Concat(attempted, waiting[:min(n, len(waiting))])
					return store.PlanLane("s", rows, now, q, 99, choose).Runs
				}
				require.Equal(t, claimedIDs(leave(q)), claimedIDs(leave(wants)), "%s(%d), keeps %v: %q", strategy.Name, strategy.Window, keeps, lane)
			}
		}
	}
}

func claimedIDs(runs []store.ClaimedRun) (ids []batch.ID) {
	for _, r := range runs {
		for _, c := range r.Batches {
			ids = append(ids, c.Key.ID)
		}
	}
	return ids
}

// storedRows returns a lane's rows as a store has them, in the order of their order keys.
func storedRows(lane string, now time.Time) (attempted, waiting []store.LaneRow) {
	for i, b := range laneOfStates(lane).Batches {
		r := store.LaneRow{Ref: store.Ref{Key: batch.Key{Service: "s", ID: b.ID}, Created: now.Add(time.Duration(i))}, Row: store.NewRow()}
		if lane[i] == 'w' {
			waiting = append(waiting, r)
			continue
		}
		if r.Row.State, r.Row.Attempt = b.State, 1; b.State.Claimable() && !b.Ready {
			r.Row.NotBefore = now.Add(time.Hour)
		}
		if b.Numbered {
			r.Row.Prepared = []byte{byte(i)}
		}
		attempted = append(attempted, r)
	}
	return attempted, waiting
}

func TestWantsNoMoreThanItCanTake(t *testing.T) {
	wants := queuer.Wants(queuer.Pipelined(4), func(s batch.ServiceID) bool { return s != "other" })
	for attempted, want := range map[string]int{
		"": 4, "p": 3, "pp": 2, "pppp": 0, "ppppp": 0, "s": 0, "ps": 0, "i": 0, "up": 0, "Up": 0,
		// A waiting batch may stand in front of an attempted one that waits again.
		"d": 4, "dd": 4, "pd": 3, "pn": 3, "n": 4, "pu": 3, "uu": 4,
	} {
		assert.Equal(t, want, wants(laneOfStates(attempted)), attempted)
	}
	other := laneOfStates("p")
	other.Service = "other"
	assert.Zero(t, wants(other), "as Serial")
	require.Nil(t, queuer.Wants(queuer.Parallel(0), nil), "it looks at all")
	wants = queuer.Wants(queuer.Pipelined(5), func(batch.ServiceID) bool { panic(errors.New("boom")) })
	require.Equal(t, 5, wants(laneOfStates("p")), "what panics is shown all, and Choose reports it")
}
