package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

// text returns the figures as a table for a terminal.
func (f *modeFigures) text() string {
	var s strings.Builder
	fmt.Fprintf(&s, "\n%s: %s; medians of %d\n", f.Mode, f.Title, len(f.Entries[0].Rates))
	w := tabwriter.NewWriter(&s, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, line := range f.lines() {
		fmt.Fprintln(w, strings.Join(line, "\t")+"\t")
	}
	_ = w.Flush() // a strings.Builder returns no error
	s.WriteByte('\n')
	return s.String()
}

// column is a column of a table: how it is headed, and which value it shows the median of.
type column struct {
	title  string
	format string
	value  func(result) float64
}

func columnsOf(mode string) []column {
	if mode == "latency" { // the cost of an idle queue is left out
		return []column{
			{"Add p50 ms", "%.1f", func(r result) float64 { return r.Add50 }},
			{"POST p50", "%.1f", func(r result) float64 { return r.Post50 }},
			{"p90", "%.1f", func(r result) float64 { return r.Post90 }},
			{"p99", "%.1f", func(r result) float64 { return r.Post99 }},
			{"max", "%.1f", func(r result) float64 { return r.PostMax }},
			{"answer p50", "%.1f", func(r result) float64 { return r.Answer50 }},
			{"p90", "%.1f", func(r result) float64 { return r.Answer90 }},
			{"p99", "%.1f", func(r result) float64 { return r.Answer99 }},
			{"max", "%.1f", func(r result) float64 { return r.AnswerMax }},
		}
	}
	return []column{
		{"/s", "%.0f", func(r result) float64 { return r.Rate }},
		{"p50 ms", "%.0f", func(r result) float64 { return r.P50 }},
		{"p99 ms", "%.0f", func(r result) float64 { return r.P99 }},
		{"CPU µs", "%.1f", func(r result) float64 { return r.workMicroseconds() }},
		{"trips", "%.3f", func(r result) float64 { return r.RoundTrips }},
		{"WAL B", "%.0f", func(r result) float64 { return r.WAL }},
		{"allocs", "%.1f", func(r result) float64 { return r.Allocs }},
		{"RSS MiB", "%.0f", func(r result) float64 { return r.PeakRSS }},
	}
}

// lines returns a head line and a line for each entry. A value that does not apply is empty, and a
// column that applies to no entry is left out.
func (f *modeFigures) lines() [][]string {
	out := make([][]string, 1+len(f.Entries))
	out[0] = []string{""}
	for i, e := range f.Entries {
		out[1+i] = []string{e.Label}
	}
	if f.Mode != "latency" {
		out[0] = append(out[0], "ratio")
		for i := range f.Entries {
			out[1+i] = append(out[1+i], fmt.Sprintf("%.2f", f.Entries[i].ratioTo(&f.Entries[0])))
		}
	}
	for _, c := range columnsOf(f.Mode) {
		says := func(e entryFigures) bool { return c.value(e.Median) != 0 }
		if !slices.ContainsFunc(f.Entries, says) {
			continue
		}
		out[0] = append(out[0], c.title)
		for i, e := range f.Entries {
			text := ""
			if says(e) {
				text = fmt.Sprintf(c.format, c.value(e.Median))
			}
			out[1+i] = append(out[1+i], text)
		}
	}
	return out
}
