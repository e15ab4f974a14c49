package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// figures are what the entries of a mode have reached.
type figures struct {
	Mode    string     `json:"mode"`
	Title   string     `json:"title"`
	Machine string     `json:"machine"`
	Date    time.Time  `json:"date"`
	Entries []measured `json:"entries"`
}

// measured is what an entry has reached: its rate in each round, and the median of
// each of its figures.
type measured struct {
	Label  string    `json:"label"`
	Rates  []float64 `json:"rates"`
	Median result    `json:"median"`

	rounds []result
}

func (e *measured) add(r result) {
	e.rounds = append(e.rounds, r)
	e.Rates = append(e.Rates, r.Rate)
	for i, v := range e.Median.fields() {
		*v = median(e.rounds, func(r result) float64 { return *r.fields()[i] })
	}
}

// ratioTo is the median of the ratios of the rounds, since what disturbs a round
// disturbs all who take part in it.
func (e *measured) ratioTo(base *measured) float64 {
	var ratios []float64
	for i, r := range e.Rates {
		if i < len(base.Rates) && base.Rates[i] > 0 {
			ratios = append(ratios, r/base.Rates[i])
		}
	}
	return median(ratios, func(x float64) float64 { return x })
}

// entry is the one of that label; nil where there is none.
func (f *figures) entry(label string) *measured {
	for i := range f.Entries {
		if f.Entries[i].Label == label {
			return &f.Entries[i]
		}
	}
	return nil
}

// aboutMachine says on what figures were taken.
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
