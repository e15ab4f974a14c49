package evmtest

import (
	"encoding/hex"
	"math/big"
	"strings"

	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// Fields that are the same in all blocks, because this node computes no tries and no proofs.
var (
	zeroHash    = "0x" + strings.Repeat("0", 64)
	zeroAddress = "0x" + strings.Repeat("0", 40)
	noLogs      = "0x" + strings.Repeat("0", 512)
	noUncles    = "0x1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347"
	emptyTrie   = "0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421"
	noRequests  = "0xe3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	gethMiner   = "0x71562b71999873db5b286df957af199ec94617f7"
	gethExtra   = "0xd883011108846765746888676f312e32362e38856c696e7578"
)

// quantity returns a number without leading zeros, 0 for nil.
func quantity(v *big.Int) string {
	if v == nil {
		return "0x0"
	}
	return hexBig(v)
}

func (c *call) blockJSON(b *block, full bool) map[string]any {
	txs := []any{}
	size := 0
	for _, m := range b.txs {
		size += len(m.raw)
		if full {
			txs = append(txs, c.txJSON(m.transaction, m))
		} else {
			txs = append(txs, m.hash.String())
		}
	}
	out := c.header(b)
	out["transactions"] = txs
	out["size"] = hexNumber(uint64(0x267 + size))
	if len(b.txs) > 0 { // some hash that depends on them
		root := evmtx.Keccak([]byte("transactions"), b.hash[:]).String()
		out["transactionsRoot"], out["receiptsRoot"] = root, root
	}
	return out
}

func (c *call) header(b *block) map[string]any {
	out := map[string]any{
		"hash": b.hash.String(), "parentHash": b.parent.String(), "sha3Uncles": noUncles, "miner": zeroAddress, "stateRoot": emptyTrie,
		"transactionsRoot": emptyTrie, "receiptsRoot": emptyTrie, "logsBloom": noLogs, "difficulty": "0x0", "number": hexNumber(b.number),
		"gasLimit": hexNumber(b.gasLimit), "gasUsed": hexNumber(b.gasUsed), "timestamp": hexNumber(b.seconds()), "extraData": "0x", "mixHash": zeroHash,
		"nonce": "0x0000000000000000", "baseFeePerGas": hexBig(b.baseFee), "withdrawalsRoot": emptyTrie, "blobGasUsed": hexNumber(b.blobGas), "excessBlobGas": "0x0",
		"parentBeaconBlockRoot": zeroHash, "requestsHash": noRequests, "uncles": []any{}, "withdrawals": []any{},
	}
	if c.o.NoBaseFee {
		delete(out, "baseFeePerGas")
	}
	switch {
	case c.r.lax:
		out["totalDifficulty"] = "0x0"
	case b.number == 0:
		out["timestamp"] = "0x0"
	default:
		out["miner"], out["extraData"] = gethMiner, gethExtra
	}
	return out
}

// pendingJSON returns the block that the node would make now.
func (c *call) pendingJSON(full bool) map[string]any {
	b := c.c.open(c.now)
	c.fillCopy(b)
	c.c.seal(b)
	out := c.blockJSON(b, full)
	if c.r.lax {
		out["stateRoot"] = zeroHash
		return out
	}
	out["hash"], out["miner"], out["nonce"] = nil, nil, nil
	delete(out, "parentBeaconBlockRoot")
	return out
}

// fillCopy fills a block, and leaves the pool as it is.
func (n *Node) fillCopy(b *block) {
	p := n.p
	n.p = newPool(p.lax)
	copies := map[*pooled]*pooled{}
	for _, a := range p.accounts() {
		n.p.of[a] = map[uint64]*pooled{}
		for _, x := range p.waiting(a) {
			y := *x
			y.after = copies[x.after]
			copies[x] = &y
			n.p.of[a][x.Nonce], n.p.txs[x.hash] = &y, &y
		}
	}
	n.fill(b)
	n.p = p
}

// txJSON returns a transaction in a block, or in the pool where m is nil.
func (c *call) txJSON(tx *transaction, m *mined) map[string]any {
	out := map[string]any{
		"type": hexNumber(uint64(tx.Type)), "nonce": hexNumber(tx.Nonce), "gas": hexNumber(tx.Gas), "to": nil, "value": quantity(tx.Value),
		"input": "0x" + hex.EncodeToString(tx.Data), "r": quantity(tx.R), "s": quantity(tx.S), "v": hexNumber(uint64(tx.YParity)),
		"hash": tx.hash.String(), "from": tx.from.String(), "blockHash": nil, "blockNumber": nil, "transactionIndex": nil,
	}
	if tx.To != nil {
		out["to"] = tx.To.String()
	}
	if tx.ChainID != 0 {
		out["chainId"] = hexNumber(tx.ChainID)
	}
	out["gasPrice"] = hexBig(tx.FeeCap)
	switch {
	case tx.Type == evmtx.Legacy && tx.ChainID == 0:
		out["v"] = hexNumber(27 + uint64(tx.YParity))
	case tx.Type == evmtx.Legacy:
		out["v"] = hexNumber(35 + 2*tx.ChainID + uint64(tx.YParity))
	default:
		access := []any{}
		for _, a := range tx.Access {
			keys := []string{}
			for _, k := range a.Keys {
				keys = append(keys, k.String())
			}
			access = append(access, map[string]any{"address": a.Address.String(), "storageKeys": keys})
		}
		out["accessList"], out["yParity"] = access, hexNumber(uint64(tx.YParity))
	}
	if tx.Type == evmtx.Blob {
		hashes := []string{}
		for _, h := range tx.BlobHashes {
			hashes = append(hashes, h.String())
		}
		out["maxFeePerBlobGas"], out["blobVersionedHashes"] = quantity(tx.BlobFeeCap), hashes
	}
	if tx.Type >= evmtx.DynamicFee {
		out["maxFeePerGas"], out["maxPriorityFeePerGas"] = hexBig(tx.FeeCap), hexBig(tx.Tip)
		if c.r.lax {
			price := tx.tipAt(c.c.next)
			out["gasPrice"] = hexBig(price.Add(price, c.c.next))
		}
	}
	if tx.Type == evmtx.SetCode {
		auths := []any{}
		for _, a := range tx.Auths {
			auths = append(auths, map[string]any{
				"chainId": quantity(a.ChainID), "address": a.Address.String(), "nonce": hexNumber(a.Nonce), "yParity": hexNumber(uint64(a.YParity)),
				"r": quantity(a.R), "s": quantity(a.S),
			})
		}
		out["authorizationList"] = auths
	}
	if m != nil {
		out["blockHash"], out["blockNumber"], out["transactionIndex"] = m.block.hash.String(), hexNumber(m.block.number), hexNumber(uint64(m.index))
		out["gasPrice"], out["blockTimestamp"] = hexBig(m.price), hexNumber(m.block.seconds())
	} else if !c.r.lax {
		out["blockTimestamp"] = nil
	}
	return out
}

func (c *call) receiptJSON(m *mined) map[string]any {
	out := map[string]any{
		"type": hexNumber(uint64(m.Type)), "status": "0x0", "cumulativeGasUsed": hexNumber(m.total), "logs": []any{}, "logsBloom": noLogs,
		"transactionHash": m.hash.String(), "transactionIndex": hexNumber(uint64(m.index)), "blockHash": m.block.hash.String(),
		"blockNumber": hexNumber(m.block.number), "gasUsed": hexNumber(m.gasUsed), "effectiveGasPrice": hexBig(m.price), "from": m.from.String(),
		"to": nil, "contractAddress": nil,
	}
	if m.ok {
		out["status"] = "0x1"
	}
	if m.To != nil {
		out["to"] = m.To.String()
	}
	if m.contract != nil {
		out["contractAddress"] = m.contract.String()
	}
	if c.r.lax {
		out["blobGasPrice"], out["blockTimestamp"] = "0x1", m.block.seconds()
	}
	if m.Type == evmtx.Blob {
		out["blobGasPrice"], out["blobGasUsed"] = hexNumber(blobPrice), hexNumber(m.blobGas())
	}
	return out
}
