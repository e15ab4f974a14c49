package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/examples/internal/demo"
)

// progress observes the Runner and shows its progress.
type progress struct {
	calls chan batch.Event // events for the person

	mu       sync.Mutex
	screen   demo.Line
	start    time.Time
	want     int
	claimed  map[batch.ID]bool
	final    map[batch.ID]bool
	doubtful map[batch.ID]bool // batches in doubt now
	lost     int               // attempts whose answer was lost, or whose batch the node forgot
	adopted  int               // those of lost whose batch was found on the ledger, or on its way
	resent   int               // those of lost that were proved to have had no effect
	asked    int
}

func newProgress(out io.Writer, live bool, want int) *progress {
	return &progress{
		screen: demo.Line{Out: out, Live: live, Every: 2 * time.Second}, calls: make(chan batch.Event, want), start: time.Now(), want: want,
		claimed: map[batch.ID]bool{}, final: map[batch.ID]bool{}, doubtful: map[batch.ID]bool{},
	}
}

// Observe implements batch.Observer.
func (p *progress) Observe(_ context.Context, e batch.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := e.Key.ID
	switch {
	case e.Kind == batch.EventClaimed:
		p.claimed[id] = true
	case e.Kind == batch.EventInDoubt && !p.doubtful[id]:
		p.doubtful[id] = true
		p.lost++
	case e.Kind == batch.EventDecision:
		select {
		case p.calls <- e:
		default: // the person also finds it in Record.Decision
		}
	case e.Kind == batch.EventFinal:
		p.final[id] = true
		p.settle(id)
	case e.Kind == batch.EventState && e.State == batch.Unknown: // on this ledger Unknown needs proof
		p.resent++
		delete(p.doubtful, id)
	case e.Kind == batch.EventState && (e.State == batch.Pending || e.State == batch.Valid):
		p.settle(id)
	}
}

// settle ends a doubt because the ledger has the batch.
func (p *progress) settle(id batch.ID) {
	if p.doubtful[id] {
		p.adopted++
		delete(p.doubtful, id)
	}
}

// decided records a person's decision.
func (p *progress) decided(k batch.Key, to batch.State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	delete(p.doubtful, k.ID)
	if to == batch.Committed {
		p.final[k.ID] = true
	}
}

// say prints a line that stays.
func (p *progress) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.screen.Say(time.Since(p.start), format, args...)
}

func (p *progress) finals() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.final)
}

// refresh shows the present state, and end leaves the last state on the screen.
func (p *progress) refresh() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.screen.Refresh(p.line())
}

func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.screen.End(p.line())
}

// line returns the text of the progress line. p.mu is held.
func (p *progress) line() string {
	const width = 40
	full := width * len(p.final) / max(1, p.want)
	return fmt.Sprintf("[%s%s] %4d of %d final, %2d under way, %2d in doubt  %4.1f s",
		strings.Repeat("#", full), strings.Repeat(".", max(0, width-full)),
		len(p.final), p.want, len(p.claimed)-len(p.final), len(p.doubtful), time.Since(p.start).Seconds())
}

func (p *progress) table(rolledBack int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	elapsed := time.Since(p.start)
	out := p.screen.Out
	fmt.Fprintf(out, "\n  %d batches in %.1f s, %.0f a second\n\n", len(p.final), elapsed.Seconds(), float64(len(p.final))/elapsed.Seconds())
	for _, row := range [...]struct {
		name  string
		count int
		means string
	}{
		{"in doubt", p.lost, "the answer of a POST was lost"},
		{"rolled back", rolledBack, "two services of a circuit proposed at once"},
		{"adopted", p.adopted, "found: it had arrived"},
		{"sent again", p.resent, "proved: it had no effect, and never will have"},
		{"decided", p.asked, "nothing could be proved: a person looked"},
	} {
		fmt.Fprintf(out, "  %-12s %4d   %s\n", row.name, row.count, row.means)
	}
}
