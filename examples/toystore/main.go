// Toystore shows how to write a store for a database that dltbatch does not know: the store is
// store.go, in maps instead of a database, and it has only the methods without which no batch is
// delivered. It passes the suite store/storetest. This program delivers batches from it to a
// ledger in memory that executes duplicates, is busy now and then, and loses answers.
// docs/stores.md is the manual that goes with it.
//
//	go run ./examples/toystore
//	go test -v -run TestStore ./examples/toystore    (the suite, and the cases that it skips)
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/examples/internal/demo"
	"github.com/dltbatch/dltbatch/store"
)

const usageText = `Toystore delivers batches from a store in maps to a ledger in memory that is busy now and then, and
loses answers. Its store.go shows how to write a store.

usage: go run ./examples/toystore [flags]
`

func main() {
	batches := flag.Int("n", 12, "batches")
	services := flag.Int("services", 3, "services, each a lane of its own")
	flag.Usage = func() { fmt.Fprint(flag.CommandLine.Output(), usageText); flag.PrintDefaults() }
	flag.Parse()
	demo.Main("toystore", func(ctx context.Context, out io.Writer, _ bool) error { return run(ctx, out, *batches, *services) })
}

func run(ctx context.Context, w io.Writer, batches, services int) error {
	if batches < 1 || services < 1 {
		return errors.New("-n and -services want at least 1")
	}
	st := New()
	if err := printMissingAbilities(w, st); err != nil {
		return err
	}

	ledger := memory.New(&memory.Options{
		CommitAfter: 20 * time.Millisecond,
		Fault:       memory.Faults{Seed: 7, Busy: 0.1, LostReply: 0.1, LostRequest: 0.1, LastAttempt: 1}.Fault,
	})
	reporter := &statePrinter{out: w}
	runner, err := dltbatch.New(st, ledger, &dltbatch.Options{Observer: reporter})
	if err != nil {
		return err
	}
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(running) }()

	fmt.Fprintf(w, "\n%d batches of %d services; the ledger is busy, or loses a request or an answer, now and then:\n\n", batches, services)
	var all []batch.Batch
	order := map[batch.ServiceID][]batch.ID{}
	for i := range batches {
		b := batch.Batch{
			Service: batch.ServiceID(fmt.Sprintf("service-%d", i%services+1)), ID: batch.ID(fmt.Sprintf("batch-%02d", i+1)),
			Payload: fmt.Appendf(nil, "transfer %d", i+1),
		}
		all = append(all, b)
		order[b.Service] = append(order[b.Service], b.ID)
	}
	if err := runner.Add(ctx, all...); err != nil {
		return err
	}
	states := map[batch.State]int{}
	for _, b := range all {
		rec, err := runner.Await(ctx, b.Key())
		if err != nil {
			return err
		}
		states[rec.State]++
	}
	cancel()
	if err := <-ended; err != nil {
		return err
	}
	if err := ledger.Verify(order); err != nil {
		return err
	}
	fmt.Fprintf(w, "\n%d of %d batches are committed, each once and in order: so says the ledger's journal\n", states[batch.Committed], batches)
	return nil
}

// printMissingAbilities prints the abilities that a store lacks, and what is lost without each.
func printMissingAbilities(w io.Writer, st store.Store) error {
	fmt.Fprintf(w, "the store has the methods that deliver a batch; it does without\n\n")
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, l := range st.Abilities().Losses() {
		name := l.Ability.String()
		for _, line := range wrapWords(l.Text, 70) {
			fmt.Fprintf(table, "  %s\t%s\n", name, line)
			name = ""
		}
	}
	return table.Flush()
}

// wrapWords breaks a text into lines of at most width bytes.
func wrapWords(text string, width int) (lines []string) {
	for word := range strings.FieldsSeq(text) {
		if last := len(lines) - 1; last >= 0 && len(lines[last])+1+len(word) <= width {
			lines[last] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return lines
}

// statePrinter prints each new state of a batch.
type statePrinter struct {
	mu  sync.Mutex
	out io.Writer
}

// Observe implements [batch.Observer].
func (r *statePrinter) Observe(_ context.Context, e batch.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch e.Kind {
	case batch.EventInDoubt:
		fmt.Fprintf(r.out, "  %s  attempt %d  in doubt, so the ledger is asked (%v)\n", e.Key, e.Attempt, e.Err)
	case batch.EventState:
		if e.Err != nil {
			fmt.Fprintf(r.out, "  %s  attempt %d  %s (%v)\n", e.Key, e.Attempt, e.State, e.Err)
		}
	case batch.EventFinal:
		fmt.Fprintf(r.out, "  %s  attempt %d  %s\n", e.Key, e.Attempt, e.State)
	}
}
