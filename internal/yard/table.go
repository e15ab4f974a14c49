package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// text is a table for people at a terminal.
func (f *figures) text() string {
	var s strings.Builder
	fmt.Fprintf(&s, "\n%s: %s; medians of %d\n", f.Mode, f.Title, len(f.Entries[0].Rates))
	w := tabwriter.NewWriter(&s, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, line := range f.lines() {
		fmt.Fprintln(w, strings.Join(line, "\t")+"\t")
	}
	_ = w.Flush() // into a strings.Builder
	s.WriteByte('\n')
	return s.String()
}

// column is one of a table: of the median of a value.
type column struct {
	name  string
	form  string
	value func(result) float64
}

var columns = []column{
	{"/s", "%.0f", func(r result) float64 { return r.Rate }},
	{"p50 ms", "%.0f", func(r result) float64 { return r.P50 }},
	{"p99 ms", "%.0f", func(r result) float64 { return r.P99 }},
	{"hand p50", "%.1f", func(r result) float64 { return r.Hand50 }},
	{"hand p99", "%.1f", func(r result) float64 { return r.Hand99 }},
	{"next p50", "%.1f", func(r result) float64 { return r.Next50 }},
	{"next p99", "%.1f", func(r result) float64 { return r.Next99 }},
	{"client", "%.2f", func(r result) float64 { return r.CPU.Client }},
	{"postgres", "%.2f", func(r result) float64 { return r.CPU.Postgres }},
	{"ledger", "%.2f", func(r result) float64 { return r.CPU.Ledger }},
	{"statements", "%.3f", func(r result) float64 { return r.Statements }},
	{"trips", "%.3f", func(r result) float64 { return r.Trips }},
	{"WAL B", "%.0f", func(r result) float64 { return r.WAL }},
	{"asks", "%.3f", func(r result) float64 { return r.Asks }},
	{"allocs", "%.1f", func(r result) float64 { return r.Allocs }},
	{"alloc B", "%.0f", func(r result) float64 { return r.AllocBytes }},
	{"RSS MiB", "%.0f", func(r result) float64 { return r.PeakRSS }},
}

// lines are a head and a line for each entry.
func (f *figures) lines() [][]string {
	head := []string{"", "ratio"}
	for _, c := range columns {
		head = append(head, c.name)
	}
	out := [][]string{head}
	for i := range f.Entries {
		e := &f.Entries[i]
		line := []string{e.Label, fmt.Sprintf("%.2f", e.ratioTo(&f.Entries[0]))}
		for _, c := range columns {
			line = append(line, fmt.Sprintf(c.form, c.value(e.Median)))
		}
		out = append(out, line)
	}
	return out
}
