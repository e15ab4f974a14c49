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

// A kill removes at most mayLose blocks, because the node makes no block while this many are not
// written to disk. A reorganization replaces at most maxReorg blocks. A block with more than deep
// blocks above it is final.
const (
	blockEvery = 250 * time.Millisecond
	mayLose    = 10
	maxReorg   = 3
	deep       = mayLose + maxReorg + 1
	// payday is the number of blocks between two times at which all accounts get funds. A
	// reorganization may undo the first payment.
	payday  = 8
	chainID = geth.ChainID
)

var (
	shop      = evmtest.Named("the shop").Address()
	elsewhere = evmtest.Named("elsewhere").Address()
)

// payer returns the account of a lane.
func payer(lane int) evmtest.Account { return evmtest.Named("payer " + strconv.Itoa(lane)) }

// intent returns a payment whose data is its id, so that the chain shows what was executed.
func intent(account batch.ServiceID, rng *rand.Rand) (batch.Batch, error) {
	id := fmt.Sprintf("%016x", rng.Uint64())
	data, err := hex.DecodeString(id)
	if err != nil {
		return batch.Batch{}, err
	}
	return evm.Intent{To: shop, Value: big.NewInt(1), Data: data, Gas: 40_000}.Batch(batch.ID(id), string(account))
}

// payment returns a signed transaction of a lane. Its data distinguishes it from transactions of
// other senders.
func payment(account batch.ServiceID, nonce uint64) (batch.Batch, error) {
	for lane := range lanes {
		if from := payer(lane); from.Address() == string(account) {
			raw, _ := from.Sign(evmtest.Unsigned{
				ChainID: chainID, Nonce: nonce, To: shop, Value: big.NewInt(1), Data: []byte{1}, Gas: 40_000, Tip: big.NewInt(2e9), FeeCap: big.NewInt(400e9),
			})
			return evm.NewBatch(raw)
		}
	}
	return batch.Batch{}, fmt.Errorf("%s is no lane", account)
}

// signed returns a worker's client for signed transactions. Its Grace is longer than a few blocks,
// so that what it remembers of the node's pool is used.
func (j job) signed() (dlt.Ledger, error) {
	return evm.New(j.URL, chainID, &evm.Options{Finality: evm.After(deep), LateArrival: lateArrival, Grace: 5 * time.Second, HeadInterval: blockEvery / 2})
}

// intents returns a worker's client for intents. Its signer has all keys, and sometimes fails.
func (j job) intents() (dlt.Ledger, error) {
	var keys [][]byte
	for lane := range lanes {
		keys = append(keys, payer(lane).Key())
	}
	keep, err := evm.NewKeySigner(keys...)
	if err != nil {
		return nil, err
	}
	return evm.NewSigner(j.URL, chainID, &moody{Signer: keep, rng: rand.New(rand.NewPCG(j.Seed, 5))}, &evm.SignerOptions{
		Options:     evm.Options{Finality: evm.After(deep), LateArrival: lateArrival, Grace: lateArrival},
		SignTimeout: requestTimeout / 3,
	})
}

// moody is a signer that fails one time in ten.
type moody struct {
	evm.Signer
	mu  sync.Mutex
	rng *rand.Rand
}

// Sign implements [evm.Signer].
func (m *moody) Sign(ctx context.Context, account string, tx evm.Unsigned) ([65]byte, error) {
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
		return m.Signer.Sign(ctx, payer(int(tx.Nonce)%lanes).Address(), tx)
	case 3:
		tx.Hash[0] ^= 1
	case 4:
		return [65]byte{}, errors.New("over the daily limit")
	}
	return m.Signer.Sign(ctx, account, tx)
}

// evmKinds are the faults of a chain, in addition to those of every ledger.
var evmKinds = []fault{
	{"blocks replaced", only("ledger"), func(f *faults, _ string, d draw) error {
		return f.w.control("POST", fmt.Sprintf("/reorg?depth=%d", 1+int(d[0]*maxReorg)%maxReorg), nil)
	}},
	{"pool forgotten", only("ledger"), func(f *faults, _ string, _ draw) error {
		return f.w.control("POST", "/forget", nil)
	}},
	{"somebody else uses the key", only("ledger"), func(f *faults, _ string, d draw) error {
		// The nonce is that of the next intent, or of the one under way.
		return f.w.chain().foreign(payer(int(d[0]*lanes)), d[1] < 0.7, big.NewInt(1))
	}},
	{"the price leaps", only("ledger"), func(f *faults, _ string, d draw) error {
		return f.w.control("POST", fmt.Sprintf("/price?gwei=%d", 10+int(d[0]*100)), nil)
	}},
	{"an account runs dry", only("ledger"), func(f *faults, _ string, d draw) error { // it has funds again at the next payday
		return f.w.control("POST", fmt.Sprintf("/dry?lane=%d", int(d[0]*lanes)), nil)
	}},
}

// withdrawal is a fault for intents only. Most intents under way are in blocks already, so the
// fault also takes back the last blocks and empties the pool: then a withdrawal takes the nonce,
// or the intent is mined all the same.
var withdrawal = fault{"a person withdraws intents", only("ledger"), func(f *faults, _ string, d draw) error {
	if err := f.w.withdraw(f.st); err != nil {
		return err
	}
	time.Sleep(d.between(0, 0, 4*blockEvery))
	return errors.Join(f.w.control("POST", fmt.Sprintf("/reorg?depth=%d", maxReorg), nil), f.w.control("POST", "/forget", nil))
}}

// foreign sends a transfer that no worker knows of, with the account's next nonce on the chain, or
// with the nonce after those in the pool.
func (r rpc) foreign(from evmtest.Account, next bool, wei *big.Int) error {
	nonce, err := r.nonce(from, map[bool]string{true: "latest", false: "pending"}[next])
	if err != nil {
		return err
	}
	raw, _ := from.Sign(evmtest.Unsigned{ChainID: chainID, Nonce: nonce, To: elsewhere, Value: wei, Tip: big.NewInt(20e9), FeeCap: big.NewInt(400e9)})
	if err := r.call(nil, "eth_sendRawTransaction", "0x"+hex.EncodeToString(raw)); err != nil && !errors.Is(err, errRefused) {
		return err
	}
	return nil
}

var funds = evmtest.Ether(10)

// chain is a backend that is an EVM node. Its methods wait during a restart.
type chain interface {
	backend
	reorg(depth int) error
	forget() error        // empties the pool
	price(gwei int) error // sets the price of the next block
	dry(lane int) error   // takes the account's funds
}

// steer serves the control requests of a chain.
func steer(mux *http.ServeMux, c chain) {
	for path, do := range map[string]func(int) error{
		"/reorg": c.reorg, "/forget": func(int) error { return c.forget() }, "/price": c.price, "/dry": c.dry,
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

// produce makes blocks until the process ends.
func produce(block func(pays bool) error) {
	for tick := 1; ; tick++ {
		time.Sleep(blockEvery)
		if err := block(tick%payday == 0); err != nil {
			fmt.Fprintln(os.Stderr, "mine:", err)
		}
	}
}

func (w *world) chain() rpc { return rpc(w.ledger.said[0]) }

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

// about returns what the node shows of an account, for the report about a lane that does not move.
func (r rpc) about(account string) string {
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
				out.Used = append(out.Used, use{batch.ServiceID(tx.From), nonce})
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
