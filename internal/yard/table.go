package main

import (
	"fmt"
	"slices"
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

// column is a column of a table: the median of a value.
type column struct {
	name  string
	form  string
	value func(result) float64
	modes []string // modes in which the column says something; nil is all
}

func columns() []column {
	lanes, memory := []string{"order", "handover"}, []string{"memory"}
	var allocs []column
	for i, s := range stages {
		allocs = append(allocs, column{s.name, "%.1f", func(r result) float64 { return r.Stages[i] }, []string{"stages"}})
	}
	return append(allocs, []column{
		{"/s", "%.0f", func(r result) float64 { return r.Rate }, nil},
		{"p50 ms", "%.0f", func(r result) float64 { return r.P50 }, nil},
		{"p99 ms", "%.0f", func(r result) float64 { return r.P99 }, nil},
		{"hand p50", "%.1f", func(r result) float64 { return r.Hand50 }, lanes},
		{"hand p99", "%.1f", func(r result) float64 { return r.Hand99 }, lanes},
		{"next p50", "%.1f", func(r result) float64 { return r.Next50 }, lanes},
		{"next p99", "%.1f", func(r result) float64 { return r.Next99 }, lanes},
		{"client", "%.2f", func(r result) float64 { return r.CPU.Client }, nil},
		{"postgres", "%.2f", func(r result) float64 { return r.CPU.Postgres }, nil},
		{"ledger", "%.2f", func(r result) float64 { return r.CPU.Ledger }, nil},
		{"machine", "%.2f", func(r result) float64 { return r.CPU.Machine }, nil},
		{"CPU µs", "%.1f", func(r result) float64 { return r.work() }, nil},
		{"statements", "%.3f", func(r result) float64 { return r.Statements }, nil},
		{"trips", "%.3f", func(r result) float64 { return r.Trips }, nil},
		{"WAL B", "%.0f", func(r result) float64 { return r.WAL }, nil},
		{"HOT", "%.2f", func(r result) float64 { return r.HOT }, nil},
		{"posts", "%.3f", func(r result) float64 { return r.Posts }, nil},
		{"asks", "%.3f", func(r result) float64 { return r.Asks }, nil},
		{"allocs", "%.1f", func(r result) float64 { return r.Allocs }, nil},
		{"alloc B", "%.0f", func(r result) float64 { return r.AllocBytes }, nil},
		{"RSS, a fifth", "%.0f", func(r result) float64 { return r.FirstRSS }, memory},
		{"RSS MiB", "%.0f", func(r result) float64 { return r.PeakRSS }, nil},
	}...)
}

// lines returns a head and a line for each entry. A value that does not apply is empty, and a
// column that applies nowhere is left out.
func (f *figures) lines() [][]string {
	out := make([][]string, 1+len(f.Entries))
	counted := f.Mode == "stages" // counting takes so much time that rates say nothing
	out[0] = []string{""}
	for i, e := range f.Entries {
		out[1+i] = []string{e.Label}
	}
	if !counted {
		out[0] = append(out[0], "ratio")
		for i := range f.Entries {
			out[1+i] = append(out[1+i], fmt.Sprintf("%.2f", f.Entries[i].ratioTo(&f.Entries[0])))
		}
	}
	for _, c := range columns() {
		says := func(e measured) bool { return c.value(e.Median) != 0 }
		applies := slices.Contains(c.modes, f.Mode) || c.modes == nil && (!counted || strings.HasPrefix(c.name, "alloc"))
		if !applies || !slices.ContainsFunc(f.Entries, says) {
			continue
		}
		out[0] = append(out[0], c.name)
		for i, e := range f.Entries {
			text := ""
			if says(e) {
				text = fmt.Sprintf(c.form, c.value(e.Median))
			}
			out[1+i] = append(out[1+i], text)
		}
	}
	return out
}
