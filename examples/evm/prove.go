package main

import (
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strings"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/evm"
)

// proof holds both sides of the comparison: the chain, which none of the program's processes
// writes, and the application's books.
type proof struct {
	books    *applicationBooks
	records  map[batch.ID]batch.Record
	blocks   []block
	balance  *big.Int // of the shop's account
	invoices int
}

// prove prints the chain, and returns an error unless each invoice was paid exactly once on it.
func prove(out io.Writer, p proof) error {
	accounts := p.books.accounts()
	printChain(out, p, accounts)
	var wrong []error
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	paid, next := map[int]int{}, map[int]uint64{}
	at := map[string]quantity{} // the block of each transaction
	others, closed, most := 0, 0, 0
	for _, b := range p.blocks {
		most = max(most, len(b.Transactions))
		for _, tx := range b.Transactions {
			account, ours := accounts[strings.ToLower(tx.From)]
			if !ours {
				complain("block %d: nobody knows the account %s", b.Number, tx.From)
				continue
			}
			if uint64(tx.Nonce) != next[account] {
				complain("block %d: a%d's nonce %d, want %d", b.Number, account, tx.Nonce, next[account])
			}
			next[account] = uint64(tx.Nonce) + 1
			at[tx.Hash] = b.Number
			_, foreign := p.books.foreignNonces[tx.Hash]
			invoice, is := invoiceOf(tx.Input)
			switch {
			case foreign:
				others++
			case p.books.usesIntents && tx.Input == "0x" && strings.EqualFold(tx.To, tx.From):
				closed++
			case !is || strings.ToLower(tx.To) != shopAddress:
				complain("block %d: %s is nobody's payment", b.Number, tx.Hash)
			default:
				paid[invoice]++
			}
		}
	}
	want := new(big.Int)
	for invoice := 1; invoice <= p.invoices; invoice++ {
		want.Add(want, big.NewInt(int64(invoice)))
		if paid[invoice] != 1 {
			complain("invoice %d was paid %d times, want once", invoice, paid[invoice])
		}
	}
	if len(paid) > p.invoices {
		complain("%d invoices were paid, and there are %d", len(paid), p.invoices)
	}
	if p.balance.Cmp(want) != 0 {
		complain("the shop has %s wei, want %s", p.balance, want)
	}
	rejected, risen := 0, 0
	for _, pay := range p.books.sortedPayments() {
		rec := p.records[pay.batch.ID]
		if p.books.usesIntents { // the receipt of an intent names its transaction
			if r, err := receiptOf(rec); err == nil {
				pay.hashes = []string{r.Hash}
			}
		}
		place := slices.IndexFunc(pay.hashes, func(hash string) bool { _, is := at[hash]; return is })
		var block quantity
		mined := place >= 0
		if mined {
			block = at[pay.hashes[place]]
		}
		switch {
		case rec.State == batch.Rejected:
			rejected++
			if mined {
				complain("invoice %d: %s is Rejected, and in block %d", pay.invoice, rec.ID, block)
			}
		case rec.State != batch.Committed || !mined:
			complain("invoice %d: %s is %q, in a block: %v", pay.invoice, pay.batch.ID, rec.State, mined)
		default:
			if r, err := receiptOf(rec); err != nil || r.Block != uint64(block) || r.Hash != pay.hashes[place] {
				complain("invoice %d: its receipt names block %d, the chain has it in block %d (%v)", pay.invoice, r.Block, block, err)
			}
			if place > 0 {
				risen++
			}
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("THE PROOF FAILS: %w", errors.Join(wrong[:min(10, len(wrong))]...))
	}
	if p.books.usesIntents {
		fmt.Fprintf(out, "\n  intents   %d payments of one account, at most %d in a block\n", len(p.books.payments), most)
		fmt.Fprintf(out, "  closed    %d nonces, by transfers of nothing\n", closed)
	} else {
		fmt.Fprintf(out, "\n  signed    %d payments for %d invoices: %d anew, since their nonce was used\n", len(p.books.payments), p.invoices, rejected)
		fmt.Fprintf(out, "  fees      rose for %d of them: a dearer one of %d transactions was executed\n", risen, len(prices))
	}
	fmt.Fprintf(out, "  foreign   %d transactions of another wallet, in the same accounts\n", others)
	fmt.Fprintf(out, "  the shop  has %s wei, the sum of all invoices\n", p.balance)
	fmt.Fprintf(out, "PROVED: %d invoices were paid, each exactly once, in the order of each account's nonces\n", p.invoices)
	return nil
}

// receiptOf returns the first receipt of a payment.
func receiptOf(rec batch.Record) (evm.Receipt, error) {
	if len(rec.Receipts) == 0 {
		return evm.Receipt{}, errors.New("it has no receipt")
	}
	return evm.ReadReceipt(rec.Receipts[0])
}

// terminalWidth is the number of columns that a terminal is assumed to have.
const terminalWidth = 100

// printChain prints the blocks with transactions, and the nonces that each account used in them.
func printChain(out io.Writer, p proof, accounts map[string]int) {
	fmt.Fprintf(out, "\nThe chain, block by block: the nonces that each account used. A * is another wallet's.\n\n")
	for _, b := range p.blocks {
		first, used := map[int]quantity{}, make([]string, len(p.books.nextNonces))
		marks := make([]string, len(used))
		for _, tx := range b.Transactions {
			account, ours := accounts[strings.ToLower(tx.From)]
			if !ours {
				continue
			}
			if _, again := first[account]; !again {
				first[account] = tx.Nonce
			}
			if _, foreign := p.books.foreignNonces[tx.Hash]; foreign {
				marks[account] += fmt.Sprintf(" %d*", tx.Nonce)
			}
			used[account] = fmt.Sprintf("  a%d: %d-%d%s", account, first[account], tx.Nonce, marks[account])
		}
		if len(first) == 0 {
			continue
		}
		line := fmt.Sprintf("  %5d  %.10s", b.Number, b.Hash)
		begun := len(line)
		for _, u := range used {
			if len(line)+len(u) > terminalWidth {
				fmt.Fprintln(out, line)
				line = strings.Repeat(" ", begun)
			}
			line += u
		}
		fmt.Fprintln(out, line)
	}
}
