package main

import "fmt"

// goal is a figure to reach: a ratio of the rates of two entries in one run, a value of one
// entry, or the ratio of a value of one entry to the same value of the other, or, if beyond is
// set, the difference.
type goal struct {
	measure     string
	mode        string
	entry, base string
	value       func(result) float64
	beyond      bool
	least, most float64
	unit        string
}

// goals are the goals that this program measures.
func goals() []goal {
	all := []goal{
		{measure: "PostgreSQL with pgx's own pool, Serial over 10,000 lanes, of the floor", mode: "throughput", entry: ours, base: floor, least: 0.75},
		{measure: "the same, of the tuned job queue", mode: "throughput", entry: ours, base: tuned, least: 2},
		{measure: "PostgreSQL with pgx's own pool, Pipelined over 100 lanes, of the floor", mode: "throughput", entry: pipelined, base: floor, least: 0.75},
		{measure: "the same, of the tuned job queue", mode: "throughput", entry: pipelined, base: tuned, least: 2},
		{measure: "PostgreSQL with lib/pq, Serial over 10,000 lanes, of the floor", mode: "throughput-pq", entry: ours, base: floor, least: 0.6},
		{measure: "PostgreSQL with lib/pq, Pipelined over 100 lanes, of the floor", mode: "throughput-pq", entry: pipelined, base: floor, least: 0.6},
		{measure: "SQLite, Serial over 10,000 lanes, of its floor", mode: "throughput-sqlite", entry: ours, base: floor, least: 0.75},
		{measure: "SQLite, Pipelined over 100 lanes, of its floor", mode: "throughput-sqlite", entry: pipelined, base: floor, least: 0.6},
		{measure: "Log of a batch, Serial over 10,000 lanes, pgx's own pool", mode: "throughput", entry: ours, value: func(r result) float64 { return r.WAL }, most: 2600, unit: " B"},
		{measure: "Memory with 1,000,000 waiting", mode: "backlog", entry: million, value: func(r result) float64 { return r.PeakRSS }, most: 64, unit: " MiB"},
		{measure: "A held snapshot: rate, of that without", mode: "held", entry: ours + isHeld, base: ours, least: 0.9},
		{measure: "the same, p50", mode: "held", entry: ours + isHeld, base: ours, value: func(r result) float64 { return r.P50 }, most: 1.2},
		{measure: "the same, p99", mode: "held", entry: ours + isHeld, base: ours, value: func(r result) float64 { return r.P99 }, most: 2},
	}
	for _, label := range []string{ownPool, overPgx, overPQ, pooled, onSQLite} {
		all = append(all,
			goal{measure: label + ", between two processes: from the return of Add to the POST, p50", mode: "latency", entry: label + apart, value: func(r result) float64 { return r.Hand50 }, most: 5, unit: " ms"},
			goal{measure: "the same, p99", mode: "latency", entry: label + apart, value: func(r result) float64 { return r.Hand99 }, most: 50, unit: " ms"},
			goal{measure: "until the answer of Await, p50, beyond that in one process", mode: "latency", entry: label + apart, base: label + together, beyond: true, value: func(r result) float64 { return r.Answer50 }, most: 5, unit: " ms"},
		)
	}
	return append(all,
		goal{measure: onSQLite + ", four processes that add: from the return of Add to the POST, p50", mode: "latency", entry: onSQLite + fourApart, value: func(r result) float64 { return r.Hand50 }, most: 5, unit: " ms"},
		goal{measure: "the same, p99", mode: "latency", entry: onSQLite + fourApart, value: func(r result) float64 { return r.Hand99 }, most: 50, unit: " ms"},
		goal{measure: "until the answer of Await, p50, beyond that in one process", mode: "latency", entry: onSQLite + fourApart, base: onSQLite + together, beyond: true, value: func(r result) float64 { return r.Answer50 }, most: 5, unit: " ms"},
		goal{measure: ownPool + ", between two processes: from Add to the POST, p50, of the tuned job queue's", mode: "latency", entry: ownPool + apart, base: tuned + apart, value: func(r result) float64 { return r.Post50 }, most: 1},
		goal{measure: "the same, p90", mode: "latency", entry: ownPool + apart, base: tuned + apart, value: func(r result) float64 { return r.Post90 }, most: 1},
	)
}

// verdict is a line of the table of goals.
type verdict struct{ measure, want, got string }

// reached returns a verdict for each goal whose entries were measured.
func (p page) reached() (out []verdict) {
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
			case g.beyond:
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
			out = append(out, v)
		}
	}
	return out
}
