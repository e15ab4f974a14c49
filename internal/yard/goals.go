package main

import (
	"fmt"
	"strings"
)

// goal is a figure to reach: the ratio of the rates of two entries in one run, a value of one
// entry, or the ratio of a value between two entries, or, if beyond is set, the difference. A goal
// without a measure belongs to the line of the goal before it.
type goal struct {
	description      string
	mode             string
	entry, baseEntry string
	value            func(result) float64
	isDifference     bool
	atLeast, atMost  float64
	unit             string
}

// goals returns the goals that this program measures.
func goals() []goal {
	all := []goal{
		{description: "pgx's own pool, Serial over 10,000 lanes: rate, of the floor's, and of the tuned job queue's", mode: "throughput", entry: contenderOurs, baseEntry: contenderFloor, atLeast: 0.75},
		{mode: "throughput", entry: contenderOurs, baseEntry: labelRiverTuned, atLeast: 2},
		{description: "Pipelined over 100 lanes: the same", mode: "throughput", entry: labelPipelined, baseEntry: contenderFloor, atLeast: 0.75},
		{mode: "throughput", entry: labelPipelined, baseEntry: labelRiverTuned, atLeast: 2},
		{description: "lib/pq: rate of Serial and of Pipelined, of the floor's", mode: "throughput-pq", entry: contenderOurs, baseEntry: contenderFloor, atLeast: 0.6},
		{mode: "throughput-pq", entry: labelPipelined, baseEntry: contenderFloor, atLeast: 0.6},
		{description: "SQLite: the same", mode: "throughput-sqlite", entry: contenderOurs, baseEntry: contenderFloor, atLeast: 0.75},
		{mode: "throughput-sqlite", entry: labelPipelined, baseEntry: contenderFloor, atLeast: 0.6},
		{description: "Log of a batch, Serial over 10,000 lanes, pgx's own pool", mode: "throughput", entry: contenderOurs, value: func(r result) float64 { return r.WAL }, atMost: 2600, unit: " B"},
		{description: "Rate with hints, of that without: one process; eight others add", mode: "hints", entry: contenderOurs, baseEntry: contenderOurs + suffixWithoutHints, atLeast: 0.98},
		{mode: "hints", entry: labelEightProcesses, baseEntry: labelEightProcesses + suffixWithoutHints, atLeast: 0.98},
		{description: "Memory with 1,000,000 waiting", mode: "backlog", entry: labelMillionWaiting, value: func(r result) float64 { return r.PeakRSS }, atMost: 64, unit: " MiB"},
		{description: "A held snapshot: rate, p50 and p99, of those without", mode: "held", entry: contenderOurs + suffixSnapshotHeld, baseEntry: contenderOurs, atLeast: 0.9},
		{mode: "held", entry: contenderOurs + suffixSnapshotHeld, baseEntry: contenderOurs, value: func(r result) float64 { return r.P50 }, atMost: 1.2},
		{mode: "held", entry: contenderOurs + suffixSnapshotHeld, baseEntry: contenderOurs, value: func(r result) float64 { return r.P99 }, atMost: 2},
	}
	between := func(measure, entry, alone string) {
		all = append(all,
			goal{description: measure, mode: "latency", entry: entry, value: func(r result) float64 { return r.HandOver50 }, atMost: 5, unit: " ms"},
			goal{mode: "latency", entry: entry, value: func(r result) float64 { return r.HandOver99 }, atMost: 50, unit: " ms"},
			goal{mode: "latency", entry: entry, baseEntry: alone, isDifference: true, value: func(r result) float64 { return r.Answer50 }, atMost: 5, unit: " ms"},
		)
	}
	for i, label := range []string{labelOwnPool, labelPgx, labelPQ, labelPgBouncer, labelSQLite} {
		measure := label + ": the same"
		if i == 0 {
			measure = label + ", two processes: from Add's return to the POST, p50 and p99; Await's p50, less that in one process"
		}
		between(measure, label+suffixOtherProcess, label+suffixSameProcess)
	}
	between(labelSQLite+", four processes that add: the same", labelSQLite+suffixFourProcesses, labelSQLite+suffixSameProcess)
	return append(all,
		goal{description: labelOwnPool + ", two processes: from Add to the POST, p50 and p90, of the tuned job queue's", mode: "latency", entry: labelOwnPool + suffixOtherProcess, baseEntry: labelRiverTuned + suffixOtherProcess, value: func(r result) float64 { return r.Post50 }, atMost: 1},
		goal{mode: "latency", entry: labelOwnPool + suffixOtherProcess, baseEntry: labelRiverTuned + suffixOtherProcess, value: func(r result) float64 { return r.Post90 }, atMost: 1},
	)
}

// goalResult is one line of the table of goals.
type goalResult struct{ description, goal, measured string }

// goalResults returns a line for each goal whose entries were measured.
func (p page) goalResults() (out []goalResult) {
	for _, g := range goals() {
		for _, f := range p.Modes {
			e := f.entry(g.entry)
			if f.Mode != g.mode || e == nil || g.baseEntry != "" && f.entry(g.baseEntry) == nil {
				continue
			}
			v := goalResult{description: g.description, goal: fmt.Sprintf("≥ %.4g%s", g.atLeast, g.unit)}
			good := true
			if g.atMost > 0 {
				v.goal = fmt.Sprintf("≤ %.4g%s", g.atMost, g.unit)
			}
			switch {
			case g.isDifference:
				got := g.value(e.Median) - g.value(f.entry(g.baseEntry).Median)
				good = got <= g.atMost
				v.measured = fmt.Sprintf("%.1f%s", got, g.unit)
			case g.value != nil && g.baseEntry != "":
				got := g.value(e.Median) / g.value(f.entry(g.baseEntry).Median)
				good = got <= g.atMost
				v.measured = fmt.Sprintf("%.2f", got)
			case g.value != nil:
				got := g.value(e.Median)
				good = got <= g.atMost
				v.measured = fmt.Sprintf("%.1f%s", got, g.unit)
			default:
				got := e.ratioTo(f.entry(g.baseEntry))
				good = got >= g.atLeast
				v.measured = fmt.Sprintf("%.2f", got)
			}
			if !good {
				v.measured = "**" + v.measured + "**"
			}
			if last := len(out) - 1; g.description == "" && last >= 0 {
				out[last].goal = strings.TrimSuffix(out[last].goal, g.unit) + ", " + strings.TrimPrefix(strings.TrimPrefix(v.goal, "≤ "), "≥ ")
				out[last].measured = strings.TrimSuffix(out[last].measured, g.unit) + ", " + v.measured
				continue
			}
			out = append(out, v)
		}
	}
	return out
}
