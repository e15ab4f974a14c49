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

// view is the chain as the backend that answers sees it: up to a block.
type view struct{ head uint64 }

// view picks the backend for one HTTP request.
func (n *Node) view(f Fault) *view {
	behind := f.Behind
	if n.asked++; n.r.behind && n.asked%2 == 0 && behind == 0 {
		behind = n.o.Lag
	}
	head := n.c.head().number
	return &view{head - min(head, uint64(behind))}
}

// call is a request that is being answered.
type call struct {
	*Node
	now    time.Time
	v      *view
	method string
	params []json.RawMessage
	broken bool // the parameters are no array
	dropTx bool
}

func (n *Node) call(now time.Time, v *view, r request) *call {
	c := &call{Node: n, now: now, v: v, method: r.Method}
	if len(r.Params) > 0 {
		c.broken = json.Unmarshal(r.Params, &c.params) != nil
	}
	return c
}

const invalidParams = -32602

// text returns a parameter that is a string.
func (c *call) text(i int) (string, *rpcError) {
	if c.broken {
		return "", &rpcError{Code: invalidParams, Message: "non-array args"}
	}
	if i >= len(c.params) {
		if c.r.lax {
			return "", &rpcError{Code: invalidParams, Message: fmt.Sprintf("expected params sequence with length %d but got %d", i+1, len(c.params))}
		}
		return "", &rpcError{Code: invalidParams, Message: fmt.Sprintf("missing value for required argument %d", i)}
	}
	var s string
	if err := json.Unmarshal(c.params[i], &s); err != nil {
		return "", c.wrong(i, "a string")
	}
	return s, nil
}

func (c *call) wrong(i int, want string) *rpcError {
	return &rpcError{Code: invalidParams, Message: fmt.Sprintf("invalid argument %d: want %s", i, want)}
}

// bytes returns a parameter that is 0x and hex digits.
func (c *call) bytes(i int) ([]byte, *rpcError) {
	s, e := c.text(i)
	if e != nil {
		return nil, e
	}
	raw, ok := bytesOf(s)
	switch {
	case ok:
		return raw, nil
	case c.r.lax:
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

func (c *call) address(i int) (evmtx.Address, *rpcError) {
	s, e := c.text(i)
	if e != nil {
		return evmtx.Address{}, e
	}
	a, err := evmtx.ParseAddress(strings.ToLower(s))
	if err != nil {
		return evmtx.Address{}, c.wrong(i, "an address")
	}
	return a, nil
}

func (c *call) hash(i int) (evmtx.Hash, *rpcError) {
	s, e := c.text(i)
	if e != nil {
		return evmtx.Hash{}, e
	}
	h, ok := evmtx.ParseHash(s)
	if !ok {
		return evmtx.Hash{}, c.wrong(i, "a hash")
	}
	return h, nil
}

// number returns a quantity, as hex digits or as a JSON number.
func (c *call) number(i int) (*big.Int, *rpcError) {
	if i >= len(c.params) {
		_, e := c.text(i)
		return nil, e
	}
	var s string
	if json.Unmarshal(c.params[i], &s) != nil {
		s = string(c.params[i])
	}
	if v, ok := new(big.Int).SetString(s, 0); ok && v.Sign() >= 0 {
		return v, nil
	}
	return nil, c.wrong(i, "a quantity")
}

// small returns a quantity that counts blocks or seconds. A call holds the node up for as long as
// it makes blocks.
func (c *call) small(i int) (int, *rpcError) {
	v, e := c.number(i)
	if e == nil && (!v.IsUint64() || v.Uint64() > 1<<20) {
		e = c.wrong(i, "at most 2^20")
	}
	if e != nil {
		return 0, e
	}
	return int(v.Uint64()), nil
}

// block returns the block that a parameter names, "latest" without a parameter. It is nil for the
// pending block.
func (c *call) block(i int) (*block, *rpcError) {
	if i >= len(c.params) || string(c.params[i]) == "null" {
		return c.c.blocks[c.v.head], nil
	}
	var at struct {
		BlockHash   string `json:"blockHash"`
		BlockNumber string `json:"blockNumber"`
	}
	if json.Unmarshal(c.params[i], &at) == nil && at.BlockHash != "" {
		h, ok := evmtx.ParseHash(at.BlockHash)
		if b := c.byHash(h); ok && b != nil {
			return b, nil
		}
		if c.r.lax {
			return nil, &rpcError{Code: -32001, Message: "Resource not found"}
		}
		return nil, &rpcError{Code: -32000, Message: "header for hash not found"}
	}
	tag := at.BlockNumber
	if tag == "" {
		var e *rpcError
		if tag, e = c.text(i); e != nil {
			return nil, e
		}
	}
	switch tag {
	case "pending":
		return nil, nil
	case "latest":
		return c.c.blocks[c.v.head], nil
	case "earliest":
		return c.c.blocks[0], nil
	case "safe", "finalized":
		if c.o.NoFinality {
			return nil, &rpcError{Code: -32000, Message: tag + " block not found"}
		}
		return c.c.blocks[c.final(tag)], nil
	}
	number, err := strconv.ParseUint(tag, 0, 64)
	switch {
	case err != nil:
		return nil, c.wrong(i, "a block")
	case number <= c.v.head:
		return c.c.blocks[number], nil
	case c.r.lax:
		return nil, &rpcError{Code: invalidParams, Message: fmt.Sprintf("BlockOutOfRangeError: block height is %d but requested was %d", c.v.head, number)}
	}
	return nil, &rpcError{Code: -32000, Message: "header not found"}
}

// final returns the number of the block that is safe or finalized.
func (c *call) final(tag string) uint64 {
	head, slots := c.v.head, c.o.SlotsInAnEpoch
	if c.r.lax || c.r.behind {
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

func (c *call) byHash(h evmtx.Hash) *block {
	for i := int(c.v.head); i >= 0; i-- {
		if c.c.blocks[i].hash == h {
			return c.c.blocks[i]
		}
	}
	return nil
}

// kept reports whether the state of a block is there: geth has that of 128 blocks.
func (c *call) kept(b *block) *rpcError {
	if !c.r.lax && b.number+128 < c.c.head().number {
		return &rpcError{Code: -32000, Message: fmt.Sprintf("historical state %x is not available", b.hash[:])}
	}
	return nil
}

// mined returns a transaction of a block that the backend has.
func (c *call) mined(h evmtx.Hash) *mined {
	if m := c.c.txs[h]; m != nil && m.block.number <= c.v.head {
		return m
	}
	return nil
}
