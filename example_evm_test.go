package dltbatch_test

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"testing"
	"time"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/evm"
	"github.com/dltbatch/dltbatch/dlt/evm/evmtest"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// startChain is the snippet of docs/evm.md about tests.
func startChain(t *testing.T) (*evm.SigningClient, error) {
	node := evmtest.Start(t, &evmtest.Options{BlockTime: 20 * time.Millisecond})
	signer, err := evm.NewKeySigner(evmtest.Dev(0).Key())
	if err != nil {
		return nil, err
	}
	return evm.NewSigner(node.URL(), 1337, signer, &evm.SignerOptions{Options: evm.Options{Finality: evm.After(2)}})
}

// payOnChain is the snippet of docs/evm.md.
func payOnChain(ctx context.Context, st store.Store, url, genesis string, signed []byte) error {
	ledger, err := evm.New(url, 1337, &evm.Options{Genesis: genesis, Finality: evm.After(12)})
	if err != nil {
		return err
	}
	runner, err := dltbatch.New(st, ledger, &dltbatch.Options{Strategy: queuer.Pipelined(16)})
	if err != nil {
		return err
	}
	b, err := evm.NewBatch(signed) // the id is the hash, and the service the account that signed
	if err != nil {
		return err
	}
	err = runner.Add(ctx, b)
	if err != nil {
		return err
	}
	defer ledger.CloseIdleConnections()
	ctx, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- runner.Run(ctx) }()
	rec, err := runner.Await(ctx, b.Key())
	stop()
	if err := <-done; err != nil {
		return err
	}
	if err != nil || rec.State != batch.Committed {
		return fmt.Errorf("%s: %w", rec.State, err)
	}
	receipt, err := evm.ReadReceipt(rec.Receipts[0])
	fmt.Println(rec.State, "in a block:", receipt.Block > 0, "for", receipt.GasUsed, "gas")
	return err
}

// A signed payment is sent to an EVM chain, and is committed twelve blocks later.
func Example_evm() {
	node, err := evmtest.Listen(&evmtest.Options{BlockTime: 20 * time.Millisecond}) // or a node of your own
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	signed, _ := evmtest.Dev(0).Sign(evmtest.Unsigned{ChainID: 1337, To: evmtest.Dev(1).Address()})
	if err := payOnChain(context.Background(), memory.New(), node.URL(), node.Blocks()[0].Hash, signed); err != nil {
		fmt.Println(err)
	}
	// Output: committed in a block: true for 21000 gas
}

// payWithAlternatives is the snippet of docs/evm.md#alternatives.
func payWithAlternatives(ctx context.Context, runner *dltbatch.Runner, cheap, dearer, dearest []byte) error {
	payload, err := evm.Alternatives(cheap, dearer, dearest) // each signed, with the same nonce
	if err != nil {
		return err
	}
	b, err := evm.NewBatch(payload) // the id is the hash of the first one
	if err != nil {
		return err
	}
	err = runner.Add(ctx, b)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- runner.Run(ctx) }()
	rec, err := runner.Await(ctx, b.Key())
	stop()
	if err := <-done; err != nil {
		return err
	}
	if err != nil || rec.State != batch.Committed {
		return fmt.Errorf("%s: %w", rec.State, err)
	}
	receipt, err := evm.ReadReceipt(rec.Receipts[0])
	fmt.Println(rec.State, "in a block:", receipt.Block > 0, "for at most 4 gwei:", receipt.GasPrice.Cmp(big.NewInt(4e9)) <= 0)
	return err
}

// A payment is signed three times, with rising fees. The client sends the one with the lowest fee
// that pays the chain's price.
func Example_evmAlternatives() {
	node, err := evmtest.Listen(&evmtest.Options{BlockTime: 20 * time.Millisecond}) // or a node of your own
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	node.SetBaseFee(big.NewInt(2e9))
	var signed [3][]byte
	for i, gwei := range []int64{1, 4, 16} {
		wei := big.NewInt(gwei * 1e9)
		signed[i], _ = evmtest.Dev(0).Sign(evmtest.Unsigned{ChainID: 1337, To: evmtest.Dev(1).Address(), Tip: wei, FeeCap: wei})
	}
	ledger, err := evm.New(node.URL(), 1337, &evm.Options{Finality: evm.After(2)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ledger.CloseIdleConnections()
	runner, err := dltbatch.New(memory.New(), ledger, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := payWithAlternatives(context.Background(), runner, signed[0], signed[1], signed[2]); err != nil {
		fmt.Println(err)
	}
	// Output: committed in a block: true for at most 4 gwei: true
}

// payByIntent is the snippet of docs/evm.md#intents.
func payByIntent(ctx context.Context, st store.Store, url, genesis string, key []byte, to string) error {
	signer, err := evm.NewKeySigner(key) // or your own evm.Signer, before a service that has the keys
	if err != nil {
		return err
	}
	ledger, err := evm.NewSigner(url, 1337, signer, &evm.SignerOptions{
		Options: evm.Options{Genesis: genesis, Finality: evm.After(12)},
	})
	if err != nil {
		return err
	}
	runner, err := dltbatch.New(st, ledger, nil)
	if err != nil {
		return err
	}
	payment := evm.Intent{To: to, Value: big.NewInt(1_000_000)}
	b, err := payment.Batch("invoice 4711", signer.Accounts()[0]) // the id is your own
	if err != nil {
		return err
	}
	err = runner.Add(ctx, b)
	if err != nil {
		return err
	}
	defer ledger.CloseIdleConnections()
	ctx, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- runner.Run(ctx) }()
	rec, err := runner.Await(ctx, b.Key())
	stop()
	if err := <-done; err != nil {
		return err
	}
	if err != nil || rec.State != batch.Committed {
		return fmt.Errorf("%s: %w", rec.State, err)
	}
	receipt, err := evm.ReadReceipt(rec.Receipts[0])
	fmt.Println(rec.Key.ID, rec.State, "in a block:", receipt.Block > 0, "for", receipt.GasUsed, "gas")
	return err
}

// The payment is not signed yet: the library chooses the nonce, and the signer's key signs.
func Example_evmIntent() {
	node, err := evmtest.Listen(&evmtest.Options{BlockTime: 20 * time.Millisecond}) // or a node of your own
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	if err := payByIntent(context.Background(), memory.New(), node.URL(), node.Blocks()[0].Hash, evmtest.Dev(0).Key(), evmtest.Dev(1).Address()); err != nil {
		fmt.Println(err)
	}
	// Output: invoice 4711 committed in a block: true for 21000 gas
}

// Several payments of one account are under way at once, each with the next nonce.
func Example_evmSeveralIntents() {
	node, err := evmtest.Listen(&evmtest.Options{BlockTime: 20 * time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	if err := payAll(context.Background(), memory.New(), node, evmtest.Dev(0).Key(), evmtest.Dev(1).Address()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// invoice 1 committed
	// invoice 2 committed
	// invoice 3 committed
	// the account's next nonce: 3
}

func payAll(ctx context.Context, st store.Store, node *evmtest.Node, key []byte, to string) error {
	signer, err := evm.NewKeySigner(key)
	if err != nil {
		return err
	}
	ledger, err := evm.NewSigner(node.URL(), 1337, signer, &evm.SignerOptions{
		Options: evm.Options{Genesis: node.Blocks()[0].Hash, Finality: evm.After(3)},
	})
	if err != nil {
		return err
	}
	defer ledger.CloseIdleConnections()
	runner, err := dltbatch.New(st, ledger, &dltbatch.Options{Strategy: queuer.Pipelined(4)})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- runner.Run(ctx) }()
	var keys []batch.Key
	for i := range 3 {
		payment := evm.Intent{To: to, Value: big.NewInt(1_000_000)}
		b, err := payment.Batch(batch.ID(fmt.Sprint("invoice ", i+1)), signer.Accounts()[0])
		if err == nil {
			err = runner.Add(ctx, b)
		}
		if err != nil {
			stop()
			return errors.Join(err, <-done)
		}
		keys = append(keys, b.Key())
	}
	for _, k := range keys {
		rec, err := runner.Await(ctx, k)
		if err != nil {
			stop()
			return errors.Join(err, <-done)
		}
		fmt.Println(k.ID, rec.State)
	}
	next, _ := node.Nonce(signer.Accounts()[0])
	fmt.Println("the account's next nonce:", next)
	stop()
	return <-done
}
