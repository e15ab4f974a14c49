// Evm shows payments on an EVM chain: a thousand invoices are paid from ten accounts. Meanwhile
// the base fee jumps, another wallet takes nonces of these accounts, the chain replaces its last
// blocks, and the node and the process that sends are killed with kill -9. Each payment is signed
// three times with rising fees, so that its fees can rise although the process that sends has no
// key. At the end the program reads the chain itself, block by block: every invoice was paid
// exactly once. The node is a real anvil if there is one, and otherwise a simulated one. You need
// not install anything.
//
// With -intents one busy account pays all of them. Its payments are intents, of which the library
// chooses the nonces and the fees: sixteen are under way at a time, and the process that sends has
// the key. The same faults happen.
//
//	go run ./examples/evm
//	go run ./examples/evm -intents
//	go run ./examples/evm -install              (gets anvil from npm if it is missing)
//	go run ./examples/evm -node simulated
//	go run ./examples/evm -n 200 -over 5s
//
// Its exit status is not 0 if the proof fails.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/dltbatch/dltbatch/examples/internal/demo"
)

type config struct {
	node        string
	mayInstall  bool // install anvil if it is missing
	invoices    int
	accounts    int
	usesIntents bool
	addPeriod   time.Duration
}

// usageText is the text of -h before the flags.
const usageText = `Evm pays invoices from accounts of an EVM chain, while the base fee leaps, a foreign wallet takes
nonces, blocks are replaced, and the node and the sending process are killed with kill -9. Each
payment is signed with three fees; with -intents one account pays all, and the library chooses
nonces and fees. The chain itself is read at the end, block by block: every invoice was paid
exactly once.

usage: go run ./examples/evm [flags]
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
	flag.StringVar(&c.node, "node", anyNode, "any (anvil where there is one), anvil or simulated")
	flag.BoolVar(&c.mayInstall, "install", false, "install anvil (from npm) if it is missing")
	flag.IntVar(&c.invoices, "n", 0, "invoices (default 1000, or 200 with -intents)")
	flag.IntVar(&c.accounts, "accounts", maxAccounts, "accounts that pay, 10 at most")
	flag.BoolVar(&c.usesIntents, "intents", false, "pay from one account, by intents, with 16 under way")
	flag.DurationVar(&c.addPeriod, "over", 20*time.Second, "how long adding the payments takes")
	flag.Usage = func() { fmt.Fprint(flag.CommandLine.Output(), usageText); flag.PrintDefaults() }
	flag.Parse()
	if c.usesIntents {
		c.accounts = 1
	}
	if c.invoices == 0 {
		c.invoices = 1000
		if c.usesIntents { // fewer, because only sixteen are under way at a time
			c.invoices = 200
		}
	}
	demo.Main("evm", func(ctx context.Context, out io.Writer, live bool) error { return run(ctx, c, out, live) })
}

func run(ctx context.Context, c config, out io.Writer, live bool) error {
	if c.invoices < 1 || c.accounts < 1 || c.accounts > maxAccounts || c.addPeriod < 0 {
		return fmt.Errorf("-n wants at least 1, -accounts 1 to %d, -over at least 0", maxAccounts)
	}
	dir, err := os.MkdirTemp("", "evm")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	n, what, err := startNode(c.node, c.mayInstall, dir)
	if err != nil {
		return err
	}
	defer n.Stop()
	ch, err := dial(ctx, n.URL())
	if err != nil {
		return err
	}
	defer ch.close()
	j := job{DB: filepath.Join(dir, "payments.db"), URL: n.URL(), Chain: ch.chainID, Genesis: ch.genesis, Intents: c.usesIntents}
	s, err := open(ctx, j)
	if err != nil {
		return err
	}
	defer s.close()
	fmt.Fprintf(out, "node      %s at %s, a block every %s\n", what, n.URL(), blockTime)
	fmt.Fprintf(out, "depth     a payment counts as made once %d blocks stand on its block\n", depth)
	how := fmt.Sprintf("signed, from %d accounts", c.accounts)
	if c.usesIntents {
		how = fmt.Sprintf("intents of one account, %d under way at a time", maxUnderWay)
	}
	fmt.Fprintf(out, "payments  %d invoices over %s: %s\n\n", c.invoices, c.addPeriod, how)

	mining, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { defer close(ended); ch.mineUntilDone(mining) }()
	defer func() { stop(); <-ended }()
	sh := &demonstration{config: c, node: n, chain: ch, service: s, worker: &demo.Process{Job: j}, books: newBooks(ch.chainID, c.accounts, c.usesIntents), screen: &demo.StatusLine{Out: out, IsTerminal: live, Interval: 2 * time.Second}}
	if err := sh.run(ctx); err != nil {
		return err
	}
	stop()
	<-ended
	blocks, err := ch.readChain(ctx)
	if err != nil {
		return err
	}
	balance, err := ch.balance(ctx, shopAddress)
	if err != nil {
		return err
	}
	return prove(out, proof{books: sh.books, records: sh.records, blocks: blocks, balance: balance, invoices: c.invoices})
}
