// Command nodeproc runs a simulated Sawtooth node as a process of its own, so
// that benchmarks do not measure the node together with its client. It prints
// its base URL as one line and ends when its standard input is closed: a parent
// that dies takes it along.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "nodeproc:", err)
		os.Exit(1)
	}
}

// run serves until in is at its end.
func run(args []string, in io.Reader, out, errs io.Writer) error {
	flags := flag.NewFlagSet("nodeproc", flag.ContinueOnError)
	flags.SetOutput(errs)
	o := &sawtoothtest.Options{}
	flags.StringVar(&o.Addr, "addr", "127.0.0.1:0", "host:port to listen on")
	flags.DurationVar(&o.BlockInterval, "block", 100*time.Millisecond, "time between blocks")
	flags.IntVar(&o.PoolLimit, "pool-limit", 0, "pool length from which on submits are answered 429; 0: Sawtooth's own rule")
	flags.BoolVar(&o.SkipVerify, "skip-verify", false, "take signatures on trust")
	flags.BoolVar(&o.NoJournal, "no-journal", true, "keep no journal, which nobody can read here anyway")
	if err := flags.Parse(args); err != nil {
		return err
	}
	node, err := sawtoothtest.Listen(o)
	if err != nil {
		return err
	}
	defer node.Close()
	if _, err := fmt.Fprintln(out, node.URL()); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, in); err != nil {
		return fmt.Errorf("reading standard input: %w", err)
	}
	return nil
}
