// Transfers shows auto-batching: ten thousand transfers of fifty parties, one in a thousand of
// them invalid, go into a SQLite file as they arrive. They reach a simulated Canton participant
// many at a time, while the process that sends them is killed with kill -9 and started again. The
// participant's own books prove that every valid transfer took effect exactly once. You need not
// install anything.
//
//	go run ./examples/transfers
//	go run ./examples/transfers -db transfers.db    (keeps the file, so that you can read it)
//
// Its exit status is not 0 if the books do not agree.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/dltbatch/dltbatch/dlt/canton/cantontest"
	"github.com/dltbatch/dltbatch/examples/internal/demo"
)

type config struct {
	db                        string
	transfers, poisonInterval int
	parties                   int
	addPeriod, completionTime time.Duration
}

// usageText is the text of -h before the flags.
const usageText = `Transfers shows auto-batching: many small transfers reach a simulated Canton participant in few
submissions, while the worker process is killed with kill -9. The participant's books prove that
every good transfer took effect exactly once.

usage: go run ./examples/transfers [flags]
`

func main() {
	if len(os.Args) == 2 && os.Args[1] == demo.WorkerCommand {
		if err := runWorker(os.Stdin); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	var c config
	flag.StringVar(&c.db, "db", "", "the SQLite file, which must not exist and is kept (default: one in a temporary folder)")
	flag.IntVar(&c.transfers, "n", 10_000, "transfers")
	flag.IntVar(&c.parties, "parties", 50, "parties, of which each pays the others")
	flag.IntVar(&c.poisonInterval, "poison", 1000, "one transfer in so many is poisonous; 0 is none")
	flag.DurationVar(&c.addPeriod, "over", 8*time.Second, "how long adding them takes")
	flag.DurationVar(&c.completionTime, "takes", 500*time.Millisecond, "how long the participant takes from a submission to its completion")
	flag.Usage = func() { fmt.Fprint(flag.CommandLine.Output(), usageText); flag.PrintDefaults() }
	flag.Parse()
	demo.Main("transfers", func(ctx context.Context, out io.Writer, live bool) error { return run(ctx, c, out, live) })
}

// submissionDelay is the time that a submission takes to reach the participant.
const submissionDelay = 100 * time.Millisecond

func run(ctx context.Context, c config, out io.Writer, live bool) error {
	if c.transfers < 1 || c.parties < 2 || c.poisonInterval < 0 || c.addPeriod < 0 || c.completionTime <= 0 {
		return errors.New("-n wants at least 1, -parties at least 2, -poison and -over at least 0, -takes more than 0")
	}
	if _, err := os.Stat(c.db); err == nil {
		return fmt.Errorf("-db %s: want a file that does not exist yet; the participant begins anew each time, and what an earlier one was sent means nothing to it", c.db)
	}
	// The participant runs in this process, so that its books can be read. The worker reaches it
	// over a socket, as it would any other participant.
	participant, err := cantontest.Listen(&cantontest.Options{
		CompleteAfter: c.completionTime, Balance: openingBalance,
		Fault: func(at cantontest.RequestPoint) (f cantontest.Fault) {
			if at.Operation == cantontest.OpSubmit {
				f.Delay = submissionDelay
			}
			return f
		},
	})
	if err != nil {
		return err
	}
	defer participant.Close()
	st, path, done, err := demo.Open(ctx, "sqlite", c.db)
	if err != nil {
		return err
	}
	defer done()
	sv, err := newService(st, participant.URL())
	if err != nil {
		return err
	}
	defer sv.ledger.CloseIdleConnections()

	all := drawTransfers(c)
	fmt.Fprintf(out, "ledger     a simulated Canton participant at %s, %s from a submission to its completion\n", participant.URL(), c.completionTime)
	fmt.Fprintf(out, "orders     in %s\n", path)
	fmt.Fprintf(out, "work       %d transfers of %d parties, added over %s; %d of them are poisonous\n\n", len(all), c.parties, c.addPeriod, countPoisonous(all))

	s := &demonstration{config: c, transfers: all, participant: participant, service: sv, screen: &demo.StatusLine{Out: out, IsTerminal: live, Interval: time.Second}}
	s.worker = &demo.Process{Job: job{DB: path, URL: participant.URL()}}
	records, err := s.run(ctx)
	if err != nil {
		return err
	}
	return prove(out, all, records, participant.Journal(), participant.Balances())
}
