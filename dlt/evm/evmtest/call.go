package evmtest

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// chainView is the chain up to a block, as the backend that answers sees it.
type chainView struct{ headNumber uint64 }

// pickView returns the view of the backend that answers an HTTP request.
func (n *Node) pickView(f Fault) *chainView {
	behind := f.Behind
	if n.requestsServed++; n.rules.behindBalancer && n.requestsServed%2 == 0 && behind == 0 {
		behind = n.options.Lag
	}
	head := n.chain.head().number
	return &chainView{head - min(head, uint64(behind))}
}

// rpcCall is one request while it is answered.
type rpcCall struct {
	*Node
	now          time.Time
	view         *chainView
	method       string
	params       []json.RawMessage
	paramsBroken bool // true if the parameters are no array
	dropsTx      bool
}

func (n *Node) newCall(now time.Time, v *chainView, r request) *rpcCall {
	c := &rpcCall{Node: n, now: now, view: v, method: r.Method}
	if len(r.Params) > 0 {
		c.paramsBroken = json.Unmarshal(r.Params, &c.params) != nil
	}
	return c
}

const invalidParams = -32602

// textParam returns parameter i, which must be a string.
func (c *rpcCall) textParam(i int) (string, *rpcError) {
	if c.paramsBroken {
		return "", &rpcError{Code: invalidParams, Message: "non-array args"}
	}
	if i >= len(c.params) {
		if c.rules.isLax {
			return "", &rpcError{Code: invalidParams, Message: fmt.Sprintf("expected params sequence with length %d but got %d", i+1, len(c.params))}
		}
		return "", &rpcError{Code: invalidParams, Message: fmt.Sprintf("missing value for required argument %d", i)}
	}
	var s string
	if err := json.Unmarshal(c.params[i], &s); err != nil {
		return "", c.wrongParam(i, "a string")
	}
	return s, nil
}

func (c *rpcCall) wrongParam(i int, want string) *rpcError {
	return &rpcError{Code: invalidParams, Message: fmt.Sprintf("invalid argument %d: want %s", i, want)}
}

// bytesParam returns parameter i, which must be 0x and hex digits.
func (c *rpcCall) bytesParam(i int) ([]byte, *rpcError) {
	s, e := c.textParam(i)
	if e != nil {
		return nil, e
	}
	raw, ok := parseHexBytes(s)
	switch {
	case ok:
		return raw, nil
	case c.rules.isLax:
		return nil, &rpcError{Code: invalidParams, Message: fmt.Sprintf("invalid value: string %q, expected a valid hex string", s)}
	}
	what := "invalid hex string"
	if digits, prefixed := strings.CutPrefix(s, "0x"); !prefixed {
		what = "hex string without 0x prefix"
	} else if len(digits)%2 != 0 {
		what = "hex string of odd length"
	}
	return nil, &rpcError{Code: invalidParams, Message: fmt.Sprintf("invalid argument %d: json: cannot unmarshal %s into Go value of type hexutil.Bytes", i, what)}
}

func (c *rpcCall) addressParam(i int) (evmtx.Address, *rpcError) {
	s, e := c.textParam(i)
	if e != nil {
		return evmtx.Address{}, e
	}
	a, err := evmtx.ParseAddress(strings.ToLower(s))
	if err != nil {
		return evmtx.Address{}, c.wrongParam(i, "an address")
	}
	return a, nil
}

func (c *rpcCall) hashParam(i int) (evmtx.Hash, *rpcError) {
	s, e := c.textParam(i)
	if e != nil {
		return evmtx.Hash{}, e
	}
	h, ok := evmtx.ParseHash(s)
	if !ok {
		return evmtx.Hash{}, c.wrongParam(i, "a hash")
	}
	return h, nil
}

// numberParam returns parameter i, a quantity in hex digits or a JSON number.
func (c *rpcCall) numberParam(i int) (*big.Int, *rpcError) {
	if i >= len(c.params) {
		_, e := c.textParam(i)
		return nil, e
	}
	var s string
	if json.Unmarshal(c.params[i], &s) != nil {
		s = string(c.params[i])
	}
	if v, ok := new(big.Int).SetString(s, 0); ok && v.Sign() >= 0 {
		return v, nil
	}
	return nil, c.wrongParam(i, "a quantity")
}

// countParam returns parameter i, a number of blocks or seconds. It is limited, because the node
// answers nothing else while it makes blocks.
func (c *rpcCall) countParam(i int) (int, *rpcError) {
	v, e := c.numberParam(i)
	if e == nil && (!v.IsUint64() || v.Uint64() > 1<<20) {
		e = c.wrongParam(i, "at most 2^20")
	}
	if e != nil {
		return 0, e
	}
	return int(v.Uint64()), nil
}

// blockParam returns the block that parameter i names, "latest" if it is missing. It is nil for
// the pending block.
func (c *rpcCall) blockParam(i int) (*block, *rpcError) {
	if i >= len(c.params) || string(c.params[i]) == "null" {
		return c.chain.blocks[c.view.headNumber], nil
	}
	var at struct {
		BlockHash   string `json:"blockHash"`
		BlockNumber string `json:"blockNumber"`
	}
	if json.Unmarshal(c.params[i], &at) == nil && at.BlockHash != "" {
		h, ok := evmtx.ParseHash(at.BlockHash)
		if b := c.findBlock(h); ok && b != nil {
			return b, nil
		}
		if c.rules.isLax {
			return nil, &rpcError{Code: -32001, Message: "Resource not found"}
		}
		return nil, &rpcError{Code: -32000, Message: "header for hash not found"}
	}
	tag := at.BlockNumber
	if tag == "" {
		var e *rpcError
		if tag, e = c.textParam(i); e != nil {
			return nil, e
		}
	}
	switch tag {
	case "pending":
		return nil, nil
	case "latest":
		return c.chain.blocks[c.view.headNumber], nil
	case "earliest":
		return c.chain.blocks[0], nil
	case "safe", "finalized":
		if c.options.NoFinality {
			return nil, &rpcError{Code: -32000, Message: tag + " block not found"}
		}
		return c.chain.blocks[c.finalNumber(tag)], nil
	}
	number, err := strconv.ParseUint(tag, 0, 64)
	switch {
	case err != nil:
		return nil, c.wrongParam(i, "a block")
	case number <= c.view.headNumber:
		return c.chain.blocks[number], nil
	case c.rules.isLax:
		return nil, &rpcError{Code: invalidParams, Message: fmt.Sprintf("BlockOutOfRangeError: block height is %d but requested was %d", c.view.headNumber, number)}
	}
	return nil, &rpcError{Code: -32000, Message: "header not found"}
}

// finalNumber returns the number of the "safe" or "finalized" block.
func (c *rpcCall) finalNumber(tag string) uint64 {
	head, slots := c.view.headNumber, c.options.SlotsInAnEpoch
	if c.rules.isLax || c.rules.behindBalancer {
		if tag == "finalized" {
			slots *= 2
		}
		return head - min(head, slots)
	}
	if tag == "safe" {
		return head
	}
	return head / slots * slots
}

func (c *rpcCall) findBlock(h evmtx.Hash) *block {
	for i := int(c.view.headNumber); i >= 0; i-- {
		if c.chain.blocks[i].hash == h {
			return c.chain.blocks[i]
		}
	}
	return nil
}

// checkStateKept returns an error if the state after a block is gone: geth keeps the state of 128
// blocks.
func (c *rpcCall) checkStateKept(b *block) *rpcError {
	if !c.rules.isLax && b.number+128 < c.chain.head().number {
		return &rpcError{Code: -32000, Message: fmt.Sprintf("historical state %x is not available", b.hash[:])}
	}
	return nil
}

// minedByHash returns a transaction that is in a block of the backend's view; nil if there is
// none.
func (c *rpcCall) minedByHash(h evmtx.Hash) *minedTransaction {
	if m := c.chain.txs[h]; m != nil && m.block.number <= c.view.headNumber {
		return m
	}
	return nil
}
