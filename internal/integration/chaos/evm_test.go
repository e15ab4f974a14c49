package chaos

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/evm"
	"github.com/dltbatch/dltbatch/dlt/evm/evmtest"
	"github.com/dltbatch/dltbatch/internal/geth"
)

// A kill removes at most maxLostBlocks blocks, because the node makes no block while this many are
// not written to disk. A reorganization replaces at most maxReorg blocks. A block with more than
// deep blocks above it is final.
const (
	blockInterval = 250 * time.Millisecond
	maxLostBlocks = 10
	maxReorg      = 3
	settledDepth  = maxLostBlocks + maxReorg + 1
	// blocksPerPayday is the number of blocks between two times at which all accounts get funds. A
	// reorganization may undo the first payment.
	blocksPerPayday = 8
	chainID         = geth.ChainID
)

var (
	shopAddress  = evmtest.Named("the shop").Address()
	otherAddress = evmtest.Named("elsewhere").Address()
)

// payer returns the account of a lane.
func payer(lane int) evmtest.Account { return evmtest.Named("payer " + strconv.Itoa(lane)) }

// newIntent returns a payment whose data is its id, so that the chain shows what was executed.
func newIntent(account batch.ServiceID, rng *rand.Rand) (batch.Batch, error) {
	id := fmt.Sprintf("%016x", rng.Uint64())
	data, err := hex.DecodeString(id)
	if err != nil {
		return batch.Batch{}, err
	}
	return evm.Intent{To: shopAddress, Value: big.NewInt(1), Data: data, Gas: 40_000}.Batch(batch.ID(id), string(account))
}

// newPayment returns a signed transaction of a lane. Its data distinguishes it from transactions
// of other senders.
func newPayment(account batch.ServiceID, nonce uint64) (batch.Batch, error) {
	for lane := range laneCount {
		if from := payer(lane); from.Address() == string(account) {
			raw, _ := from.Sign(evmtest.Unsigned{
				ChainID: chainID, Nonce: nonce, To: shopAddress, Value: big.NewInt(1), Data: []byte{1}, Gas: 40_000, Tip: big.NewInt(2e9), FeeCap: big.NewInt(400e9),
			})
			return evm.NewBatch(raw)
		}
	}
	return batch.Batch{}, fmt.Errorf("%s is no lane", account)
}

// newSignedClient returns a worker's client for signed transactions. Its Grace is longer than a
// few blocks, so that what it remembers of the node's pool is used.
func (j childJob) newSignedClient() (dlt.Ledger, error) {
	return evm.New(j.URL, chainID, &evm.Options{Finality: evm.After(settledDepth), LateArrival: lateArrival, Grace: 5 * time.Second, HeadInterval: blockInterval / 2})
}

// newIntentClient returns a worker's client for intents. Its signer has all keys, and sometimes
// fails.
func (j childJob) newIntentClient() (dlt.Ledger, error) {
	var keys [][]byte
	for lane := range laneCount {
		keys = append(keys, payer(lane).Key())
	}
	keep, err := evm.NewKeySigner(keys...)
	if err != nil {
		return nil, err
	}
	return evm.NewSigner(j.URL, chainID, &failingSigner{Signer: keep, rng: rand.New(rand.NewPCG(j.Seed, 5))}, &evm.SignerOptions{
		Options:     evm.Options{Finality: evm.After(settledDepth), LateArrival: lateArrival, Grace: lateArrival},
		SignTimeout: requestTimeout / 3,
	})
}

// failingSigner is a signer that fails one time in ten.
type failingSigner struct {
	evm.Signer
	mu  sync.Mutex
	rng *rand.Rand
}

// Sign implements [evm.Signer].
func (m *failingSigner) Sign(ctx context.Context, account string, tx evm.Unsigned) ([65]byte, error) {
	m.mu.Lock()
	mood := m.rng.IntN(50)
	m.mu.Unlock()
	switch mood {
	case 0:
		panic("gremlins")
	case 1:
		<-ctx.Done()
		return [65]byte{}, ctx.Err()
	case 2:
		return m.Signer.Sign(ctx, payer(int(tx.Nonce)%laneCount).Address(), tx)
	case 3:
		tx.Hash[0] ^= 1
	case 4:
		return [65]byte{}, errors.New("over the daily limit")
	}
	return m.Signer.Sign(ctx, account, tx)
}

// evmFaults are the faults of a chain, in addition to those of every ledger.
var evmFaults = []fault{
	{"blocks replaced", fixedObject("ledger"), func(f *faultInjector, _ string, d randomPair) error {
		return f.world.controlLedger("POST", fmt.Sprintf("/reorg?depth=%d", 1+int(d[0]*maxReorg)%maxReorg), nil)
	}},
	{"pool forgotten", fixedObject("ledger"), func(f *faultInjector, _ string, _ randomPair) error {
		return f.world.controlLedger("POST", "/forget", nil)
	}},
	{"somebody else uses the key", fixedObject("ledger"), func(f *faultInjector, _ string, d randomPair) error {
		// The nonce is that of the next intent, or of the one under way.
		return f.world.nodeRPC().sendForeign(payer(int(d[0]*laneCount)), d[1] < 0.7, big.NewInt(1))
	}},
	{"the price leaps", fixedObject("ledger"), func(f *faultInjector, _ string, d randomPair) error {
		return f.world.controlLedger("POST", fmt.Sprintf("/price?gwei=%d", 10+int(d[0]*100)), nil)
	}},
	{"an account runs dry", fixedObject("ledger"), func(f *faultInjector, _ string, d randomPair) error { // it has funds again at the next payday
		return f.world.controlLedger("POST", fmt.Sprintf("/dry?lane=%d", int(d[0]*laneCount)), nil)
	}},
}

// withdrawalFault is a fault for intents only. Most intents under way are in blocks already, so
// the fault also takes back the last blocks and empties the pool: then a withdrawal takes the
// nonce, or the intent is mined all the same.
var withdrawalFault = fault{"a person withdraws intents", fixedObject("ledger"), func(f *faultInjector, _ string, d randomPair) error {
	if err := f.world.withdrawIntents(f.st); err != nil {
		return err
	}
	time.Sleep(d.durationBetween(0, 0, 4*blockInterval))
	return errors.Join(f.world.controlLedger("POST", fmt.Sprintf("/reorg?depth=%d", maxReorg), nil), f.world.controlLedger("POST", "/forget", nil))
}}

// sendForeign sends a transfer that no worker knows of, with the account's next nonce on the
// chain, or with the nonce after those in the pool.
func (r rpc) sendForeign(from evmtest.Account, next bool, wei *big.Int) error {
	nonce, err := r.nonce(from, map[bool]string{true: "latest", false: "pending"}[next])
	if err != nil {
		return err
	}
	raw, _ := from.Sign(evmtest.Unsigned{ChainID: chainID, Nonce: nonce, To: otherAddress, Value: wei, Tip: big.NewInt(20e9), FeeCap: big.NewInt(400e9)})
	if err := r.call(nil, "eth_sendRawTransaction", "0x"+hex.EncodeToString(raw)); err != nil && !errors.Is(err, errRefused) {
		return err
	}
	return nil
}

var initialFunds = evmtest.Ether(10)

// chain is a backend that is an EVM node. Its methods wait during a restart.
type chain interface {
	ledgerBackend
	reorg(depth int) error
	dropPool() error             // empties the pool
	setPrice(gwei int) error     // sets the price of the next block
	drainAccount(lane int) error // takes the account's funds
}

// serveControls serves the control requests of a chain.
func serveControls(mux *http.ServeMux, c chain) {
	for path, do := range map[string]func(int) error{
		"/reorg": c.reorg, "/forget": func(int) error { return c.dropPool() }, "/price": c.setPrice, "/dry": c.drainAccount,
	} {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
			n := 0
			for _, value := range r.URL.Query() {
				n, _ = strconv.Atoi(value[0])
			}
			if err := do(n); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
			}
		})
	}
}

// produceBlocks makes blocks until the process ends.
func produceBlocks(block func(pays bool) error) {
	for tick := 1; ; tick++ {
		time.Sleep(blockInterval)
		if err := block(tick%blocksPerPayday == 0); err != nil {
			fmt.Fprintln(os.Stderr, "mine:", err)
		}
	}
}

func (w *world) nodeRPC() rpc { return rpc(w.ledger.firstLine[0]) }

// rpc is the address of a node.
type rpc string

// errRefused says that the node answered with an error.
var errRefused = errors.New("the node refuses")

func (r rpc) call(out any, method string, params ...any) error {
	if params == nil {
		params = []any{}
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return err
	}
	resp, err := http.Post(string(r), "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var answer struct {
		Result json.RawMessage
		Error  *struct{ Message string }
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Error != nil {
		return fmt.Errorf("%w: %s: %s", errRefused, method, answer.Error.Message)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer.Result, out)
}

func (r rpc) quantity(method string, params ...any) (uint64, error) {
	var text string
	if err := r.call(&text, method, params...); err != nil {
		return 0, err
	}
	return strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 64)
}

func (r rpc) nonce(a evmtest.Account, tag string) (uint64, error) {
	return r.quantity("eth_getTransactionCount", a.Address(), tag)
}

// accountText returns what the node shows of an account, for the report about a lane that does not
// move.
func (r rpc) accountText(account string) string {
	var next, pending, funds string
	head, err := r.quantity("eth_blockNumber")
	err = errors.Join(err, r.call(&next, "eth_getTransactionCount", account, "latest"), r.call(&pending, "eth_getTransactionCount", account, "pending"),
		r.call(&funds, "eth_getBalance", account, "latest"))
	pool, queued, failed := r.pool(account)
	err = errors.Join(err, failed)
	var used []string
	for n := range head + 1 {
		var block struct {
			Transactions []struct{ From, Nonce, Hash string }
		}
		err = errors.Join(err, r.call(&block, "eth_getBlockByNumber", "0x"+strconv.FormatUint(n, 16), true))
		for _, tx := range block.Transactions {
			if tx.From == account {
				used = append(used, fmt.Sprintf("%s in %d by %s", tx.Nonce, n, tx.Hash))
			}
		}
	}
	return fmt.Sprintf("%s at block %d: next nonce %s, with the pool %s, funds %s, pool %v, queued %v, nonces used: %s; %v", account, head, next, pending, funds, pool, queued, strings.Join(used, ", "), err)
}

// pool returns the account's transactions in the pool as a map from nonce to fee cap: pending are
// those that the next block may have, and queued those that wait for an earlier nonce.
func (r rpc) pool(account string) (pending, queued map[string]string, err error) {
	type transactions map[string]map[string]struct{ MaxFeePerGas string }
	var all struct{ Pending, Queued transactions }
	if err := r.call(&all, "txpool_content"); err != nil {
		return nil, nil, err
	}
	of := func(all transactions) map[string]string {
		out := map[string]string{}
		for from, txs := range all {
			if !strings.EqualFold(from, account) {
				continue
			}
			for nonce, tx := range txs {
				out[nonce] = tx.MaxFeePerGas
			}
		}
		return out
	}
	return of(all.Pending), of(all.Queued), nil
}

// executed reads the whole chain. except is an account whose transactions are left out, because no
// test added them.
func (r rpc) executed(signed bool, except string) (out report) {
	fail := func(err error) report { return report{Breach: err.Error()} }
	head, err := r.quantity("eth_blockNumber")
	if err != nil {
		return fail(err)
	}
	for n := range head + 1 {
		var block struct {
			Transactions []struct{ From, Input, Hash, Nonce string }
		}
		if err := r.call(&block, "eth_getBlockByNumber", "0x"+strconv.FormatUint(n, 16), true); err != nil {
			return fail(err)
		}
		for _, tx := range block.Transactions {
			id := strings.TrimPrefix(tx.Input, "0x")
			switch {
			case tx.From == except:
				continue
			case id == "":
				nonce, err := strconv.ParseUint(strings.TrimPrefix(tx.Nonce, "0x"), 16, 64)
				if err != nil {
					return fail(err)
				}
				out.Used = append(out.Used, usedNonce{batch.ServiceID(tx.From), nonce})
				out.Foreign++
				continue
			case signed:
				id = tx.Hash
			}
			out.Executed = append(out.Executed, execution{batch.ServiceID(tx.From), batch.ID(id)})
		}
	}
	return out
}
