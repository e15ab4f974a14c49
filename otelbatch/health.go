package otelbatch

import (
	"context"
	"slices"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/dltbatch/dltbatch/health"
)

// collect observes the counters, and the present state of all Runners: it adds numbers, and takes
// the longest of times. Of each store it reads only the counts that the store keeps, and reads
// them last, so that with a failed database only these counts are missing.
func (m *Metrics) collect(ctx context.Context, o metric.Observer) error {
	m.mu.Lock()
	runners, engines := m.runners, m.engines
	m.mu.Unlock()
	now, t := time.Now(), totals{
		ages: map[string]float64{}, failing: map[string]float64{}, lostEvents: map[int]int{}, attention: map[string]int{},
	}
	for _, r := range runners {
		t.add(now, r.Health())
	}
	for _, e := range engines {
		t.droppedTraces += int(e.DroppedTraces())
	}
	for _, c := range m.counters {
		c.observe(o)
	}
	m.running.count(o, t.running, labelValues{})
	for i, pool := range pools.values {
		m.poolSize.count(o, t.pools[i].Size, labelValues{pool})
		m.poolBusy.count(o, t.pools[i].Busy, labelValues{pool})
	}
	m.claims.count(o, t.claims, labelValues{})
	m.streams.count(o, t.liveStreams, labelValues{})
	for i, reason := range reasons.values {
		m.closed.count(o, t.closed[i], labelValues{reason})
	}
	m.warnings.count(o, t.warnings, labelValues{})
	m.ledgerClosed.seconds(o, t.ledgerClosed, labelValues{})
	for _, part := range parts.values {
		m.failing.seconds(o, t.failing[part], labelValues{part})
	}
	for _, part := range attentions.values {
		m.attention.count(o, t.attention[part], labelValues{part})
	}
	for loop, age := range t.ages {
		m.success.seconds(o, age, labelValues{loop})
	}
	for i, n := range t.lostEvents {
		m.lostEvents.count(o, n, labelValues{strconv.Itoa(i)})
	}
	m.droppedTraces.count(o, t.droppedTraces, labelValues{})
	m.stats.collect(ctx, runnersInUse(runners), o)
	return nil
}

// runnersInUse returns the Runners that run, or all if none runs, because the database of a
// stopped Runner may be closed.
func runnersInUse(all []runner) []runner {
	running := slices.DeleteFunc(slices.Clone(all), func(r runner) bool { return !r.Health().Running })
	if len(running) == 0 {
		return all
	}
	return running
}

// failingParts are the values of the label parts, by the part of Health's verdict.
var failingParts = map[string]string{health.PartDatabase: "store", health.PartLedger: "ledger", health.PartStreams: "streams"}

// totals sums up the Healths of several Runners.
type totals struct {
	running, claims, liveStreams, warnings int
	pools                                  [2]health.Use // sums in the order of pools
	closed                                 [3]int        // numbers in the order of reasons
	ledgerClosed                           float64
	failing, ages                          map[string]float64 // times in seconds
	lostEvents                             map[int]int
	attention                              map[string]int // number of causes by part
	droppedTraces                          int            // number of dropped trace contexts
}

func (t *totals) add(now time.Time, h health.Health) {
	for i, n := range h.LostEvents {
		t.lostEvents[min(i, len(observers.values))] += int(n)
	}
	t.droppedTraces += int(h.DroppedTraces)
	if !h.Running {
		return
	}
	t.running++
	for i, use := range [...]health.Use{h.Pool, h.StatusConnections} {
		t.pools[i].Busy += use.Busy
		t.pools[i].Size += use.Size
	}
	t.claims += h.Claims
	t.liveStreams += h.OpenStreams
	t.warnings += len(h.Warnings)
	paused := 0
	for _, p := range h.Pauses {
		if p.All {
			t.ledgerClosed = max(t.ledgerClosed, now.Sub(p.Since).Seconds())
		} else {
			paused++
		}
	}
	for i, services := range [...]int{paused, len(h.HaltedServices), len(h.HeldServices)} {
		t.closed[i] += services
	}
	for _, a := range h.Attention(now) {
		t.attention[a.Part]++
		if part, ok := failingParts[a.Part]; ok && !a.Since.IsZero() {
			t.failing[part] = max(t.failing[part], now.Sub(a.Since).Seconds())
		}
	}
	for loop, p := range h.Loops {
		if !p.LastSuccess.IsZero() {
			t.ages[loop] = max(t.ages[loop], now.Sub(p.LastSuccess).Seconds())
		}
	}
}
