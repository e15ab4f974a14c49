package evm

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// maxRecordedBytes is the largest receipt that is kept with its logs, in bytes.
const maxRecordedBytes = 64 << 10

// Receipt is a chain's record of a transaction that it has executed. [ReadReceipt] reads it from
// the record of a batch that is Committed or Invalid.
type Receipt struct {
	Hash      string // hash of the transaction
	Block     uint64
	BlockHash string
	Reverted  bool // true if it failed: it had no effect, but its nonce is used and its gas is paid
	GasUsed   uint64
	GasPrice  *big.Int // price of a unit of gas that was paid, in wei
	Contract  string   // address of the contract that the transaction created; "" for none
}

// ReadReceipt reads b, a receipt of a batch's record. b.Data is the node's document, without the
// bloom filter, and without the logs where these are very long. The error is a
// [*batch.InputError].
func ReadReceipt(b batch.Receipt) (Receipt, error) {
	r, err := decodeReceipt(b.Data)
	if err != nil {
		return Receipt{}, &batch.InputError{Field: "receipt", Value: batch.Excerpt(b.TransactionID, 80), Want: "a receipt that this package has recorded", Err: err}
	}
	return Receipt{
		Hash: r.hash.String(), Block: r.block.number, BlockHash: r.block.hash.String(), Reverted: r.isReverted,
		GasUsed: r.gasUsed, GasPrice: r.gasPrice, Contract: r.contractAddress,
	}, nil
}

// receipt is a node's receipt of a transaction, after decoding.
type receipt struct {
	hash            evmtx.Hash
	block           block
	isReverted      bool
	gasUsed         uint64
	gasPrice        *big.Int
	contractAddress string
	raw             json.RawMessage
}

// readReceipt returns the receipt in an answer; nil if the node has none.
func readReceipt(a answer) (*receipt, error) {
	switch {
	case a.err != nil:
		return nil, errors.New(a.err.Message)
	case !a.hasResult() || a.isNull():
		return nil, nil //nolint:nilnil // no receipt
	}
	return decodeReceipt(a.result)
}

func decodeReceipt(raw []byte) (*receipt, error) {
	var doc struct {
		Hash      string          `json:"transactionHash"`
		Block     json.RawMessage `json:"blockNumber"`
		BlockHash string          `json:"blockHash"`
		Status    json.RawMessage `json:"status"`
		GasUsed   json.RawMessage `json:"gasUsed"`
		GasPrice  string          `json:"effectiveGasPrice"`
		Contract  string          `json:"contractAddress"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, err
	}
	r := &receipt{raw: raw, contractAddress: doc.Contract}
	var ok [2]bool
	r.hash, ok[0] = evmtx.ParseHash(doc.Hash)
	r.block.hash, ok[1] = evmtx.ParseHash(doc.BlockHash)
	if !ok[0] || !ok[1] {
		return nil, errors.New("no hash of the transaction, or of its block")
	}
	var err error
	if r.block.number, err = decodeQuantity(doc.Block); err != nil {
		return nil, fmt.Errorf("block: %w", err)
	}
	status, err := decodeQuantity(doc.Status)
	if err != nil || status > 1 {
		return nil, fmt.Errorf("the status %.40q is neither executed (0x1) nor reverted (0x0)", doc.Status)
	}
	r.isReverted = status == 0
	if r.gasUsed, err = decodeQuantity(doc.GasUsed); err != nil {
		return nil, fmt.Errorf("gas: %w", err)
	}
	if r.gasPrice = hexBig(doc.GasPrice); r.gasPrice == nil {
		r.gasPrice = new(big.Int) // nodes older than EIP-1559 name no price
	}
	return r, nil
}

func (r *receipt) reason() string {
	return fmt.Sprintf("reverted, or out of gas, in block %d; %d gas used", r.block.number, r.gasUsed)
}

// asBatch returns the receipt in the form in which the store records it.
func (r *receipt) asBatch() batch.Receipt {
	out := batch.Receipt{TransactionID: r.hash.String(), Valid: !r.isReverted}
	if r.isReverted {
		out.Message = r.reason()
	}
	out.Data = r.document("logsBloom")
	if len(out.Data) > maxRecordedBytes {
		out.Data = r.document("logsBloom", "logs")
	}
	return out
}

// document returns the node's JSON document without the fields named in without.
func (r *receipt) document(without ...string) []byte {
	var fields map[string]json.RawMessage
	if json.Unmarshal(r.raw, &fields) != nil {
		return nil
	}
	for _, f := range without {
		delete(fields, f)
	}
	out, err := json.Marshal(fields)
	if err != nil {
		return nil
	}
	return out
}
