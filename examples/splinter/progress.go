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
	decisionEvents chan batch.Event // events for the person

	mu            sync.Mutex
	screen        demo.StatusLine
	start         time.Time
	batchCount    int
	wasClaimed    map[batch.ID]bool
	isFinal       map[batch.ID]bool
	isDoubtful    map[batch.ID]bool // batches in doubt now
	doubtCount    int               // attempts whose answer was lost, or whose batch the node forgot
	foundCount    int               // those of lost whose batch was found on the ledger, or on its way
	resentCount   int               // those of lost that were proved to have had no effect
	decisionCount int
}

func newProgress(out io.Writer, live bool, want int) *progress {
	return &progress{
		screen: demo.StatusLine{Out: out, IsTerminal: live, Interval: 2 * time.Second}, decisionEvents: make(chan batch.Event, want), start: time.Now(), batchCount: want,
		wasClaimed: map[batch.ID]bool{}, isFinal: map[batch.ID]bool{}, isDoubtful: map[batch.ID]bool{},
	}
}

// Observe implements batch.Observer.
func (p *progress) Observe(_ context.Context, e batch.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := e.Key.ID
	switch {
	case e.Kind == batch.EventClaimed:
		p.wasClaimed[id] = true
	case e.Kind == batch.EventInDoubt && !p.isDoubtful[id]:
		p.isDoubtful[id] = true
		p.doubtCount++
	case e.Kind == batch.EventDecision:
		select {
		case p.decisionEvents <- e:
		default: // the person also finds it in Record.Decision
		}
	case e.Kind == batch.EventFinal:
		p.isFinal[id] = true
		p.endDoubt(id)
	case e.Kind == batch.EventState && e.State == batch.Unknown: // on this ledger Unknown needs proof
		p.resentCount++
		delete(p.isDoubtful, id)
	case e.Kind == batch.EventState && (e.State == batch.Pending || e.State == batch.Valid):
		p.endDoubt(id)
	}
}

// endDoubt ends a doubt because the ledger has the batch.
func (p *progress) endDoubt(id batch.ID) {
	if p.isDoubtful[id] {
		p.foundCount++
		delete(p.isDoubtful, id)
	}
}

// noteDecision records a person's decision.
func (p *progress) noteDecision(k batch.Key, to batch.State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.decisionCount++
	delete(p.isDoubtful, k.ID)
	if to == batch.Committed {
		p.isFinal[k.ID] = true
	}
}

// printLine prints a line that is not overwritten.
func (p *progress) printLine(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.screen.Say(time.Since(p.start), format, args...)
}

func (p *progress) finalCount() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.isFinal)
}

// refresh shows the present state, and end leaves the last state on the screen.
func (p *progress) refresh() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.screen.Refresh(p.statusLine())
}

func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.screen.End(p.statusLine())
}

// statusLine returns the text of the progress line. p.mu is held.
func (p *progress) statusLine() string {
	const width = 40
	full := width * len(p.isFinal) / max(1, p.batchCount)
	return fmt.Sprintf("[%s%s] %4d of %d final, %2d under way, %2d in doubt  %4.1f s",
		strings.Repeat("#", full), strings.Repeat(".", max(0, width-full)),
		len(p.isFinal), p.batchCount, len(p.wasClaimed)-len(p.isFinal), len(p.isDoubtful), time.Since(p.start).Seconds())
}

func (p *progress) printTable(rolledBack int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	elapsed := time.Since(p.start)
	out := p.screen.Out
	fmt.Fprintf(out, "\n  %d batches in %.1f s, %.0f a second\n\n", len(p.isFinal), elapsed.Seconds(), float64(len(p.isFinal))/elapsed.Seconds())
	for _, row := range [...]struct {
		name  string
		count int
		means string
	}{
		{"in doubt", p.doubtCount, "the answer of a POST was lost"},
		{"rolled back", rolledBack, "two services of a circuit proposed at once"},
		{"adopted", p.foundCount, "found: it had arrived"},
		{"sent again", p.resentCount, "proved: it had no effect, and never will have"},
		{"decided", p.decisionCount, "nothing could be proved: a person looked"},
	} {
		fmt.Fprintf(out, "  %-12s %4d   %s\n", row.name, row.count, row.means)
	}
}
