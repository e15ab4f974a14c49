package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/examples/internal/demo"
)

// progress observes the Runner and shows its progress.
type progress struct {
	screen demo.Line

	mu      sync.Mutex
	start   time.Time
	want    int
	claimed map[batch.ID]time.Time
	took    []time.Duration // times from the first claim to the outcome
	states  map[batch.State]int
	resent  int
}

func newProgress(out io.Writer, live bool) *progress {
	return &progress{screen: demo.Line{Out: out, Live: live, Every: time.Second}, start: time.Now(), claimed: map[batch.ID]time.Time{}, states: map[batch.State]int{}}
}

func (p *progress) expect(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.want, p.start = n, time.Now()
}

// Observe implements batch.Observer.
func (p *progress) Observe(_ context.Context, e batch.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e.Kind {
	case batch.EventClaimed:
		if _, again := p.claimed[e.Key.ID]; !again {
			p.claimed[e.Key.ID] = e.At
		} else {
			p.resent++
		}
	case batch.EventFinal:
		p.states[e.State]++
		p.took = append(p.took, e.At.Sub(p.claimed[e.Key.ID]))
	}
}

func (p *progress) finals() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.took)
}

// refresh shows the present state, and end leaves the last state on the screen.
func (p *progress) refresh() { p.screen.Refresh(p.line()) }
func (p *progress) end()     { p.screen.End(p.line()) }

func (p *progress) say(what string) {
	p.screen.Say(time.Since(p.start), "%s", what)
}

func (p *progress) line() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	const width = 40
	full := width * len(p.took) / max(1, p.want)
	return fmt.Sprintf("[%s%s] %4d of %d final, %3d under way  %4.1f s",
		strings.Repeat("#", full), strings.Repeat(".", max(0, width-full)),
		len(p.took), p.want, len(p.claimed)-len(p.took), time.Since(p.start).Seconds())
}

func (p *progress) table() {
	p.mu.Lock()
	defer p.mu.Unlock()
	elapsed := time.Since(p.start)
	slices.Sort(p.took)
	at := func(q float64) time.Duration {
		if len(p.took) == 0 {
			return 0
		}
		return p.took[int(q*float64(len(p.took)-1))].Round(time.Millisecond)
	}
	w := p.screen.Out
	fmt.Fprintln(w)
	for _, s := range batch.States() {
		if n := p.states[s]; n > 0 {
			fmt.Fprintf(w, "  %-12s %6d\n", s, n)
		}
	}
	fmt.Fprintf(w, "  %-12s %6d\n", "sent again", p.resent)
	fmt.Fprintf(w, "  %-12s %6.0f batches/s\n", "throughput", float64(len(p.took))/elapsed.Seconds())
	fmt.Fprintf(w, "  %-12s %6s p50, %s p99 (from the first attempt to the outcome)\n", "latency", at(.5), at(.99))
}
