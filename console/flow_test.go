package console

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/store"
)

// stagedStats returns the stats of two instances that report an interval each 15 s, with one count
// for each number in open.
func stagedStats(open ...int) store.Stats {
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	var s store.Stats
	for n, o := range open {
		s.Totals = store.Totals{Oldest: at.Add(time.Duration(n)*15*time.Second - 5*time.Minute), At: at.Add(time.Duration(n) * 15 * time.Second), Open: map[batch.State]int{batch.Queued: o}}.After(s.Totals)
	}
	times := func(d time.Duration) store.Times { return store.Times{}.Plus(d).Plus(3 * d) }
	for n := range 2 {
		i := store.Instance{Live: true, Unseen: time.Duration(n) * time.Second}
		for k := range open {
			i.Flows = append(i.Flows, store.Flow{
				Ago: time.Duration(len(open)-1-k) * 15 * time.Second, Took: 15 * time.Second, Final: 30,
				Queue: times(time.Minute), Flight: times(10 * time.Millisecond), Finality: times(2 * time.Second),
			})
		}
		s.Instances = append(s.Instances, i)
	}
	return s
}

func plotNumbers(b *flowBody) map[string]string {
	all := map[string]string{}
	for _, p := range b.Plots {
		all[p.Title] = p.Number
	}
	return all
}

// Rates add up over all instances, the rate of added batches follows from the growth, and the
// times are shown separately.
func TestFlow(t *testing.T) {
	b := newFlow(stagedStats(100, 115, 160, 190))
	assert.Equal(t, map[string]string{"Open": "190", "Final": "4.0/s", "Added": "6.0/s", "Queue time": "5 min", "Submit time": "20 ms", "Finality": "4.0 s"}, plotNumbers(b))
	for _, p := range b.Plots {
		assert.NotEmpty(t, p.Points, p.Title)
	}
	s := stagedStats(100, 115, 160, 190)
	cells := operator.Cells(s.Instances)
	rates, from := addedRates(append(s.Earlier, s.OpenAt()), cells, 0)
	assert.Equal(t, []float64{5, 7, 6}, rates)
	assert.Equal(t, "45 s ago", from)
	rates, _ = addedRates(append(s.Earlier, s.OpenAt()), cells[len(cells)-1:], 0)
	assert.True(t, math.IsNaN(rates[0]) && math.IsNaN(rates[1]), "nobody has shown what became final then: %v", rates)
	assert.InDelta(t, 6, rates[2], 0)

	b = newFlow(stagedStats(190, 130, 100, 100))
	assert.Equal(t, "4.0/s", plotNumbers(b)["Added"])
	assert.Contains(t, b.Plots[0].About, "90 fewer than 45 s ago")
}

// A number that is not known is shown as not known.
func TestFlowUnknown(t *testing.T) {
	assert.Nil(t, newFlow(store.Stats{}))
	s := stagedStats(7)
	s.Instances = nil
	b := newFlow(s)
	assert.Equal(t, map[string]string{"Open": "7", "Final": "not known", "Added": "not known", "Queue time": "5 min", "Submit time": "none", "Finality": "none"}, plotNumbers(b))
	s = stagedStats(7, 9)
	for i := range s.Instances {
		s.Instances[i].Unseen, s.Instances[i].Live = time.Hour, false // the instance has gone
	}
	assert.Equal(t, "not known", plotNumbers(newFlow(s))["Final"])
	s = stagedStats(7, 9)
	s.Instances[0].Flows[0] = store.Flow{Ago: -time.Hour}
	require.NotPanics(t, func() { newFlow(s) })
}

// A line goes from left to right, on a scale from 0 up to a round number. For a value that is not
// known the line connects its neighbours.
func TestLine(t *testing.T) {
	name := func(v float64) string { return fmt.Sprint(v) }
	var p plot
	p.drawLine([]float64{math.NaN(), 1, math.NaN()}, "", name)
	assert.Empty(t, p.Points, "one value is no line")
	p.drawLine([]float64{0, math.NaN(), 3, 9.5}, "1 min ago", name)
	assert.Equal(t, "0.0,71.0 160.0,50.0 240.0,4.5", p.Points)
	assert.Equal(t, "0.0,71 "+p.Points+" 240.0,71", p.Area)
	assert.Equal(t, []string{"10", "5", "1 min ago"}, []string{p.Top, p.Half, p.From})
	p.drawLine([]float64{0, 0}, "", name)
	assert.Equal(t, "0.0,71.0 240.0,71.0", p.Points)
	for v, want := range map[float64]float64{0: 1, 1: 1, 1.1: 2, 37: 40, 41: 60, 0.07: 0.1, 650: 1000} {
		assert.InDelta(t, want, roundUp(v), 1e-9, v)
	}
}

// Durations are written as short as possible.
func TestBrief(t *testing.T) {
	assert.Equal(t, []string{"0.5 ms", "20 ms", "1.5 s", "12 s", "1 min 5 s", "5 min"},
		[]string{briefText(500 * time.Microsecond), briefText(20 * time.Millisecond), briefText(1500 * time.Millisecond), briefText(12 * time.Second), briefText(65 * time.Second), briefText(5 * time.Minute)})
}
