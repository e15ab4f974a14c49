package geth

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net"
	"strconv"
	"strings"
	"time"
)

// A block is safe with safeDepth blocks on top, and finalized with finalizedDepth, unless the
// options say otherwise. A chain of geth --dev finalizes the last block of each epoch.
const (
	safeDepth      = 2
	finalizedDepth = 4
	devEpoch       = 32
)

// A chain of geth --dev pays the tips to this account, and its blocks name the version of geth.
const (
	feeRecipient = "0x71562b71999873db5b286df957af199ec94617f7"
	extraData    = "0xd883011108846765746888676f312e32362e38856c696e7578" // 1.17.8, geth, go1.26.8, linux
)

// payload is a block as the node and its consensus client pass it to each other.
type payload struct {
	hash, timestamp   string
	execution         json.RawMessage
	executionRequests json.RawMessage
	blobHashes        []string // the hashes of its transactions' blobs
}

const zeroHash = "0x0000000000000000000000000000000000000000000000000000000000000000"

// Seal makes a block of the transactions that the pool offers at this moment.
func (n *Node) Seal() error {
	p, _, err := n.buildBlock(nil)
	if err != nil {
		return err
	}
	return n.addBlock(p)
}

// Mine makes a block of as many transactions of the pool as fit. It waits until the pool has
// processed the last block and each transaction that the node has accepted.
func (n *Node) Mine() error {
	want, err := n.countDue()
	if err != nil {
		return err
	}
	var p payload
	for wait := time.Millisecond; wait < time.Second; wait *= 2 {
		var got int
		if p, got, err = n.buildBlock(nil); err != nil {
			return err
		}
		if got >= want {
			break
		}
		time.Sleep(wait)
	}
	return n.addBlock(p)
}

// MakeBlock makes a block of these transactions, and of none of the pool's.
func (n *Node) MakeBlock(raw ...[]byte) error {
	list := make([]string, len(raw))
	for i, tx := range raw {
		list[i] = "0x" + hex.EncodeToString(tx)
	}
	p, _, err := n.buildBlock(list)
	if err != nil {
		return err
	}
	return n.addBlock(p)
}

// Reorg replaces the last blocks by as many others. The first of them has the given transactions,
// and the others have none: the node puts the old blocks' transactions back into its pool.
func (n *Node) Reorg(depth int, raw ...[]byte) error {
	height := len(n.blocks) - 1 - depth
	if depth < 1 || height < 0 {
		return fmt.Errorf("a reorganization of %d blocks: want 1 to %d", depth, len(n.blocks)-1)
	}
	if err := n.setHead(height); err != nil {
		return err
	}
	if err := n.MakeBlock(raw...); err != nil {
		return err
	}
	for range depth - 1 {
		if err := n.MakeBlock(); err != nil {
			return err
		}
	}
	return nil
}

// Height returns the number of the last block.
func (n *Node) Height() int { return len(n.blocks) - 1 }

// countDue returns how many transactions the next block should have, if there is room and there
// are funds for all: those that follow the nonces of their accounts and pay its base fee.
func (n *Node) countDue() (count int, err error) {
	var fees struct{ BaseFeePerGas []string }
	if err := n.callMethod(&fees, "eth_feeHistory", "0x1", "latest", []int{}); err != nil {
		return 0, err
	}
	price := parseQuantity(fees.BaseFeePerGas[len(fees.BaseFeePerGas)-1])
	type transactions map[string]map[string]struct{ GasPrice, MaxFeePerGas string }
	var pool struct{ Pending, Queued transactions }
	if err := n.callMethod(&pool, "txpool_content"); err != nil {
		return 0, err
	}
	paid := map[string]map[string]bool{}
	for _, part := range []transactions{pool.Pending, pool.Queued} {
		for from, all := range part {
			if paid[from] == nil {
				paid[from] = map[string]bool{}
			}
			for nonce, tx := range all {
				most := tx.MaxFeePerGas
				if most == "" {
					most = tx.GasPrice
				}
				paid[from][nonce] = parseQuantity(most).Cmp(price) >= 0
			}
		}
	}
	for from, nonces := range paid {
		var next string
		if err := n.callMethod(&next, "eth_getTransactionCount", from, "latest"); err != nil {
			return 0, err
		}
		for nonce := parseQuantity(next).Uint64(); nonces[strconv.FormatUint(nonce, 10)]; nonce++ {
			count++
		}
	}
	return count, nil
}

// buildBlock builds a block on the head, and returns how many transactions it has. If list is nil,
// it takes the pool's transactions.
func (n *Node) buildBlock(list []string) (p payload, count int, err error) {
	head := n.blocks[len(n.blocks)-1]
	at := max(time.Now().Unix(), parseQuantity(head.timestamp).Int64()+1)
	n.buildCount++ // so that no two blocks are the same
	attributes := map[string]any{
		"timestamp": "0x" + strconv.FormatInt(at, 16), "prevRandao": fmt.Sprintf("0x%064x", n.buildCount), "suggestedFeeRecipient": feeRecipient,
		"withdrawals": []any{}, "parentBeaconBlockRoot": zeroHash,
	}
	var txs any
	if list != nil {
		txs = list
	}
	var built struct {
		ExecutionPayload  json.RawMessage
		ExecutionRequests json.RawMessage
		BlobsBundle       struct{ Commitments []string }
	}
	if err := n.callMethod(&built, "testing_buildBlockV1", head.hash, attributes, txs, extraData); err != nil {
		return p, 0, err
	}
	var block struct {
		BlockHash    string   `json:"blockHash"`
		Timestamp    string   `json:"timestamp"`
		Transactions []string `json:"transactions"`
	}
	if err := json.Unmarshal(built.ExecutionPayload, &block); err != nil {
		return p, 0, err
	}
	if len(built.ExecutionRequests) == 0 || string(built.ExecutionRequests) == "null" {
		built.ExecutionRequests = json.RawMessage("[]")
	}
	blobs := []string{}
	for _, text := range built.BlobsBundle.Commitments {
		commitment, err := hex.DecodeString(strings.TrimPrefix(text, "0x"))
		if err != nil {
			return p, 0, fmt.Errorf("commitment of a blob: %w", err)
		}
		hash := sha256.Sum256(commitment)
		hash[0] = 1 // EIP-4844
		blobs = append(blobs, "0x"+hex.EncodeToString(hash[:]))
	}
	return payload{block.BlockHash, block.Timestamp, built.ExecutionPayload, built.ExecutionRequests, blobs}, len(block.Transactions), nil
}

// addBlock adds a block to the chain as its head.
func (n *Node) addBlock(p payload) error {
	if err := n.sendPayload(p); err != nil {
		return err
	}
	n.blocks = append(n.blocks, p)
	return n.setHead(len(n.blocks) - 1)
}

func (n *Node) sendPayload(p payload) error {
	var status struct{ Status, ValidationError string }
	if err := n.callMethod(&status, "engine_newPayloadV4", p.execution, p.blobHashes, zeroHash, p.executionRequests); err != nil {
		return err
	}
	if status.Status != "VALID" {
		return fmt.Errorf("block %s is %s: %s", p.hash, status.Status, status.ValidationError)
	}
	return nil
}

// restoreLostBlocks sends a node that has just started the blocks that it has lost, except the
// last lose blocks of the chain. The node may also have gone back to blocks that were replaced.
func (n *Node) restoreLostBlocks(lose int) error {
	var head string
	if err := n.callMethod(&head, "eth_blockNumber"); err != nil {
		return err
	}
	last := max(0, n.Height()-lose)
	has := int(parseQuantity(head).Int64()) // the node may show blocks above it, too
	if has <= last {
		n.blocks = n.blocks[:last+1]
	}
	has = min(has, n.Height())
	for ; has > 0; has-- {
		var b struct{ Hash string }
		if err := n.callMethod(&b, "eth_getBlockByNumber", "0x"+strconv.FormatInt(int64(has), 16), false); err != nil {
			return err
		}
		if b.Hash == n.blocks[has].hash {
			break
		}
	}
	// A node that has just started keeps its own head, and ignores any other block that it has.
	if err := n.tellHead(has); err != nil {
		return err
	}
	for height := has + 1; height <= n.Height(); height++ {
		// The node may have the block without the state after it.
		if err := n.sendPayload(n.blocks[height]); err != nil {
			return err
		}
		if err := n.tellHeadAndCheck(height); err != nil {
			return err
		}
	}
	return n.setHead(last)
}

// setHead makes the block at a height the head, and forgets the blocks above it.
func (n *Node) setHead(height int) error {
	n.blocks = n.blocks[:height+1]
	return n.tellHeadAndCheck(height)
}

// tellHead tells the node which block is the head, and which ones are then safe and finalized.
func (n *Node) tellHead(height int) error {
	at := func(depth int) string { return n.blocks[max(0, height-depth)].hash }
	safe, finalized := at(safeDepth), at(cmp.Or(n.options.FinalizedAfter, finalizedDepth))
	if n.options.Dev {
		safe, finalized = at(0), at(height%devEpoch)
	}
	var answer struct {
		PayloadStatus struct{ Status, ValidationError string }
	}
	if err := n.callMethod(&answer, "engine_forkchoiceUpdatedV3", map[string]string{
		"headBlockHash": at(0), "safeBlockHash": safe, "finalizedBlockHash": finalized,
	}, nil); err != nil {
		return err
	}
	if status := answer.PayloadStatus; status.Status != "VALID" {
		return fmt.Errorf("head %s is %s: %s", at(0), status.Status, status.ValidationError)
	}
	return nil
}

// tellHeadAndCheck is tellHead, and makes sure that the node has this head.
func (n *Node) tellHeadAndCheck(height int) error {
	if err := n.tellHead(height); err != nil {
		return err
	}
	var head struct{ Hash string }
	if err := n.callMethod(&head, "eth_getBlockByNumber", "latest", false); err != nil {
		return err
	}
	if want := n.blocks[height].hash; head.Hash != want {
		return fmt.Errorf("the head is %s: want %s", head.Hash, want)
	}
	return nil
}

// errRefused means that the node answered with an error.
var errRefused = errors.New("geth refuses")

// callMethod calls a method over the node's socket, which also has the methods for its consensus
// client.
func (n *Node) callMethod(out any, method string, params ...any) error {
	if params == nil {
		params = []any{}
	}
	c, err := net.Dial("unix", n.socket())
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	if err := json.NewEncoder(c).Encode(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params}); err != nil {
		return err
	}
	var answer struct {
		Result json.RawMessage `json:"result"`
		Error  *struct {
			Message string `json:"message"`
			Data    any    `json:"data"`
		} `json:"error"`
	}
	if err := json.NewDecoder(c).Decode(&answer); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	if answer.Error != nil {
		return fmt.Errorf("%w: %s: %s %v", errRefused, method, answer.Error.Message, answer.Error.Data)
	}
	return json.Unmarshal(answer.Result, out)
}

func parseQuantity(text string) *big.Int {
	n, ok := new(big.Int).SetString(text, 0)
	if !ok {
		return new(big.Int)
	}
	return n
}
