package main

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"math/big"
	"slices"
	"strconv"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/evm"
	"github.com/dltbatch/dltbatch/dlt/evm/evmtest"
)

// maxAccounts is how many accounts have funds on a new node.
const maxAccounts = 10

var (
	shopAddress     = evmtest.Named("the shop").Address()
	strangerAddress = evmtest.Named("elsewhere").Address()
)

// prices are the highest prices that a payment offers for a unit of gas, in gwei. Each payment is
// signed once for each price, so that its fees can rise although the process that sends it has no
// key.
var prices = [...]int64{3, 12, 48}

// payment pays an invoice. Its data is the invoice's number, and its value is the same number in
// wei.
type payment struct {
	invoice, account int
	nonce            uint64 // set for a signed payment
	batch            batch.Batch
	hashes           []string // hashes of its signed transactions, by price
}

// applicationBooks belong to the application. It has the keys, and gives each transaction of an
// account the next nonce. For intents the library chooses the nonces, and the process that sends
// has the keys.
type applicationBooks struct {
	chainID       uint64
	usesIntents   bool
	nextNonces    []uint64 // next nonce, by account
	payments      map[batch.ID]payment
	foreignNonces map[string]uint64 // nonces that another wallet with the same keys took, by transaction hash
}

func newBooks(chain uint64, accounts int, intents bool) *applicationBooks {
	return &applicationBooks{chainID: chain, usesIntents: intents, nextNonces: make([]uint64, accounts), payments: map[batch.ID]payment{}, foreignNonces: map[string]uint64{}}
}

// makePayment makes a payment of an invoice: an intent, or a signed one. The lane of its batch is
// the account.
func (b *applicationBooks) makePayment(invoice, account int) (payment, error) {
	if !b.usesIntents {
		return b.sign(invoice, account)
	}
	i := evm.Intent{To: shopAddress, Value: big.NewInt(int64(invoice)), Data: dataOf(invoice), Gas: gasLimit}
	one, err := i.Batch(batch.ID("invoice "+strconv.Itoa(invoice)), evmtest.Dev(account).Address())
	if err != nil {
		return payment{}, err
	}
	p := payment{invoice: invoice, account: account, batch: one}
	b.payments[one.ID] = p
	return p, nil
}

const gasLimit = 25_000 // enough for a transfer whose data is a number

func dataOf(invoice int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(invoice)) }

func (b *applicationBooks) sign(invoice, account int) (payment, error) {
	p := payment{invoice: invoice, account: account, nonce: b.nextNonces[account]}
	var all [][]byte
	for _, gwei := range prices {
		raw, hash := evmtest.Dev(account).Sign(evmtest.Unsigned{
			ChainID: b.chainID, Nonce: p.nonce, To: shopAddress, Value: big.NewInt(int64(invoice)), Gas: gasLimit, Data: dataOf(invoice),
			Tip: big.NewInt(gwei * 1e9 / 3), FeeCap: big.NewInt(gwei * 1e9),
		})
		all, p.hashes = append(all, raw), append(p.hashes, hash)
	}
	payload, err := evm.Alternatives(all...)
	if err != nil {
		return p, err
	}
	if p.batch, err = evm.NewBatch(payload); err != nil {
		return p, err
	}
	b.nextNonces[account]++
	b.payments[p.batch.ID] = p
	return p, nil
}

// signForeign signs a transaction with the nonce of a present or future payment of the account, as
// another wallet does that has the same key and does not know of the payment.
func (b *applicationBooks) signForeign(account int, nonce uint64) (raw, hash string) {
	signed, hash := evmtest.Dev(account).Sign(evmtest.Unsigned{
		ChainID: b.chainID, Nonce: nonce, To: strangerAddress, Value: big.NewInt(1), Tip: big.NewInt(3e9), FeeCap: big.NewInt(60e9),
	})
	b.foreignNonces[hash] = nonce
	return "0x" + hex.EncodeToString(signed), hash
}

// invoiceOf reads the invoice's number from the data of a payment.
func invoiceOf(input string) (invoice int, ok bool) {
	data, err := hex.DecodeString(input[min(2, len(input)):])
	if err != nil || len(data) != 4 {
		return 0, false
	}
	return int(binary.BigEndian.Uint32(data)), true
}

// accounts returns the number of each account, by its address.
func (b *applicationBooks) accounts() map[string]int {
	all := map[string]int{}
	for account := range b.nextNonces {
		all[evmtest.Dev(account).Address()] = account
	}
	return all
}

// sortedPayments returns the payments sorted by account, and by nonce if the books have nonces.
func (b *applicationBooks) sortedPayments() []payment {
	return slices.SortedFunc(maps.Values(b.payments), func(x, y payment) int {
		return cmp.Or(cmp.Compare(x.account, y.account), cmp.Compare(x.nonce, y.nonce), cmp.Compare(x.invoice, y.invoice))
	})
}
