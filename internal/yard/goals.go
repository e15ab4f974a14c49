package main

import (
	"fmt"
	"strings"
)

// goal is a figure to reach: the ratio of the rates of two entries in one run, a value of one
// entry, or the ratio of a value between two entries, or, if beyond is set, the difference. A goal
// without a measure belongs to the line of the goal before it.
type goal struct {
	measure      string
	mode         string
	entry, base  string
	value        func(result) float64
	isDifference bool
	least, most  float64
	unit         string
}

// goals returns the goals that this program measures.
func goals() []goal {
	all := []goal{
		{measure: "pgx's own pool, Serial over 10,000 lanes: rate, of the floor's, and of the tuned job queue's", mode: "throughput", entry: ours, base: floor, least: 0.75},
		{mode: "throughput", entry: ours, base: tuned, least: 2},
		{measure: "Pipelined over 100 lanes: the same", mode: "throughput", entry: pipelined, base: floor, least: 0.75},
		{mode: "throughput", entry: pipelined, base: tuned, least: 2},
		{measure: "lib/pq: rate of Serial and of Pipelined, of the floor's", mode: "throughput-pq", entry: ours, base: floor, least: 0.6},
		{mode: "throughput-pq", entry: pipelined, base: floor, least: 0.6},
		{measure: "SQLite: the same", mode: "throughput-sqlite", entry: ours, base: floor, least: 0.75},
		{mode: "throughput-sqlite", entry: pipelined, base: floor, least: 0.6},
		{measure: "Log of a batch, Serial over 10,000 lanes, pgx's own pool", mode: "throughput", entry: ours, value: func(r result) float64 { return r.WAL }, most: 2600, unit: " B"},
		{measure: "Rate with hints, of that without: one process; eight others add", mode: "hints", entry: ours, base: ours + isMute, least: 0.98},
		{mode: "hints", entry: eight, base: eight + isMute, least: 0.98},
		{measure: "Memory with 1,000,000 waiting", mode: "backlog", entry: million, value: func(r result) float64 { return r.PeakRSS }, most: 64, unit: " MiB"},
		{measure: "A held snapshot: rate, p50 and p99, of those without", mode: "held", entry: ours + isHeld, base: ours, least: 0.9},
		{mode: "held", entry: ours + isHeld, base: ours, value: func(r result) float64 { return r.P50 }, most: 1.2},
		{mode: "held", entry: ours + isHeld, base: ours, value: func(r result) float64 { return r.P99 }, most: 2},
	}
	between := func(measure, entry, alone string) {
		all = append(all,
			goal{measure: measure, mode: "latency", entry: entry, value: func(r result) float64 { return r.Hand50 }, most: 5, unit: " ms"},
			goal{mode: "latency", entry: entry, value: func(r result) float64 { return r.Hand99 }, most: 50, unit: " ms"},
			goal{mode: "latency", entry: entry, base: alone, isDifference: true, value: func(r result) float64 { return r.Answer50 }, most: 5, unit: " ms"},
		)
	}
	for i, label := range []string{ownPool, overPgx, overPQ, pooled, onSQLite} {
		measure := label + ": the same"
		if i == 0 {
			measure = label + ", two processes: from Add's return to the POST, p50 and p99; Await's p50, less that in one process"
		}
		between(measure, label+apart, label+together)
	}
	between(onSQLite+", four processes that add: the same", onSQLite+fourApart, onSQLite+together)
	return append(all,
		goal{measure: ownPool + ", two processes: from Add to the POST, p50 and p90, of the tuned job queue's", mode: "latency", entry: ownPool + apart, base: tuned + apart, value: func(r result) float64 { return r.Post50 }, most: 1},
		goal{mode: "latency", entry: ownPool + apart, base: tuned + apart, value: func(r result) float64 { return r.Post90 }, most: 1},
	)
}

// verdict is a line of the table of goals.
type verdict struct{ measure, want, got string }

// verdicts returns a verdict for each goal whose entries were measured.
func (p page) verdicts() (out []verdict) {
	for _, g := range goals() {
		for _, f := range p.Modes {
			e := f.entry(g.entry)
			if f.Mode != g.mode || e == nil || g.base != "" && f.entry(g.base) == nil {
				continue
			}
			v := verdict{measure: g.measure, want: fmt.Sprintf("≥ %.4g%s", g.least, g.unit)}
			good := true
			if g.most > 0 {
				v.want = fmt.Sprintf("≤ %.4g%s", g.most, g.unit)
			}
			switch {
			case g.isDifference:
				got := g.value(e.Median) - g.value(f.entry(g.base).Median)
				good = got <= g.most
				v.got = fmt.Sprintf("%.1f%s", got, g.unit)
			case g.value != nil && g.base != "":
				got := g.value(e.Median) / g.value(f.entry(g.base).Median)
				good = got <= g.most
				v.got = fmt.Sprintf("%.2f", got)
			case g.value != nil:
				got := g.value(e.Median)
				good = got <= g.most
				v.got = fmt.Sprintf("%.1f%s", got, g.unit)
			default:
				got := e.ratioTo(f.entry(g.base))
				good = got >= g.least
				v.got = fmt.Sprintf("%.2f", got)
			}
			if !good {
				v.got = "**" + v.got + "**"
			}
			if last := len(out) - 1; g.measure == "" && last >= 0 {
				out[last].want = strings.TrimSuffix(out[last].want, g.unit) + ", " + strings.TrimPrefix(strings.TrimPrefix(v.want, "≤ "), "≥ ")
				out[last].got = strings.TrimSuffix(out[last].got, g.unit) + ", " + v.got
				continue
			}
			out = append(out, v)
		}
	}
	return out
}
