package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// modeFigures has the results of a mode's entries.
type modeFigures struct {
	Mode    string         `json:"mode"`
	Title   string         `json:"title"`
	Machine string         `json:"machine"`
	Date    time.Time      `json:"date"`
	Entries []entryFigures `json:"entries"`
}

// entryFigures is the result of one entry: its rate in each round, and the median of each of its
// other figures.
type entryFigures struct {
	Label  string    `json:"label"`
	Rates  []float64 `json:"rates"`
	Median result    `json:"median"`

	rounds []result
}

func (e *entryFigures) add(r result) {
	e.rounds = append(e.rounds, r)
	e.Rates = append(e.Rates, r.Rate)
	for i, v := range e.Median.fields() {
		*v = median(e.rounds, func(r result) float64 { return *r.fields()[i] })
	}
}

// ratioTo returns the median over the rounds of the ratio of the two rates, because a disturbance
// in a round affects all entries of that round.
func (e *entryFigures) ratioTo(base *entryFigures) float64 {
	var ratios []float64
	for i, r := range e.Rates {
		if i < len(base.Rates) && base.Rates[i] > 0 {
			ratios = append(ratios, r/base.Rates[i])
		}
	}
	return median(ratios, func(x float64) float64 { return x })
}

// entry returns the entry with this label, or nil.
func (f *modeFigures) entry(label string) *entryFigures {
	for i := range f.Entries {
		if f.Entries[i].Label == label {
			return &f.Entries[i]
		}
	}
	return nil
}

// aboutMachine describes the machine and the server on which the figures were measured.
func aboutMachine(server string) string {
	cpu := ""
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if _, rest, ok := strings.Cut(string(b), "model name"); ok {
			line, _, _ := strings.Cut(rest, "\n")
			cpu = " of " + strings.TrimSpace(strings.TrimLeft(line, " \t:"))
		}
	}
	return fmt.Sprintf("%d cores%s, %s, %s", runtime.NumCPU(), cpu, runtime.Version(), server)
}
