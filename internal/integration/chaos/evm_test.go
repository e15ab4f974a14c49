package chaos

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/evm"
	"github.com/dltbatch/dltbatch/dlt/evm/evmtest"
	"github.com/dltbatch/dltbatch/internal/anvil"
	"github.com/dltbatch/dltbatch/internal/binaries"
)

// A kill takes back at most mayLose blocks, because no block is made while so many are not written
// down, and a reorganization at most maxReorg: deep is a block above which there are more.
const (
	blockEvery = 250 * time.Millisecond
	mayLose    = 10
	maxReorg   = 3
	deep       = mayLose + maxReorg + 1
)

var (
	shop      = evmtest.Named("the shop").Address()
	elsewhere = evmtest.Named("elsewhere").Address()
)

// payer is the account of a lane.
func payer(lane int) evmtest.Account { return evmtest.Named("payer " + strconv.Itoa(lane)) }

// intent is a payment whose data is its id, so that the chain tells what was executed.
func intent(account batch.ServiceID, rng *rand.Rand) (batch.Batch, error) {
	id := fmt.Sprintf("%016x", rng.Uint64())
	data, err := hex.DecodeString(id)
	if err != nil {
		return batch.Batch{}, err
	}
	return evm.Intent{To: shop, Value: big.NewInt(1), Data: data, Gas: 40_000}.Batch(batch.ID(id), string(account))
}

// payment is a signed transaction of a lane. Its data tells it from those of somebody else.
func payment(account batch.ServiceID, nonce uint64) (batch.Batch, error) {
	for lane := range lanes {
		if from := payer(lane); from.Address() == string(account) {
			raw, _ := from.Sign(evmtest.Unsigned{
				ChainID: 31337, Nonce: nonce, To: shop, Value: big.NewInt(1), Data: []byte{1}, Gas: 40_000, Tip: big.NewInt(2e9), FeeCap: big.NewInt(400e9),
			})
			return evm.NewBatch(raw)
		}
	}
	return batch.Batch{}, fmt.Errorf("%s is no lane", account)
}

// signed is a worker's client of signed transactions. Its Grace is longer than a few blocks, so
// that what it remembers of the node's pool is used.
func (j job) signed() (dlt.Ledger, error) {
	return evm.New(j.URL, 31337, &evm.Options{Finality: evm.After(deep), LateArrival: lateArrival, Grace: 5 * time.Second, HeadInterval: blockEvery / 2})
}

// intents is a worker's client. Its signer has all keys, and fails at times.
func (j job) intents() (dlt.Ledger, error) {
	var keys [][]byte
	for lane := range lanes {
		keys = append(keys, payer(lane).Key())
	}
	keep, err := evm.NewKeySigner(keys...)
	if err != nil {
		return nil, err
	}
	return evm.NewSigner(j.URL, 31337, &moody{Signer: keep, rng: rand.New(rand.NewPCG(j.Seed, 5))}, &evm.SignerOptions{
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

// evmKinds are the faults of a chain, beside those of every ledger.
var evmKinds = []fault{
	{"blocks replaced", only("ledger"), func(f *faults, _ string, d draw) error {
		// A node that has just started has no state to go back to, until it has made some blocks.
		var err error
		for range 100 {
			if err = f.w.chain().call(nil, "anvil_reorg", 1+int(d[0]*maxReorg)%maxReorg, []any{}); !errors.Is(err, errRefused) {
				break
			}
			time.Sleep(blockEvery)
		}
		return err
	}},
	{"pool forgotten", only("ledger"), func(f *faults, _ string, _ draw) error {
		return f.w.chain().call(nil, "anvil_dropAllTransactions")
	}},
	{"somebody else uses the key", only("ledger"), func(f *faults, _ string, d draw) error {
		// At the nonce that the next intent will have, or the one under way has.
		from := payer(int(d[0] * lanes))
		nonce, err := f.w.chain().nonce(from, map[bool]string{true: "latest", false: "pending"}[d[1] < 0.7])
		if err != nil {
			return err
		}
		raw, _ := from.Sign(evmtest.Unsigned{ChainID: 31337, Nonce: nonce, To: elsewhere, Value: big.NewInt(1), Tip: big.NewInt(20e9), FeeCap: big.NewInt(400e9)})
		if err := f.w.chain().call(nil, "eth_sendRawTransaction", "0x"+hex.EncodeToString(raw)); err != nil && !errors.Is(err, errRefused) {
			return err
		}
		return nil
	}},
	{"the price leaps", only("ledger"), func(f *faults, _ string, d draw) error {
		return f.w.chain().call(nil, "anvil_setNextBlockBaseFeePerGas", "0x"+big.NewInt(int64(10e9+d[0]*100e9)).Text(16))
	}},
	{"an account runs dry", only("ledger"), func(f *faults, _ string, d draw) error { // until the next payday
		return f.w.chain().call(nil, "anvil_setBalance", payer(int(d[0]*lanes)).Address(), "0x0")
	}},
}

var funds = "0x" + evmtest.Ether(10).Text(16)

func (w *world) chain() rpc { return rpc(w.ledger.said[0]) }

// rpc is the address of a node.
type rpc string

// errRefused: the node answered with an error.
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

// about is what the node shows of an account, for whoever asks why its lane stands still.
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

// pool returns the nonces of an account's transactions that the next block may have, and of those
// that wait for an earlier one, each with its fee cap.
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

// forgets reports whether anvil has put an account's next transaction behind one that is mined
// already. It never mines it (docs/ledgers/evm.md#22-what-an-acceptance-is-worth).
func (r rpc) forgets(account string) bool {
	_, queued, err := r.pool(account)
	if err != nil || len(queued) == 0 {
		return false
	}
	next, err := r.quantity("eth_getTransactionCount", account, "latest")
	_, is := queued[strconv.FormatUint(next, 10)]
	return err == nil && is
}

// evmBackend is anvil. Its chain is as durable as the file that it writes once a second.
type evmBackend struct {
	rpc
	mu       sync.Mutex
	n        *anvil.Node
	restarts int
	// saved is the last file that was whole, written at savedAt, and has the blocks up to height.
	saved   []byte
	savedAt time.Time
	height  uint64
	began   string // the time of block 0
	signed  bool   // a transaction is known by its hash, and not by its data
}

func newEVM(dir string, signed bool) (backend, error) {
	bin, err := binaries.Anvil().Bring()
	if err != nil {
		return nil, err
	}
	n, err := anvil.Run(bin, dir, "--no-mining")
	if err != nil {
		return nil, err
	}
	b := &evmBackend{rpc: rpc(n.URL()), n: n, signed: signed}
	if err := b.fund(); err != nil {
		return nil, err
	}
	for range maxReorg + 1 {
		if err := b.call(nil, "evm_mine"); err != nil {
			return nil, err
		}
	}
	for b.height <= maxReorg { // before that a kill would begin another chain
		time.Sleep(50 * time.Millisecond)
		if err := b.save(); err != nil {
			return nil, err
		}
	}
	go func() { // ends with the process
		for tick := 1; ; tick++ {
			time.Sleep(blockEvery)
			if err := b.mine(tick%payday == 0); err != nil {
				fmt.Fprintln(os.Stderr, "mine:", err)
			}
		}
	}()
	return b, nil
}

func (b *evmBackend) fund() error {
	for lane := range lanes {
		if err := b.call(nil, "anvil_setBalance", payer(lane).Address(), funds); err != nil {
			return err
		}
	}
	return nil
}

// save remembers the node's file, if it is a new one and whole.
func (b *evmBackend) save() error {
	info, err := os.Stat(b.n.State())
	if errors.Is(err, os.ErrNotExist) || err == nil && info.ModTime().Equal(b.savedAt) {
		return nil
	}
	if err != nil {
		return err
	}
	text, err := os.ReadFile(b.n.State())
	if err != nil {
		return err
	}
	// anvil makes a block 0 at each start, and writes down those that it had, too. Which of them
	// it takes at the next start is chance, and makes it another chain: only the first is handed
	// on.
	var state map[string]json.RawMessage
	var head uint64
	var blocks []json.RawMessage
	if json.Unmarshal(text, &state) != nil || json.Unmarshal(state["best_block_number"], &head) != nil || json.Unmarshal(state["blocks"], &blocks) != nil {
		return nil // only a part of it was written
	}
	if !ofOneMoment(text) {
		return nil
	}
	blocks = slices.DeleteFunc(blocks, func(block json.RawMessage) bool {
		var doc struct {
			Header struct{ Number, Timestamp string }
		}
		if json.Unmarshal(block, &doc) != nil || doc.Header.Number != "0x0" {
			return false
		}
		b.began = cmp.Or(b.began, doc.Header.Timestamp)
		return doc.Header.Timestamp != b.began
	})
	if state["blocks"], err = json.Marshal(blocks); err != nil {
		return err
	}
	if b.saved, err = json.Marshal(state); err != nil {
		return err
	}
	b.savedAt, b.height = info.ModTime(), head
	return nil
}

// ofOneMoment reports whether a state file has all blocks, whether each account has sent as many
// transactions as they have, and whether there is a receipt for just these. anvil does not stop
// while it writes, so that the accounts or the receipts may be those after a block that is
// missing. A node that starts with such a file has an effect that no block explains, or for ever a
// receipt of a block that it does not have, which no chain of several nodes can have.
func ofOneMoment(text []byte) bool {
	var state struct {
		Accounts map[string]struct{ Nonce uint64 }
		Best     uint64 `json:"best_block_number"`
		Blocks   []struct {
			Header       struct{ Number string }
			Transactions []struct{ Transaction struct{ Hash string } }
		}
		Transactions []struct {
			Info struct {
				Hash string `json:"transaction_hash"`
				From string
			}
		}
	}
	if json.Unmarshal(text, &state) != nil {
		return false
	}
	from, sent := map[string]string{}, map[string]uint64{}
	for _, tx := range state.Transactions {
		from[tx.Info.Hash] = tx.Info.From
	}
	heights := map[string]struct{}{}
	for _, block := range state.Blocks {
		heights[block.Header.Number] = struct{}{}
		for _, tx := range block.Transactions {
			sent[from[tx.Transaction.Hash]]++
			delete(from, tx.Transaction.Hash)
		}
	}
	if len(from) > 0 || uint64(len(heights)) != state.Best+1 {
		return false
	}
	for lane := range lanes {
		payer := payer(lane).Address()
		if sent[payer] != state.Accounts[payer].Nonce {
			return false
		}
	}
	return true
}

// payday is how many blocks there are between two times at which all accounts have funds: a
// reorganization may take back the first.
const payday = 8

func (b *evmBackend) mine(pays bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.save(); err != nil {
		return err
	}
	if pays {
		if err := b.fund(); err != nil {
			return err
		}
	}
	head, err := b.quantity("eth_blockNumber")
	if err != nil || head >= b.height+mayLose {
		return err
	}
	return b.call(nil, "evm_mine")
}

// restart kills the node. What it had not written down is gone, and its pool.
func (b *evmBackend) restart(down time.Duration) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.n.Kill(); err != nil {
		return err
	}
	time.Sleep(down)
	if err := b.save(); err != nil {
		return err
	}
	if err := os.WriteFile(b.n.State(), b.saved, 0o600); err != nil { // it may have been killed while it wrote
		return err
	}
	b.restarts++
	if err := b.n.Resume("--no-mining"); err != nil {
		return err
	}
	return b.fund()
}

func (b *evmBackend) url() string { return string(b.rpc) }

// report reads the whole chain.
func (b *evmBackend) report() (r report) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fail := func(err error) report { return report{Breach: err.Error()} }
	head, err := b.quantity("eth_blockNumber")
	if err != nil {
		return fail(err)
	}
	r.Restarts = b.restarts
	for n := range head + 1 {
		var block struct {
			Transactions []struct{ From, Input, Hash, Nonce string }
		}
		if err := b.call(&block, "eth_getBlockByNumber", "0x"+strconv.FormatUint(n, 16), true); err != nil {
			return fail(err)
		}
		for _, tx := range block.Transactions {
			id := strings.TrimPrefix(tx.Input, "0x")
			if id == "" {
				nonce, err := strconv.ParseUint(strings.TrimPrefix(tx.Nonce, "0x"), 16, 64)
				if err != nil {
					return fail(err)
				}
				r.Used = append(r.Used, use{batch.ServiceID(tx.From), nonce})
				r.Foreign++
				continue
			}
			if b.signed {
				id = tx.Hash
			}
			r.Executed = append(r.Executed, execution{batch.ServiceID(tx.From), batch.ID(id)})
		}
	}
	return r
}
