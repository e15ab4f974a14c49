// Unittest is a small service that writes shipments to a ledger, and shows how to test such a
// service: with fakes, in virtual time, in which a ledger that is down for an hour takes a
// millisecond. The tests are the point of the example:
//
//	go test -v ./examples/unittest
//
// As a program it shows the same in real time, with the same fakes:
//
//	go run ./examples/unittest
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	ledger "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/examples/internal/demo"
	"github.com/dltbatch/dltbatch/store/memory"
)

// usageText is the text of -h before the flags.
const usageText = `Unittest shows how to test a service that writes to a ledger, with a fake ledger that is down
for two seconds. Its tests do the same in virtual time: go test -v ./examples/unittest

usage: go run ./examples/unittest
`

func main() {
	flag.Usage = func() { fmt.Fprint(flag.CommandLine.Output(), usageText); flag.PrintDefaults() }
	flag.Parse()
	demo.Main("unittest", func(ctx context.Context, out io.Writer, _ bool) error { return run(ctx, out) })
}

// outageLength is how long the ledger is down when the program starts.
const outageLength = 2 * time.Second

func run(ctx context.Context, w io.Writer) error {
	start := time.Now()
	traits := ledger.Unforgiving(200 * time.Millisecond) // the ledger executes duplicates
	fake := ledger.New(&ledger.Options{Traits: &traits, CommitAfter: 100 * time.Millisecond, Fault: func(a batch.Attempt) ledger.Fault {
		switch {
		case time.Since(start) < outageLength:
			return ledger.Fault{Kind: ledger.Unavailable}
		case strings.Contains(string(a.Payload), "contraband"):
			return ledger.Fault{Kind: ledger.Rejected}
		case a.ID == "s-3" && a.Number <= 4:
			return ledger.Fault{Kind: ledger.LostReply}
		}
		return ledger.Fault{}
	}})
	runner, err := dltbatch.New(memory.New(), fake, nil)
	if err != nil {
		return err
	}
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(running) }()

	service := NewShipments(runner)
	call := func(method, path, body string) string {
		answer := httptest.NewRecorder()
		service.ServeHTTP(answer, httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body)))
		return strings.TrimSpace(http.StatusText(answer.Code) + " " + strings.TrimSpace(answer.Body.String()))
	}
	fmt.Fprintf(w, "The ledger is down for %s. It refuses contraband, and the reply about s-3 will be lost.\n\n", outageLength)
	for i, goods := range []string{"tea", "contraband", "silk"} {
		body := fmt.Sprintf(`{"carrier": "sea", "id": "s-%d", "goods": %q}`, i+1, goods)
		fmt.Fprintf(w, "%4.1f s  POST %s: %s\n", time.Since(start).Seconds(), body, call("POST", "/shipments", body))
	}
	idle := make(chan error, 1)
	go func() { idle <- runner.Idle(running) }()
	last := map[string]string{}
	show := func() {
		for _, id := range [...]string{"s-1", "s-2", "s-3"} {
			if now := call("GET", "/shipments/sea/"+id, ""); now != last[id] {
				last[id] = now
				fmt.Fprintf(w, "%4.1f s  GET  %s: %s\n", time.Since(start).Seconds(), id, now)
			}
		}
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for waiting := true; waiting; {
		select {
		case <-tick.C:
		case err := <-idle:
			if err != nil {
				return err
			}
			waiting = false
		}
		show()
	}
	fmt.Fprintf(w, "\nThe ledger's own log of sea: %q. It executes duplicates, and got none.\n", fake.Log("sea"))
	cancel()
	return <-ended
}
