package queuer_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/queuer"
)

// serialVerdicts is docs/glossary.md#one-round-serial-queuer with docs/design.md#decisions: the
// meaning of a state at the front of a lane, for that batch and for all batches behind it.
var serialVerdicts = map[batch.State]struct {
	isPicked bool // whether it leaves when it is ready
	why      string
}{
	batch.Queued:     {true, "queue now: not submitted, and nothing of the service is before it"},
	batch.Delayed:    {true, "queue now once the delay is over"},
	batch.Unknown:    {true, "queue now: the monitor found it safe to send again"},
	batch.Submitting: {false, "decision 3: being submitted holds the lane"},
	batch.Pending:    {false, "don't queue"},
	batch.Valid:      {false, "decision 4: may be rolled back yet"},
	batch.Invalid:    {false, "decision 13: may be committed yet"},
	batch.Committed:  {false, "final ones are not in a lane"},
	batch.Rejected:   {false, "final ones are not in a lane"},
}

func TestSerialOverOneBatch(t *testing.T) {
	require.Len(t, serialVerdicts, len(batch.States()))
	for _, s := range batch.States() {
		for _, ready := range []bool{false, true} {
			lane := batch.Lane{Batches: []batch.LaneBatch{{ID: "a", State: s, Ready: ready}}}
			var want []batch.Run
			if serialVerdicts[s].isPicked && ready {
				want = []batch.Run{{0}}
			}
			assert.Equal(t, want, queuer.Serial().Select(lane), "%s, ready %t: %s", s, ready, serialVerdicts[s].why)
		}
	}
	assert.Equal(t, 1, queuer.Serial().Window)
	assert.Nil(t, queuer.Serial().Select(batch.Lane{}), "an empty lane")
}

// TestSerialOverThreeBatches is promise 2: only the front of a lane leaves, and only while no
// batch of the lane is under way, at any place.
func TestSerialOverThreeBatches(t *testing.T) {
	type waiting struct {
		state batch.State
		ready bool
	}
	var all []waiting
	for _, s := range batch.States() {
		all = append(all, waiting{s, false}, waiting{s, true})
	}
	for _, a := range all {
		for _, b := range all {
			for _, c := range all {
				three := []waiting{a, b, c}
				lane := batch.Lane{Service: "s"}
				held := false
				for i, w := range three {
					lane.Batches = append(lane.Batches, batch.LaneBatch{ID: batch.ID(fmt.Sprint(i)), State: w.state, Ready: w.ready})
					held = held || !serialVerdicts[w.state].isPicked
				}
				var want []batch.Run
				if !held && a.ready {
					want = []batch.Run{{0}}
				}
				got := queuer.Serial().Select(lane)
				require.Equal(t, want, got, "%v", three)
				require.NoError(t, lane.Check(got))
			}
		}
	}
}

// strategyOf makes a [queuer.Strategy] of a func.
func strategyOf(sel func(batch.Lane) []batch.Run) queuer.Strategy {
	return queuer.Strategy{Name: "own", Window: 10, Select: sel}
}

func TestStrategiesAreChecked(t *testing.T) {
	own := strategyOf(func(batch.Lane) []batch.Run { return nil })
	for _, good := range []queuer.Strategy{own, queuer.Serial(), queuer.Pipelined(3), queuer.Parallel(-1)} {
		require.NoError(t, good.Check(), good.Name)
		again, ok := queuer.Named(good.Name, good.Window)
		require.Equal(t, good.Name != "own", ok)
		if ok {
			require.Equal(t, good.Window, again.Window)
			require.Equal(t, good.ReliesOnOrder, again.ReliesOnOrder)
		}
	}
	for field, bad := range map[string]queuer.Strategy{
		"Name": {Window: 1, Select: own.Select}, "of another": {Name: "serial", Window: 1, Select: own.Select},
		"Window": {Name: "own", Select: own.Select}, "Select": {Name: "own", Window: 1}, "Pipelined": queuer.Pipelined(0),
	} {
		require.ErrorIs(t, bad.Check(), batch.ErrInvalidInput, field)
	}
	_, ok := queuer.Named("serial", 0)
	require.False(t, ok)
}

// If a strategy gives a bad answer, nothing of the lane is picked, and the answer is reported.
func TestChooseContainsLyingStrategies(t *testing.T) {
	boom := errors.New("boom")
	apart := func(s string) batch.Footprint { return batch.Footprint{Writes: []string{s}} }
	lane := func() batch.Lane {
		return batch.Lane{Service: "s", Batches: []batch.LaneBatch{
			{ID: "submitting", State: batch.Submitting, Attempt: 1, Footprint: apart("a")},
			{ID: "delayed", State: batch.Delayed, Attempt: 1, Footprint: apart("b")},
			{ID: "unknown", State: batch.Unknown, Attempt: 1, Ready: true, Footprint: apart("c")},
			{ID: "queued", State: batch.Queued, Ready: true, Footprint: apart("d")},
			{ID: "same", State: batch.Queued, Ready: true, Footprint: apart("d")},
		}}
	}
	for name, c := range map[string]struct {
		answer func(batch.Lane) []batch.Run
		want   []batch.Run // nil means that nothing is picked
	}{
		"honest":               {func(batch.Lane) []batch.Run { return []batch.Run{{2}, {3, 4}} }, []batch.Run{{2}, {3, 4}}},
		"nothing":              {func(batch.Lane) []batch.Run { return nil }, nil},
		"out of range":         {func(batch.Lane) []batch.Run { return []batch.Run{{5}} }, nil},
		"negative":             {func(batch.Lane) []batch.Run { return []batch.Run{{-1}} }, nil},
		"twice in a run":       {func(batch.Lane) []batch.Run { return []batch.Run{{2, 2}} }, nil},
		"in two runs":          {func(batch.Lane) []batch.Run { return []batch.Run{{2}, {2}} }, nil},
		"backwards":            {func(batch.Lane) []batch.Run { return []batch.Run{{3, 2}} }, nil},
		"being submitted":      {func(batch.Lane) []batch.Run { return []batch.Run{{0}} }, nil},
		"not ready":            {func(batch.Lane) []batch.Run { return []batch.Run{{1}} }, nil},
		"passes a conflict":    {func(batch.Lane) []batch.Run { return []batch.Run{{4}} }, nil},
		"conflict beside it":   {func(batch.Lane) []batch.Run { return []batch.Run{{3}, {4}} }, nil},
		"panics":               {func(batch.Lane) []batch.Run { panic(boom) }, nil},
		"indexes out of range": {func(l batch.Lane) []batch.Run { return []batch.Run{{int(l.Batches[99].State)}} }, nil},
		"makes it ready": {func(l batch.Lane) []batch.Run {
			l.Batches[1].Ready = true
			return []batch.Run{{1}}
		}, nil},
		"makes it claimable": {func(l batch.Lane) []batch.Run {
			l.Batches[0].State, l.Batches[0].Ready = batch.Queued, true
			return []batch.Run{{0}}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var reportedErrs []error
			choose := queuer.Choose(strategyOf(c.answer), nil, func(s batch.ServiceID, err error) {
				assert.Equal(t, batch.ServiceID("s"), s)
				reportedErrs = append(reportedErrs, err)
			})
			given := lane()
			assert.Equal(t, c.want, choose(given))
			assert.Equal(t, lane(), given, "what the store goes by is as it was")
			if c.want != nil || name == "nothing" {
				assert.Empty(t, reportedErrs)
				return
			}
			require.Len(t, reportedErrs, 1, "reported")
			var panicErr *loop.PanicError
			if name == "panics" {
				require.ErrorAs(t, reportedErrs[0], &panicErr)
			}
		})
	}
}

// A copy of a strategy of this package with another Select is a strategy of the application: it
// needs its own name, and it gets a lane that it may change.
func TestACopyWithAnotherSelectIsOnesOwn(t *testing.T) {
	lane := batch.Lane{Service: "s", Batches: []batch.LaneBatch{{ID: "a", State: batch.Submitting, Attempt: 1}}}
	for _, s := range []queuer.Strategy{queuer.Serial(), queuer.Pipelined(4), queuer.Parallel(4)} {
		s.Select = func(l batch.Lane) []batch.Run {
			l.Batches[0].State, l.Batches[0].Ready = batch.Queued, true
			return []batch.Run{{0}}
		}
		require.ErrorIs(t, s.Check(), batch.ErrInvalidInput, s.Name)
		s.Name = "own " + s.Name
		require.NoError(t, s.Check(), s.Name)
		assert.Equal(t, s.ReliesOnOrder, s.OneRun(), s.Name)
		var reportedErrs []error
		given := batch.Lane{Service: lane.Service, Batches: slices.Clone(lane.Batches)}
		assert.Empty(t, queuer.Choose(s, nil, func(_ batch.ServiceID, err error) { reportedErrs = append(reportedErrs, err) })(given), s.Name)
		assert.Equal(t, lane, given, "%s: what the store goes by is as it was", s.Name)
		assert.Len(t, reportedErrs, 1, s.Name)
	}
}
