package main

import (
	"math/big"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

// With both kinds of nodes and both kinds of payments, the program ends with the proof after all
// faults, and leaves nothing behind. Its lines fit 100 columns, and in a pipe no line overwrites
// another.
func TestRun(t *testing.T) {
	for kind, args := range map[string][]string{
		"signed, simulated": {"-node", simulatedNode}, "signed, anvil": {"-node", anvilNode, "-install"}, "intents": {"-node", simulatedNode, "-intents"},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p := demotest.New(t, append(args, "-n", "80", "-accounts", "5", "-over", "5s")...)
			require.NoError(t, p.Run(), &p.Out)
			out := p.Out.String()
			t.Log(out)
			for what, times := range map[string]int{
				"the base fee leaps": 2, "another wallet with the key": 2, "the chain replaces blocks": 2, "kill -9 of the node": 1, "the node is back": 1,
				"kill -9 of the process that sends": 1, "the process that sends has started": 2,
				"PROVED: 80 invoices were paid, each exactly once": 1,
			} {
				assert.Equal(t, times, strings.Count(out, what), what)
			}
			assert.NotContains(t, out, "rose for 0 of them")
			assert.NotContains(t, out, "\r")
			for line := range strings.Lines(out) {
				assert.LessOrEqual(t, len(line), terminalWidth+1, line)
			}
			p.RequireClean(t)
		})
	}
}

// Ctrl-C ends the worker and the node, and removes the files.
func TestInterrupt(t *testing.T) {
	p := demotest.New(t, "-node", simulatedNode, "-over", "1m")
	require.NoError(t, p.Start())
	require.Eventually(t, func() bool { return strings.Contains(p.Out.String(), "payments made") }, time.Minute, 20*time.Millisecond)
	require.NoError(t, p.Process.Signal(os.Interrupt))
	require.Error(t, p.Wait())
	require.Equal(t, 130, p.ProcessState.ExitCode(), &p.Out)
	require.Contains(t, p.Out.String(), "interrupted")
	p.RequireClean(t)
}

func TestWrongFlags(t *testing.T) {
	good := config{node: simulatedNode, invoices: 1, accounts: 1}
	for name, bend := range map[string]func(*config){
		"no invoices":       func(c *config) { c.invoices = 0 },
		"no accounts":       func(c *config) { c.accounts = 0 },
		"too many accounts": func(c *config) { c.accounts = 11 },
		"negative":          func(c *config) { c.addPeriod = -1 },
		"a node of paper":   func(c *config) { c.node = "paper" },
	} {
		c := good
		bend(&c)
		require.Error(t, run(t.Context(), c, t.Output(), false), name)
	}
}

// The proof fails for each way in which the chain and the books may differ.
func TestProof(t *testing.T) {
	fresh := func() proof {
		b := newBooks(1, 1, false)
		p := proof{books: b, records: map[batch.ID]batch.Record{}, balance: big.NewInt(3), invoices: 2}
		for invoice := 1; invoice <= 2; invoice++ {
			pay, err := b.sign(invoice, 0)
			require.NoError(t, err)
			hash := string(pay.batch.ID)
			receipt := `{"transactionHash":"` + hash + `","blockHash":"` + hash + `","blockNumber":"0x1","status":"0x1","gasUsed":"0x0"}`
			p.records[pay.batch.ID] = batch.Record{State: batch.Committed, Receipts: []batch.Receipt{{Data: []byte(receipt)}}}
		}
		one := block{Number: 1, Hash: "0x1"}
		for _, pay := range b.sortedPayments() {
			one.Transactions = append(one.Transactions, transaction{
				Hash: string(pay.batch.ID), From: string(pay.batch.Service), To: shopAddress, Nonce: quantity(pay.nonce), Input: "0x0000000" + strconv.Itoa(pay.invoice),
			})
		}
		p.blocks = []block{one}
		return p
	}
	require.NoError(t, prove(t.Output(), fresh()))
	for name, c := range map[string]struct {
		bend func(*proof)
		says string
	}{
		"paid twice":        {func(p *proof) { p.blocks[0].Transactions[1].Input = "0x00000001" }, "invoice 1 was paid 2 times"},
		"not paid":          {func(p *proof) { p.blocks[0].Transactions = p.blocks[0].Transactions[:1] }, "invoice 2 was paid 0 times"},
		"out of order":      {func(p *proof) { p.blocks[0].Transactions[1].Nonce = 7 }, "nonce 7, want 1"},
		"a stranger":        {func(p *proof) { p.blocks[0].Transactions[1].From = strangerAddress }, "nobody knows the account"},
		"paid elsewhere":    {func(p *proof) { p.blocks[0].Transactions[1].To = strangerAddress }, "nobody's payment"},
		"a wrong sum":       {func(p *proof) { p.balance = big.NewInt(4) }, "the shop has 4 wei, want 3"},
		"an invoice beyond": {func(p *proof) { p.invoices = 1; p.balance = big.NewInt(1) }, "2 invoices were paid"},
		"a wrong receipt":   {func(p *proof) { p.blocks[0].Number = 2 }, "its receipt names block 1"},
		"not recorded":      {func(p *proof) { clear(p.records) }, "in a block: true"},
	} {
		p := fresh()
		c.bend(&p)
		require.ErrorContains(t, prove(t.Output(), p), c.says, name)
	}
}
