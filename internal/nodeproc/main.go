// Command nodeproc runs a simulated ledger as a process of its own, so that benchmarks do not
// measure the ledger together with its client: a Sawtooth node, or a Scabbard node with
// circuits of one service each. It prints its base URL as one line and ends when its standard
// input is closed, so it dies with its parent. With -journal it then prints, a line each, the
// time at which batches came in and were committed.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "nodeproc:", err)
		os.Exit(1)
	}
}

// moment is a line of the journal: batches were committed, or came in, at At, in nanoseconds
// since 1970 by the clock that all processes of the machine share.
type moment struct {
	At        int64      `json:"at"` // Unix time in nanoseconds
	Committed bool       `json:"committed"`
	Batches   []batch.ID `json:"batches"`
}

// ledger is the simulated node that runs here.
type ledger interface {
	url() string
	moments() []moment
	Close()
}

// settings are the flags.
type settings struct {
	ledger   string
	addr     string
	block    time.Duration
	perBlock int
	delay    time.Duration
	pool     int
	trust    bool
	circuits int
	journal  bool
}

// run serves until in ends.
func run(args []string, in io.Reader, out, errs io.Writer) error {
	var s settings
	flags := flag.NewFlagSet("nodeproc", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.StringVar(&s.ledger, "ledger", "sawtooth", "sawtooth or splinter")
	flags.StringVar(&s.addr, "addr", "127.0.0.1:0", "host:port to listen on")
	flags.DurationVar(&s.block, "block", 100*time.Millisecond, "time between blocks, or that a proposal takes")
	flags.IntVar(&s.perBlock, "per-block", 0, "batches in a block of Sawtooth at most; 0: no limit")
	flags.DurationVar(&s.delay, "publish-delay", 0, "after which Sawtooth reports PENDING; 0: a tenth of a block, negative: none")
	flags.IntVar(&s.pool, "pool-limit", 0, "pool length from which on Sawtooth answers 429; 0: its own rule")
	flags.BoolVar(&s.trust, "skip-verify", false, "Sawtooth takes signatures on trust")
	flags.IntVar(&s.circuits, "circuits", 1, "circuits of Splinter, aaaaa-00000 and so on, each with the service a000")
	flags.BoolVar(&s.journal, "journal", false, "print the journal at the end, and keep one")
	if err := flags.Parse(args); err != nil {
		return err
	}
	l, err := listen(s)
	if err != nil {
		return err
	}
	defer l.Close()
	if _, err := fmt.Fprintln(out, l.url()); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, in); err != nil {
		return fmt.Errorf("reading standard input: %w", err)
	}
	if !s.journal {
		return nil
	}
	lines := json.NewEncoder(out)
	for _, m := range l.moments() {
		if err := lines.Encode(m); err != nil {
			return err
		}
	}
	return nil
}

func listen(s settings) (ledger, error) {
	switch s.ledger {
	case "sawtooth":
		return listenSawtooth(s)
	case "splinter":
		return listenSplinter(s)
	}
	return nil, fmt.Errorf("-ledger is %q, want sawtooth or splinter", s.ledger)
}
