// Customledger shows how to connect a ledger that dltbatch does not know: the client is client.go,
// and passes the suite dlt/dlttest. The ledger is an invented notary, which this program serves
// and closes for a second in the middle.
//
//	go run ./examples/customledger
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/examples/internal/demo"
	"github.com/dltbatch/dltbatch/store/memory"
)

// usageText is the text of -h before the flags.
const usageText = `Customledger shows a client for a ledger that dltbatch does not know: a made-up notary, which
this program serves, and closes for a second.

usage: go run ./examples/customledger
`

func main() {
	flag.Usage = func() { fmt.Fprint(flag.CommandLine.Output(), usageText); flag.PrintDefaults() }
	flag.Parse()
	demo.Main("customledger", func(ctx context.Context, out io.Writer, _ bool) error { return run(ctx, out) })
}

func run(ctx context.Context, w io.Writer) error {
	t := &eventPrinter{out: w}
	notary := NewNotary(20 * time.Millisecond)
	office, err := NewServer(notary)
	if err != nil {
		return err
	}
	defer func() { _ = office.Shut() }() // an error does not matter any more
	t.printf("a notary at %s\n", office.URL())

	client := NewClient(office.URL())
	defer client.http.CloseIdleConnections()
	runner, err := dltbatch.New(memory.New(), client, &dltbatch.Options{
		Observer: t, PollInterval: 100 * time.Millisecond, Retry: dltbatch.RetryPolicy{QuickRetryPause: 100 * time.Millisecond},
	})
	if err != nil {
		return err
	}
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(running) }()

	var all []batch.Batch
	for i, text := range []string{"a house is sold", "void: signed by nobody", "a boat is sold", "", "a field is let", "a debt is paid"} {
		b := batch.Batch{ID: batch.ID(fmt.Sprintf("deed-%d", i+1)), Service: batch.ServiceID([]string{"alice", "bob"}[i%2]), Payload: []byte(text)}
		if text == "" {
			b.Payload = make([]byte, maxTextBytes+1) // more than the notary accepts
		}
		all = append(all, b)
	}
	if err := runner.Add(ctx, all[:2]...); err != nil {
		return err
	}
	if err := runner.Idle(ctx); err != nil {
		return err
	}
	if err := office.Shut(); err != nil {
		return err
	}
	t.printf("-- the notary has closed\n")
	if err := runner.Add(ctx, all[2:]...); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Second):
	}
	t.printf("-- and is open again\n")
	if err := office.Open(); err != nil {
		return err
	}
	if err := runner.Idle(ctx); err != nil {
		return err
	}
	cancel()
	if err := <-ended; err != nil {
		return err
	}

	t.printf("\n%-12s %-10s %-8s %s\n", "batch", "outcome", "attempts", "why")
	for _, b := range all {
		rec, err := runner.Get(ctx, b.Key())
		if err != nil {
			return err
		}
		why := ""
		if rec.Error != nil {
			why = rec.Error.Error()
		}
		t.printf("%-12s %-10s %8d %s\n", b.Key(), rec.State, rec.Attempt, why)
	}
	for _, lane := range []batch.ServiceID{"alice", "bob"} {
		t.printf("the book of %s: %q\n", lane, notary.Book(lane))
	}
	return nil
}

// eventPrinter prints the events.
type eventPrinter struct {
	mu  sync.Mutex
	out io.Writer
}

func (t *eventPrinter) printf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(t.out, format, args...)
}

// Observe implements [batch.Observer].
func (t *eventPrinter) Observe(_ context.Context, e batch.Event) {
	switch e.Kind {
	case batch.EventState, batch.EventFinal:
		t.printf("%-12s is %s\n", e.Key, e.State)
	case batch.EventPaused, batch.EventResumed:
		t.printf("posting is %s\n", e.Kind)
	}
}
