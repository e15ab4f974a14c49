package console

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/store"
)

// Bounds of the plots.
const (
	flowCell   = 15 * time.Second // of one point
	growCounts = 4                // the queue grows if so many counts are each above the one before,
	growShare  = 20               // and by more than 1/growShare of what becomes final
)

// flowBody are the numbers and plots of the last minutes.
type flowBody struct {
	Plots []plot
	// Growing says in a sentence that the queue grows faster than it leaves; "" if it does not.
	Growing string
}

// cell is a stretch of time: what all instances saw in it.
type cell struct {
	seen                    bool
	rate                    float64 // final batches a second
	queue, flight, finality store.Times
}

// flows puts the stretches of all instances into cells, the earliest first. A stretch is in the cell of
// its middle, and its rate goes with its own length. Cells that nobody has shown are left out at both
// ends.
func flows(instances []store.Instance) []cell {
	cells := make([]cell, store.MaxFlows)
	for _, i := range instances {
		rates, n := make([]float64, len(cells)), make([]float64, len(cells))
		for _, f := range i.Flows {
			at := len(cells) - 1 - int((i.Unseen+f.Ago+f.Took/2)/flowCell)
			if at < 0 || at >= len(cells) || f.Took <= 0 {
				continue
			}
			rates[at] += float64(f.Final) / f.Took.Seconds()
			n[at]++
			c := &cells[at]
			c.queue, c.flight, c.finality = c.queue.With(f.Queue), c.flight.With(f.Flight), c.finality.With(f.Finality)
		}
		for at := range cells {
			if n[at] > 0 {
				cells[at].seen = true
				cells[at].rate += rates[at] / n[at]
			}
		}
	}
	for len(cells) > 0 && !cells[0].seen {
		cells = cells[1:]
	}
	for len(cells) > 0 && !cells[len(cells)-1].seen {
		cells = cells[:len(cells)-1]
	}
	return cells
}

// newFlow makes the plots; nil where nobody has counted.
func newFlow(s store.Stats) *flowBody {
	if s.At.IsZero() {
		return nil
	}
	cells := flows(s.Instances)
	var all cell
	var rates []float64
	seen := 0
	for _, c := range cells {
		if c.seen {
			rates = append(rates, c.rate)
			all.rate += c.rate
			seen++
		} else {
			rates = append(rates, math.NaN())
		}
		all.queue, all.flight, all.finality = all.queue.With(c.queue), all.flight.With(c.flight), all.finality.With(c.finality)
	}
	final := plot{Title: "Final", Number: "not known", About: "no instance has shown it yet"}
	if seen > 0 {
		all.rate /= float64(seen)
		final.Number, final.About = perSecond(all.rate), "became final, the mean"
		final.line(rates, ago(len(cells)), perSecond)
	}
	counts := append(append([]store.OpenAt(nil), s.Earlier...), s.OpenAt())
	growth, known := growing(counts)
	added := plot{Title: "Added", Number: "not known", About: "needs two counts, and an instance"}
	b := &flowBody{}
	if known && seen > 0 {
		added.Number, added.About = perSecond(max(0, all.rate+growth)), "final ones and growth"
	}
	if n := len(counts); n >= growCounts && growth > all.rate/growShare && rises(counts[n-growCounts:]) {
		b.Growing = fmt.Sprintf("It has %d batches more than %s ago: %s come, and %s become final.",
			counts[n-1].Open-counts[0].Open, age(counts[n-1].At.Sub(counts[0].At)), added.Number, final.Number)
	}
	b.Plots = []plot{
		openPlot(counts), added, final,
		latency("Queue time", "from Add to the first attempt", all.queue, cells, func(c cell) store.Times { return c.queue }),
		latency("Submit time", "a POST, up to its answer", all.flight, cells, func(c cell) store.Times { return c.flight }),
		latency("Finality", "from the POST to the outcome", all.finality, cells, func(c cell) store.Times { return c.finality }),
	}
	return b
}

// growing is by how many batches a second the queue grows, from the first count to the last.
func growing(counts []store.OpenAt) (perSecond float64, known bool) {
	first, last := counts[0], counts[len(counts)-1]
	took := last.At.Sub(first.At)
	if took <= 0 {
		return 0, false
	}
	return float64(last.Open-first.Open) / took.Seconds(), true
}

// rises reports whether each count is above the one before.
func rises(counts []store.OpenAt) bool {
	for i := 1; i < len(counts); i++ {
		if counts[i].Open <= counts[i-1].Open {
			return false
		}
	}
	return true
}

func openPlot(counts []store.OpenAt) plot {
	first, last := counts[0], counts[len(counts)-1]
	ago := age(last.At.Sub(first.At)) + " ago"
	p := plot{Title: "Open", Number: fmt.Sprint(last.Open), About: "as many as " + ago}
	switch change := last.Open - first.Open; {
	case len(counts) == 1:
		p.About = "as of the first count"
	case change > 0:
		p.About = fmt.Sprintf("%d more than %s", change, ago)
	case change < 0:
		p.About = fmt.Sprintf("%d fewer than %s", -change, ago)
	}
	values := make([]float64, len(counts))
	for i, c := range counts {
		values[i] = float64(c.Open)
	}
	p.line(values, ago, func(v float64) string { return fmt.Sprint(v) })
	return p
}

func latency(title, about string, all store.Times, cells []cell, of func(cell) store.Times) plot {
	p := plot{Title: title, Number: "none", About: about}
	if all.N == 0 {
		return p
	}
	p.Number, p.About = brief(all.Mean()), about+", the longest "+brief(all.Max)
	means := make([]float64, len(cells))
	for i, c := range cells {
		if means[i] = math.NaN(); of(c).N > 0 {
			means[i] = of(c).Mean().Seconds()
		}
	}
	unit := time.Second // of the scale
	if highest(means) > time.Minute.Seconds() {
		unit = time.Minute
		for i := range means {
			means[i] /= unit.Seconds()
		}
	}
	p.line(means, ago(len(cells)), func(v float64) string { return brief(time.Duration(v * float64(unit))) })
	return p
}

// ago is when the earliest of so many cells began.
func ago(cells int) string { return brief(time.Duration(cells)*flowCell) + " ago" }

// perSecond shows a rate.
func perSecond(rate float64) string {
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

// brief shows a duration as short as it can.
func brief(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return strings.TrimSuffix(age(d), " 0 s")
	case d >= 10*time.Second:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d >= time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}
