package chaos

import (
	"cmp"
	"encoding/json"
	"errors"
	"math/big"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/internal/anvil"
	"github.com/dltbatch/dltbatch/internal/binaries"
)

// hasStuckNext reports whether anvil holds an account's next transaction as the successor of one
// that is mined already. anvil never mines it
// (docs/ledgers/evm.md#22-what-an-acceptance-is-worth).
func (r rpc) hasStuckNext(account string) bool {
	_, queued, err := r.pool(account)
	if err != nil || len(queued) == 0 {
		return false
	}
	next, err := r.quantity("eth_getTransactionCount", account, "latest")
	_, is := queued[strconv.FormatUint(next, 10)]
	return err == nil && is
}

// maxTornTime is how long the chain stands still before the node starts again from its last whole
// file. anvil writes the file once a second.
const maxTornTime = 20 * time.Second

var withoutMining = []string{"--no-mining", "--chain-id", strconv.Itoa(chainID)}

// anvilBackend runs anvil. Its chain is as durable as the file that anvil writes once a second.
type anvilBackend struct {
	rpc
	mu       sync.Mutex
	node     *anvil.Node
	restarts int
	// savedState is the last complete state file, written at savedAt; it has the blocks up to
	// savedHeight.
	savedState  []byte
	savedAt     time.Time
	savedHeight uint64
	genesisTime string // the timestamp of block 0
	isSigned    bool   // true if a transaction is known by its hash, false if by its data
}

func newAnvil(dir string, signed bool) (chain, error) {
	bin, err := binaries.Anvil().Bring()
	if err != nil {
		return nil, err
	}
	n, err := anvil.Run(bin, dir, withoutMining...)
	if err != nil {
		return nil, err
	}
	b := &anvilBackend{rpc: rpc(n.URL()), node: n, isSigned: signed}
	if err := b.fund(); err != nil {
		return nil, err
	}
	for range maxReorg + 1 {
		if err := b.call(nil, "evm_mine"); err != nil {
			return nil, err
		}
	}
	for b.savedHeight <= maxReorg { // a kill before these blocks would start a new chain
		time.Sleep(50 * time.Millisecond)
		if err := b.save(); err != nil {
			return nil, err
		}
	}
	go produceBlocks(b.mine)
	return b, nil
}

func (b *anvilBackend) fund() error {
	for lane := range laneCount {
		if err := b.setBalance(lane, initialFunds); err != nil {
			return err
		}
	}
	return nil
}

func (b *anvilBackend) setBalance(lane int, wei *big.Int) error {
	return b.call(nil, "anvil_setBalance", payer(lane).Address(), "0x"+wei.Text(16))
}

func (b *anvilBackend) drainAccount(lane int) error { return b.setBalance(lane, new(big.Int)) }

func (b *anvilBackend) dropPool() error { return b.call(nil, "anvil_dropAllTransactions") }

func (b *anvilBackend) setPrice(gwei int) error {
	return b.call(nil, "anvil_setNextBlockBaseFeePerGas", "0x"+new(big.Int).Mul(big.NewInt(int64(gwei)), big.NewInt(1e9)).Text(16))
}

func (b *anvilBackend) reorg(depth int) error {
	// A new node has no saved state to go back to until it has made some blocks.
	var err error
	for range 100 {
		if err = b.call(nil, "anvil_reorg", depth, []any{}); !errors.Is(err, errRefused) {
			break
		}
		time.Sleep(blockInterval)
	}
	return err
}

// save keeps the node's state file, if the file is new and complete.
func (b *anvilBackend) save() error {
	info, err := os.Stat(b.node.StateFile())
	if errors.Is(err, os.ErrNotExist) || err == nil && info.ModTime().Equal(b.savedAt) {
		return nil
	}
	if err != nil {
		return err
	}
	text, err := os.ReadFile(b.node.StateFile())
	if err != nil {
		return err
	}
	// anvil makes a block 0 at each start, and also writes the earlier ones into its file. Which
	// of them it uses at the next start is random, and would change the chain, so only the first
	// is kept.
	var state map[string]json.RawMessage
	var head uint64
	var blocks []json.RawMessage
	if json.Unmarshal(text, &state) != nil || json.Unmarshal(state["best_block_number"], &head) != nil || json.Unmarshal(state["blocks"], &blocks) != nil {
		return nil // the file is incomplete
	}
	if !isConsistentState(text) {
		return nil
	}
	blocks = slices.DeleteFunc(blocks, func(block json.RawMessage) bool {
		var doc struct {
			Header struct{ Number, Timestamp string }
		}
		if json.Unmarshal(block, &doc) != nil || doc.Header.Number != "0x0" {
			return false
		}
		b.genesisTime = cmp.Or(b.genesisTime, doc.Header.Timestamp)
		return doc.Header.Timestamp != b.genesisTime
	})
	if state["blocks"], err = json.Marshal(blocks); err != nil {
		return err
	}
	if b.savedState, err = json.Marshal(state); err != nil {
		return err
	}
	b.savedAt, b.savedHeight = info.ModTime(), head
	return nil
}

// isConsistentState reports whether a state file is consistent: it has all blocks, each account
// has sent as many transactions as the blocks have, and there is a receipt for exactly these.
// anvil goes on while it writes, so the accounts or the receipts may be newer than the blocks. A
// node that starts with such a file has an effect that no block explains, or a receipt of a block
// that it does not have. No chain of several nodes can be in this state.
func isConsistentState(text []byte) bool {
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
	for lane := range laneCount {
		payer := payer(lane).Address()
		if sent[payer] != state.Accounts[payer].Nonce {
			return false
		}
	}
	return true
}

func (b *anvilBackend) mine(pays bool) error {
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
	if err != nil {
		return err
	}
	if head >= b.savedHeight+maxLostBlocks {
		// A reorganization may leave the state file inconsistent for good. Then the chain grows
		// again only after a restart from the last consistent file.
		if time.Since(b.savedAt) > maxTornTime {
			return b.restartFromFile(0)
		}
		return nil
	}
	return b.call(nil, "evm_mine")
}

// restart kills the node. It loses its pool, and everything that it had not written.
func (b *anvilBackend) restart(down time.Duration) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.restartFromFile(down)
}

// restartFromFile is restart for callers that hold b.mu.
func (b *anvilBackend) restartFromFile(down time.Duration) error {
	if err := b.node.Kill(); err != nil {
		return err
	}
	time.Sleep(down)
	if err := b.save(); err != nil {
		return err
	}
	if err := os.WriteFile(b.node.StateFile(), b.savedState, 0o600); err != nil { // the kill may have left an incomplete file
		return err
	}
	b.restarts++
	if err := b.node.Resume(withoutMining...); err != nil {
		return err
	}
	return b.fund()
}

func (b *anvilBackend) url() string { return string(b.rpc) }

func (b *anvilBackend) report() report {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.executed(b.isSigned, "")
	r.Restarts = b.restarts
	return r
}
