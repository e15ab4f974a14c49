// Splinter shows the whole way on a ledger that executes a batch each time it gets it: six hundred
// signed batches of three scabbard services go from a SQLite file to two Splinter nodes, in order
// and each once. Meanwhile POSTs and answers are lost, proposals are rolled back, and a node and
// the Runner are restarted. You need not install anything: the nodes are simulated ones on the
// loopback interface.
//
//	go run ./examples/splinter
//	go run ./examples/splinter -store memory
//	go run ./examples/splinter -db queue.db     (keeps the file; only these nodes knew its batches)
//
// Unlike quickstart it has no -url: real nodes need a circuit and a Sabre contract, and have no
// journal for a proof.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/examples/internal/demo"
)

// Times of scabbard and the client, scaled down by the same factor as the simulated nodes' times.
// Use the defaults for real nodes; they are in the comments.
const (
	commitInterval     = 10 * time.Millisecond  // the nodes' interval; real nodes make a few commits a second
	lateArrival        = 600 * time.Millisecond // default: 660 s
	coordinatorTimeout = 250 * time.Millisecond // default: 30 s
	clockMargin        = 100 * time.Millisecond // default: 10 s
	probeInterval      = 50 * time.Millisecond  // default: 5 s
	streamLease        = time.Second            // default: 30 s
	pollInterval       = 250 * time.Millisecond // default: 1 s
	stuckAfter         = 3 * time.Second        // default: 1 h
)

type config struct {
	db, store string
	batches   int
}

// usageText is the text of -h before the flags.
const usageText = `Splinter sends six hundred signed batches to two simulated Splinter nodes, which execute each
batch as often as they get it. POSTs and answers are lost, a node and the Runner are restarted,
and the nodes' journal proves that every batch was executed once.

usage: go run ./examples/splinter [flags]
`

func main() {
	var c config
	flag.StringVar(&c.db, "db", "", "the SQLite file, kept (default: one in a temporary folder)")
	flag.StringVar(&c.store, "store", "sqlite", "sqlite or memory")
	flag.IntVar(&c.batches, "n", 600, "batches")
	flag.Usage = func() { fmt.Fprint(flag.CommandLine.Output(), usageText); flag.PrintDefaults() }
	flag.Parse()
	demo.Main("splinter", func(ctx context.Context, out io.Writer, live bool) error { return run(ctx, out, live, c) })
}

func run(ctx context.Context, out io.Writer, live bool, c config) error {
	if c.batches < 1 {
		return errors.New("-n wants at least 1")
	}
	st, where, done, err := demo.Open(ctx, c.store, c.db)
	if err != nil {
		return err
	}
	defer done()
	asked := newQueryCounter()
	network, err := startNodes(asked)
	if err != nil {
		return err
	}
	defer network.Close()
	key, err := sawtooth.GeneratePrivateKey()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "two simulated Splinter nodes, %s and %s\n", network.URL(0), network.URL(1))
	fmt.Fprintf(out, "scabbard's times are scaled down: a lost POST may arrive for %s (real nodes: 660 s)\n", lateArrival)
	fmt.Fprintln(out, "the queue, and the journal of the nodes' events, is in", where)

	batches, err := build(key, c.batches)
	if err != nil {
		return err
	}
	d := &delivery{network: network, store: st, key: key, progress: newProgress(out, live, c.batches)}
	if err := d.deliverAll(ctx, batches); err != nil {
		return err
	}
	d.progress.printTable(countRolledBack(network))
	fmt.Fprintf(out, "\n%s\n", asked.describeSaved(len(batches)))
	if err := prove(network, batches); err != nil {
		return err
	}
	fmt.Fprintf(out, "the nodes' journal: all %d executed once, every service in order\n", len(batches))
	return nil
}
