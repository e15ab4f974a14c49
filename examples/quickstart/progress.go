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
	screen demo.StatusLine

	mu            sync.Mutex
	start         time.Time
	batchCount    int
	claimedAt     map[batch.ID]time.Time
	durations     []time.Duration // times from the first claim to the outcome
	finalsByState map[batch.State]int
	resentCount   int
}

func newProgress(out io.Writer, live bool) *progress {
	return &progress{screen: demo.StatusLine{Out: out, IsTerminal: live, Interval: time.Second}, start: time.Now(), claimedAt: map[batch.ID]time.Time{}, finalsByState: map[batch.State]int{}}
}

func (p *progress) setBatchCount(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.batchCount, p.start = n, time.Now()
}

// Observe implements batch.Observer.
func (p *progress) Observe(_ context.Context, e batch.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e.Kind {
	case batch.EventClaimed:
		if _, again := p.claimedAt[e.Key.ID]; !again {
			p.claimedAt[e.Key.ID] = e.At
		} else {
			p.resentCount++
		}
	case batch.EventFinal:
		p.finalsByState[e.State]++
		p.durations = append(p.durations, e.At.Sub(p.claimedAt[e.Key.ID]))
	}
}

func (p *progress) finalCount() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.durations)
}

// refresh shows the present state, and end leaves the last state on the screen.
func (p *progress) refresh() { p.screen.Refresh(p.statusLine()) }
func (p *progress) end()     { p.screen.End(p.statusLine()) }

func (p *progress) printLine(what string) {
	p.screen.Say(time.Since(p.start), "%s", what)
}

func (p *progress) statusLine() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	const width = 40
	full := width * len(p.durations) / max(1, p.batchCount)
	return fmt.Sprintf("[%s%s] %4d of %d final, %3d under way  %4.1f s",
		strings.Repeat("#", full), strings.Repeat(".", max(0, width-full)),
		len(p.durations), p.batchCount, len(p.claimedAt)-len(p.durations), time.Since(p.start).Seconds())
}

func (p *progress) printTable() {
	p.mu.Lock()
	defer p.mu.Unlock()
	elapsed := time.Since(p.start)
	slices.Sort(p.durations)
	at := func(q float64) time.Duration {
		if len(p.durations) == 0 {
			return 0
		}
		return p.durations[int(q*float64(len(p.durations)-1))].Round(time.Millisecond)
	}
	w := p.screen.Out
	fmt.Fprintln(w)
	for _, s := range batch.States() {
		if n := p.finalsByState[s]; n > 0 {
			fmt.Fprintf(w, "  %-12s %6d\n", s, n)
		}
	}
	fmt.Fprintf(w, "  %-12s %6d\n", "sent again", p.resentCount)
	fmt.Fprintf(w, "  %-12s %6.0f batches/s\n", "throughput", float64(len(p.durations))/elapsed.Seconds())
	fmt.Fprintf(w, "  %-12s %6s p50, %s p99 (from the first attempt to the outcome)\n", "latency", at(.5), at(.99))
}
