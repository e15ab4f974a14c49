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

// hexQuantity returns a number without leading zeros, 0 for nil.
func hexQuantity(v *big.Int) string {
	if v == nil {
		return "0x0"
	}
	return hexBig(v)
}

func (c *rpcCall) blockJSON(b *block, full bool) map[string]any {
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
	out := c.headerJSON(b)
	out["transactions"] = txs
	out["size"] = hexNumber(uint64(0x267 + size))
	if len(b.txs) > 0 { // hashes that depend on the transactions
		root := evmtx.Keccak([]byte("transactions"), b.hash[:]).String()
		out["transactionsRoot"], out["receiptsRoot"] = root, root
	}
	return out
}

func (c *rpcCall) headerJSON(b *block) map[string]any {
	out := map[string]any{
		"hash": b.hash.String(), "parentHash": b.parent.String(), "sha3Uncles": noUncles, "miner": zeroAddress, "stateRoot": emptyTrie,
		"transactionsRoot": emptyTrie, "receiptsRoot": emptyTrie, "logsBloom": noLogs, "difficulty": "0x0", "number": hexNumber(b.number),
		"gasLimit": hexNumber(b.gasLimit), "gasUsed": hexNumber(b.gasUsed), "timestamp": hexNumber(b.unixTime()), "extraData": "0x", "mixHash": zeroHash,
		"nonce": "0x0000000000000000", "baseFeePerGas": hexBig(b.baseFee), "withdrawalsRoot": emptyTrie, "blobGasUsed": hexNumber(b.blobGas), "excessBlobGas": "0x0",
		"parentBeaconBlockRoot": zeroHash, "requestsHash": noRequests, "uncles": []any{}, "withdrawals": []any{},
	}
	if c.options.NoBaseFee {
		delete(out, "baseFeePerGas")
	}
	switch {
	case c.rules.isLax:
		out["totalDifficulty"] = "0x0"
	case b.number == 0:
		out["timestamp"] = "0x0"
	default:
		out["miner"], out["extraData"] = gethMiner, gethExtra
	}
	return out
}

// pendingJSON returns the block that the node would make now, as JSON.
func (c *rpcCall) pendingJSON(full bool) map[string]any {
	b := c.chain.beginBlock(c.now)
	c.fillFromPoolCopy(b)
	c.chain.assignHash(b)
	out := c.blockJSON(b, full)
	if c.rules.isLax {
		out["stateRoot"] = zeroHash
		return out
	}
	out["hash"], out["miner"], out["nonce"] = nil, nil, nil
	delete(out, "parentBeaconBlockRoot")
	return out
}

// fillFromPoolCopy fills a block without changing the pool.
func (n *Node) fillFromPoolCopy(b *block) {
	p := n.pool
	n.pool = newPool(p.isLax)
	copies := map[*pooledTx]*pooledTx{}
	for _, a := range p.accounts() {
		n.pool.byAccount[a] = map[uint64]*pooledTx{}
		for _, x := range p.txsByNonce(a) {
			y := *x
			y.readyAfter = copies[x.readyAfter]
			copies[x] = &y
			n.pool.byAccount[a][x.Nonce], n.pool.byHash[x.hash] = &y, &y
		}
	}
	n.fillBlock(b)
	n.pool = p
}

// txJSON returns a transaction as JSON: in the block of m, or in the pool if m is nil.
func (c *rpcCall) txJSON(tx *transaction, m *minedTransaction) map[string]any {
	out := map[string]any{
		"type": hexNumber(uint64(tx.Type)), "nonce": hexNumber(tx.Nonce), "gas": hexNumber(tx.Gas), "to": nil, "value": hexQuantity(tx.Value),
		"input": "0x" + hex.EncodeToString(tx.Data), "r": hexQuantity(tx.R), "s": hexQuantity(tx.S), "v": hexNumber(uint64(tx.YParity)),
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
		out["maxFeePerBlobGas"], out["blobVersionedHashes"] = hexQuantity(tx.BlobFeeCap), hashes
	}
	if tx.Type >= evmtx.DynamicFee {
		out["maxFeePerGas"], out["maxPriorityFeePerGas"] = hexBig(tx.FeeCap), hexBig(tx.Tip)
		if c.rules.isLax {
			price := tx.tipAt(c.chain.nextBaseFee)
			out["gasPrice"] = hexBig(price.Add(price, c.chain.nextBaseFee))
		}
	}
	if tx.Type == evmtx.SetCode {
		auths := []any{}
		for _, a := range tx.Auths {
			auths = append(auths, map[string]any{
				"chainId": hexQuantity(a.ChainID), "address": a.Address.String(), "nonce": hexNumber(a.Nonce), "yParity": hexNumber(uint64(a.YParity)),
				"r": hexQuantity(a.R), "s": hexQuantity(a.S),
			})
		}
		out["authorizationList"] = auths
	}
	if m != nil {
		out["blockHash"], out["blockNumber"], out["transactionIndex"] = m.block.hash.String(), hexNumber(m.block.number), hexNumber(uint64(m.indexInBlock))
		out["gasPrice"], out["blockTimestamp"] = hexBig(m.effectiveGasPrice), hexNumber(m.block.unixTime())
	} else if !c.rules.isLax {
		out["blockTimestamp"] = nil
	}
	return out
}

func (c *rpcCall) receiptJSON(m *minedTransaction) map[string]any {
	out := map[string]any{
		"type": hexNumber(uint64(m.Type)), "status": "0x0", "cumulativeGasUsed": hexNumber(m.cumulativeGas), "logs": []any{}, "logsBloom": noLogs,
		"transactionHash": m.hash.String(), "transactionIndex": hexNumber(uint64(m.indexInBlock)), "blockHash": m.block.hash.String(),
		"blockNumber": hexNumber(m.block.number), "gasUsed": hexNumber(m.gasUsed), "effectiveGasPrice": hexBig(m.effectiveGasPrice), "from": m.from.String(),
		"to": nil, "contractAddress": nil,
	}
	if m.succeeded {
		out["status"] = "0x1"
	}
	if m.To != nil {
		out["to"] = m.To.String()
	}
	if m.createdContract != nil {
		out["contractAddress"] = m.createdContract.String()
	}
	if c.rules.isLax {
		out["blobGasPrice"], out["blockTimestamp"] = "0x1", m.block.unixTime()
	}
	if m.Type == evmtx.Blob {
		out["blobGasPrice"], out["blobGasUsed"] = hexNumber(blobPrice), hexNumber(m.blobGas())
	}
	return out
}
