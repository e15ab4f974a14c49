package main

import "fmt"

// goal is a figure to reach: a ratio of the rates of two entries in one run, a value of one
// entry, or the ratio of a value of one entry to the same value of the other.
type goal struct {
	measure     string
	mode        string
	entry, base string
	value       func(result) float64
	least, most float64
	unit        string
}

// goals are the goals that this program measures.
func goals() []goal {
	all := []goal{
		{measure: "PostgreSQL with pgx's own pool, Serial over 10,000 lanes, of the floor", mode: "native", entry: ours, base: floor, least: 0.75},
		{measure: "the same, of the tuned job queue", mode: "native", entry: ours, base: "river tuned", least: 2},
		{measure: "PostgreSQL with pgx's own pool, Pipelined over 100 lanes, of the floor", mode: "native", entry: pipelined, base: floor, least: 0.75},
		{measure: "the same, of the tuned job queue", mode: "native", entry: pipelined, base: "river tuned", least: 2},
		{measure: "PostgreSQL with lib/pq, Serial over 10,000 lanes, of the floor", mode: "pq", entry: ours, base: floor, least: 0.6},
		{measure: "PostgreSQL with lib/pq, Pipelined over 100 lanes, of the floor", mode: "pq", entry: pipelined, base: floor, least: 0.6},
		{measure: "SQLite FULL, Serial over 10,000 lanes, of its floor", mode: "sqlite-full", entry: ours, base: floor, least: 0.75},
		{measure: "SQLite FULL, Pipelined over 100 lanes, of its floor", mode: "sqlite-full", entry: pipelined, base: floor, least: 0.6},
		{measure: "Burst after idling, of warm, pgx", mode: "burst", entry: "ours, after idling", base: "ours, warm", least: 0.9},
		{measure: "Burst after idling, of warm, lib/pq", mode: "burst", entry: "ours with lib/pq, after idling", base: "ours with lib/pq, warm", least: 0.9},
		{measure: "Lists of up to 100 batches a POST, of the floor of single ones", mode: "lists", entry: "ours, lists", base: floor, least: 1},
		{measure: "100,000 lanes of one, of 100 lanes", mode: "lanes", entry: "100,000 lanes of one", base: "100 lanes", least: 0.5},
		{measure: "Three instances, of one", mode: "instances", entry: "three", base: "one", least: 0.95},
		{measure: "Log of a batch, Serial over 10,000 lanes, pgx's own pool", mode: "native", entry: ours, value: func(r result) float64 { return r.WAL }, most: 2600, unit: " B"},
		{measure: "Commit to next POST over 100 lanes, p50", mode: "order", entry: "ours, Serial, events", value: func(r result) float64 { return r.Hand50 }, most: 10, unit: " ms"},
		{measure: "Commit to next POST at half of the rate, 100 lanes, p50", mode: "handover", entry: "half of it, events", value: func(r result) float64 { return r.Hand50 }, most: 10, unit: " ms"},
		{measure: "Commit to next POST at half of the rate, 100 lanes, p99", mode: "handover", entry: "half of it, events", value: func(r result) float64 { return r.Hand99 }, most: 50, unit: " ms"},
		{measure: "Commit to next POST at half of the rate, 10,000 lanes, p50", mode: "handover", entry: "half of it, 10,000 lanes, events", value: func(r result) float64 { return r.Hand50 }, most: 10, unit: " ms"},
		{measure: "Commit to next POST at half of the rate, 10,000 lanes, p99", mode: "handover", entry: "half of it, 10,000 lanes, events", value: func(r result) float64 { return r.Hand99 }, most: 50, unit: " ms"},
		{measure: "Memory with 1,000,000 waiting", mode: "memory", entry: "1,000,000 waiting", value: func(r result) float64 { return r.PeakRSS }, most: 64, unit: " MiB"},
	}
	for _, m := range [...]struct{ mode, what string }{
		{"held", "A held snapshot, 10,000 lanes"}, {"held-400", "A held snapshot, 400 lanes"}, {"held-parallel", "A held snapshot, Parallel"},
		{"held-pq", "A held snapshot, lib/pq"}, {"held-elsewhere", "A writer elsewhere"}, {"held-novacuum", "No autovacuum"}, {"held-bloated", "Bloated before"},
	} {
		all = append(all,
			goal{measure: m.what + ": rate, of that without", mode: m.mode, entry: with, base: without, least: 0.9},
			goal{measure: "the same, p50", mode: m.mode, entry: with, base: without, value: func(r result) float64 { return r.P50 }, most: 1.2},
			goal{measure: "the same, p99", mode: m.mode, entry: with, base: without, value: func(r result) float64 { return r.P99 }, most: 2})
	}
	return all
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
