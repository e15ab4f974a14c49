package console

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/store"
)

// flowCell is the time of one point of a plot.
const flowCell = operator.CellLength

// flowBody holds the plots of the last minutes, each with the number of the last half minute.
type flowBody struct{ Plots []plot }

// newFlow makes the plots; nil if nothing was counted yet.
func newFlow(s store.Stats) *flowBody {
	if s.At.IsZero() {
		return nil
	}
	cells, now := operator.Cells(s.Instances), operator.FlowOf(s)
	rates := make([]float64, len(cells))
	for i, c := range cells {
		if rates[i] = c.Rate; !c.Seen {
			rates[i] = math.NaN()
		}
	}
	final := plot{Title: "Final", Number: "not known", About: "no instance has shown it yet"}
	if now.Known {
		final.Number, final.About = operator.PerSecond(now.Final), "became final, in the last half minute"
	}
	if len(cells) > 0 {
		final.drawLine(rates, agoText(len(cells)), operator.PerSecond)
	}
	added := plot{Title: "Added", Number: "not known", About: "needs two counts, and an instance"}
	if now.AddedKnown {
		added.Number, added.About = operator.PerSecond(now.Added), "final ones and growth"
	}
	if sums, from := addedRates(append(append([]store.OpenAt(nil), s.Earlier...), s.OpenAt()), cells, s.Age); len(sums) > 0 {
		added.drawLine(sums, from, operator.PerSecond)
	}
	queue := latencyPlot("Queue time", "from Add to the first attempt", now.Queue, cells, func(c operator.Cell) store.Times { return c.Queue })
	if now.Waits > now.Queue.Max { // the batches that still wait say more than those that have left
		queue.Number, queue.About = briefText(now.Waits), "the oldest open batch has waited"
	}
	return &flowBody{[]plot{
		openPlot(append(append([]store.OpenAt(nil), s.Earlier...), s.OpenAt())), added, final, queue,
		latencyPlot("Submit time", "a POST, up to its answer", now.Flight, cells, func(c operator.Cell) store.Times { return c.Flight }),
		latencyPlot("Finality", "from the POST to the outcome", now.Finality, cells, func(c operator.Cell) store.Times { return c.Finality }),
	}}
}

// addedRates returns how many batches per second were added between successive counts: the growth
// plus the batches that became final. The result has one rate for each gap. The rate of final
// batches is that of the cell at the middle of the gap; where no instance has reported it, the
// added rate is NaN. from says when the first gap begins, and age is the age of the last count.
func addedRates(counts []store.OpenAt, cells []operator.Cell, age time.Duration) (rates []float64, from string) {
	now := counts[len(counts)-1].At.Add(age)
	for i, c := range counts[1:] {
		before := counts[i]
		rate, took := math.NaN(), c.At.Sub(before.At)
		if at := len(cells) - 1 - int(now.Sub(before.At.Add(took/2))/flowCell); took > 0 && at >= 0 && at < len(cells) && cells[at].Seen {
			rate = max(0, cells[at].Rate+float64(c.Open-before.Open)/took.Seconds())
		}
		rates = append(rates, rate)
	}
	return rates, briefText(now.Sub(counts[0].At)) + " ago"
}

func openPlot(counts []store.OpenAt) plot {
	first, last := counts[0], counts[len(counts)-1]
	ago := briefText(last.At.Sub(first.At)) + " ago"
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
	p.drawLine(values, ago, func(v float64) string { return fmt.Sprint(v) })
	return p
}

func latencyPlot(title, about string, all store.Times, cells []operator.Cell, of func(operator.Cell) store.Times) plot {
	p := plot{Title: title, Number: "none", About: about}
	if all.N > 0 {
		p.Number, p.About = briefText(all.Mean()), about+", the longest "+briefText(all.Max)
	}
	means := make([]float64, len(cells))
	for i, c := range cells {
		if means[i] = math.NaN(); of(c).N > 0 {
			means[i] = of(c).Mean().Seconds()
		}
	}
	unit := time.Second // unit of the scale
	if maxValue(means) > time.Minute.Seconds() {
		unit = time.Minute
		for i := range means {
			means[i] /= unit.Seconds()
		}
	}
	p.drawLine(means, agoText(len(cells)), func(v float64) string { return briefText(time.Duration(v * float64(unit))) })
	return p
}

// agoText says how long ago the earliest of the cells began.
func agoText(cells int) string { return briefText(time.Duration(cells)*flowCell) + " ago" }

// briefText writes a duration as short as possible.
func briefText(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return strings.TrimSuffix(ageText(d), " 0 s")
	case d >= 10*time.Second:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d >= time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}
