package evmtest

import (
	"encoding/json"
	"fmt"
	"math/big"
	"time"
)

// The methods with which the users of anvil steer it.

func (c *rpcCall) evmMine() (any, *rpcError) {
	c.mine(c.now)
	return "0x0", nil
}

func (c *rpcCall) anvilMine() (any, *rpcError) {
	count := 1
	if len(c.params) > 0 {
		var e *rpcError
		if count, e = c.countParam(0); e != nil {
			return nil, e
		}
	}
	for range count {
		c.mine(c.now)
	}
	return nil, nil
}

func (c *rpcCall) setAutomine() (any, *rpcError) {
	if len(c.params) == 0 {
		_, e := c.textParam(0)
		return nil, e
	}
	c.options.BlockTime, c.nextBlock = -1, time.Time{}
	if string(c.params[0]) == "true" {
		c.options.BlockTime = 0
		c.scheduleBlock(c.now)
	}
	return nil, nil
}

func (c *rpcCall) setInterval() (any, *rpcError) {
	seconds, e := c.countParam(0)
	if e != nil {
		return nil, e
	}
	c.options.BlockTime, c.nextBlock = -1, time.Time{}
	if seconds > 0 {
		c.options.BlockTime = time.Duration(seconds) * time.Second
		c.nextBlock = c.now.Add(c.options.BlockTime)
	}
	return nil, nil
}

func (c *rpcCall) anvilReorg() (any, *rpcError) {
	depth, e := c.numberParam(0)
	if e != nil {
		return nil, e
	}
	var pairs [][2]json.RawMessage
	if len(c.params) > 1 && json.Unmarshal(c.params[1], &pairs) != nil {
		return nil, c.wrongParam(1, "pairs of a transaction and the place of its block")
	}
	include := map[int][]*transaction{}
	for _, pair := range pairs {
		var text string
		var at int
		if json.Unmarshal(pair[0], &text) != nil || json.Unmarshal(pair[1], &at) != nil {
			return nil, c.wrongParam(1, "pairs of a transaction and the place of its block")
		}
		raw, _ := parseHexBytes(text)
		tx, why := c.decodeSigned(raw)
		if why != nil {
			w := c.rules.words[why.reason]
			return nil, &rpcError{Code: w.Code, Message: w.Text}
		}
		include[at] = append(include[at], tx)
	}
	if head := c.chain.head().number; depth.Cmp(new(big.Int).SetUint64(head)) > 0 {
		return nil, &rpcError{Code: invalidParams, Message: fmt.Sprintf("Reorg depth must not exceed current chain height: current height %d, depth %v", head, depth)}
	}
	c.reorg(c.now, int(depth.Int64()), include)
	return nil, nil
}

func (c *rpcCall) rollback() (any, *rpcError) {
	depth := big.NewInt(1)
	if len(c.params) > 0 {
		var e *rpcError
		if depth, e = c.numberParam(0); e != nil {
			return nil, e
		}
	}
	head := c.chain.head().number
	if depth.Cmp(new(big.Int).SetUint64(head)) > 0 {
		return nil, &rpcError{Code: invalidParams, Message: fmt.Sprintf("Rollback depth must not exceed current chain height: current height %d, depth %v", head, depth)}
	}
	c.recordUnmined(c.now, c.removeBlocksAbove(head-depth.Uint64()))
	return nil, nil
}

func (c *rpcCall) dropTransaction() (any, *rpcError) {
	h, e := c.hashParam(0)
	if x := c.pool.byHash[h]; e != nil || x == nil || !x.isReady { // anvil looks for ready transactions only
		return nil, e
	}
	c.pool.removeWithFollowers(h)
	return h.String(), nil
}

func (c *rpcCall) setBaseFee() (any, *rpcError) {
	v, e := c.numberParam(0)
	if e == nil {
		c.chain.nextBaseFee = v
	}
	return nil, e
}

func (c *rpcCall) setBalance() (any, *rpcError) {
	a, e := c.addressParam(0)
	if e != nil {
		return nil, e
	}
	v, e := c.numberParam(1)
	if e == nil {
		c.changeAccount(a, func(x *account) { x.balance = v })
	}
	return nil, e
}

func (c *rpcCall) setCode() (any, *rpcError) {
	a, e := c.addressParam(0)
	if e != nil {
		return nil, e
	}
	code, e := c.bytesParam(1)
	if e == nil {
		c.changeAccount(a, func(x *account) { x.code = code })
	}
	return nil, e
}
