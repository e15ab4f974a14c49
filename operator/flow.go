package operator

import (
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/store"
)

// CellLength is the length of time of one [Cell].
const CellLength = 15 * time.Second

// The queue grows if each of the last minGrowingCounts counts is above the one before, and the
// kept counts grow by more than 1/growShare of the rate at which batches become final.
const (
	minGrowingCounts = 4
	growShare        = 20
)

// Cell is one interval of time, with what all instances reported for it.
type Cell struct {
	Seen                    bool    // at least one instance has reported this interval
	Rate                    float64 // batches per second that became final
	Queue, Flight, Finality store.Times
}

// Cells sorts the intervals that the instances reported into cells, earliest first. An interval
// belongs to the cell that contains its middle; its rate is computed with its own length. The last
// cell ends now. Cells before the first reported one are left out.
func Cells(instances []store.Instance) []Cell {
	cells := make([]Cell, store.MaxFlows)
	for _, i := range instances {
		rates, n := make([]float64, len(cells)), make([]float64, len(cells))
		for _, f := range i.Flows {
			at := len(cells) - 1 - int((i.Unseen+f.Ago+f.Took/2)/CellLength)
			if at < 0 || at >= len(cells) || f.Took <= 0 {
				continue
			}
			rates[at] += float64(f.Final) / f.Took.Seconds()
			n[at]++
			c := &cells[at]
			c.Queue, c.Flight, c.Finality = c.Queue.With(f.Queue), c.Flight.With(f.Flight), c.Finality.With(f.Finality)
		}
		for at := range cells {
			if n[at] > 0 {
				cells[at].Seen = true
				cells[at].Rate += rates[at] / n[at]
			}
		}
	}
	for len(cells) > 0 && !cells[0].Seen {
		cells = cells[1:]
	}
	return cells
}

// Flow says how batches flow now. It uses the last interval that each live instance has written,
// if that began half a minute ago or less: means over minutes would show a flow long after it has
// stopped.
type Flow struct {
	// Known is true if at least one live instance has written an interval. Final is the number of
	// batches per second that become final.
	Known bool    `json:"known"`
	Final float64 `json:"final"`
	// Added is the number of batches per second that are added: Final plus the growth between the
	// last two counts. It includes requeued batches. AddedKnown is true if there are two counts.
	Added      float64 `json:"added"`
	AddedKnown bool    `json:"added_known"`
	// Queue, Flight and Finality are the times of [store.Flow] in these intervals.
	Queue    store.Times `json:"queue,omitzero"`
	Flight   store.Times `json:"flight,omitzero"`
	Finality store.Times `json:"finality,omitzero"`
	// Waits is the age of the oldest open batch; 0 where none is open.
	Waits time.Duration `json:"waits_ns,omitzero"`
	// Growing is a sentence that says that the queue grows; "" if it does not.
	Growing string `json:"growing,omitzero"`
}

// FlowOf computes how batches flow from the counts and the instances in s.
func FlowOf(s store.Stats) (f Flow) {
	for _, i := range s.Instances {
		if n := len(i.Flows); i.Live && n > 0 && i.Flows[n-1].Took > 0 {
			last := i.Flows[n-1]
			f.Known = true
			f.Final += float64(last.Final) / last.Took.Seconds()
			f.Queue, f.Flight, f.Finality = f.Queue.With(last.Queue), f.Flight.With(last.Flight), f.Finality.With(last.Finality)
		}
	}
	if s.At.IsZero() {
		return f
	}
	if !s.Oldest.IsZero() {
		f.Waits = s.At.Sub(s.Oldest) + s.Age
	}
	if n := len(s.Earlier); n > 0 && f.Known {
		before, now := s.Earlier[n-1], s.OpenAt()
		if took := now.At.Sub(before.At); took > 0 {
			f.Added, f.AddedKnown = max(0, f.Final+float64(now.Open-before.Open)/took.Seconds()), true
		}
	}
	f.Growing = growingText(s)
	return f
}

// growingText compares the kept counts with the number of batches that became final in the same
// time.
func growingText(s store.Stats) string {
	final, seen := 0.0, 0.0
	for _, c := range Cells(s.Instances) {
		if c.Seen {
			final += c.Rate
			seen++
		}
	}
	counts := append(append([]store.OpenAt(nil), s.Earlier...), s.OpenAt())
	if len(counts) < minGrowingCounts || seen == 0 {
		return ""
	}
	final /= seen
	first, last := counts[0], counts[len(counts)-1]
	took := last.At.Sub(first.At)
	if took <= 0 {
		return ""
	}
	for i := len(counts) - minGrowingCounts + 1; i < len(counts); i++ {
		if counts[i].Open <= counts[i-1].Open {
			return ""
		}
	}
	grows := float64(last.Open-first.Open) / took.Seconds()
	if grows <= final/growShare {
		return ""
	}
	return fmt.Sprintf("It has %d batches more than %s ago: %s come, and %s become final.",
		last.Open-first.Open, took.Round(time.Second), PerSecond(max(0, final+grows)), PerSecond(final))
}

// PerSecond returns a rate in words.
func PerSecond(rate float64) string {
	switch {
	case rate >= 9.95:
		return fmt.Sprintf("%.0f/s", rate)
	case rate >= 0.095:
		return fmt.Sprintf("%.1f/s", rate)
	case rate > 0:
		return fmt.Sprintf("%.1f/min", rate*60)
	}
	return "0/s"
}
