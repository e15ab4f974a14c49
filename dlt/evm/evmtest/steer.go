package evmtest

import (
	"encoding/json"
	"fmt"
	"math/big"
	"time"
)

// The methods by which anvil's users steer it.

func (c *call) evmMine() (any, *rpcError) {
	c.mine(c.now)
	return "0x0", nil
}

func (c *call) anvilMine() (any, *rpcError) {
	count := 1
	if len(c.params) > 0 {
		var e *rpcError
		if count, e = c.small(0); e != nil {
			return nil, e
		}
	}
	for range count {
		c.mine(c.now)
	}
	return nil, nil
}

func (c *call) setAutomine() (any, *rpcError) {
	if len(c.params) == 0 {
		_, e := c.text(0)
		return nil, e
	}
	c.o.BlockTime, c.nextBlock = -1, time.Time{}
	if string(c.params[0]) == "true" {
		c.o.BlockTime = 0
		c.arm(c.now)
	}
	return nil, nil
}

func (c *call) setInterval() (any, *rpcError) {
	seconds, e := c.small(0)
	if e != nil {
		return nil, e
	}
	c.o.BlockTime, c.nextBlock = -1, time.Time{}
	if seconds > 0 {
		c.o.BlockTime = time.Duration(seconds) * time.Second
		c.nextBlock = c.now.Add(c.o.BlockTime)
	}
	return nil, nil
}

func (c *call) anvilReorg() (any, *rpcError) {
	depth, e := c.number(0)
	if e != nil {
		return nil, e
	}
	var pairs [][2]json.RawMessage
	if len(c.params) > 1 && json.Unmarshal(c.params[1], &pairs) != nil {
		return nil, c.wrong(1, "pairs of a transaction and the place of its block")
	}
	include := map[int][]*transaction{}
	for _, pair := range pairs {
		var text string
		var at int
		if json.Unmarshal(pair[0], &text) != nil || json.Unmarshal(pair[1], &at) != nil {
			return nil, c.wrong(1, "pairs of a transaction and the place of its block")
		}
		raw, _ := bytesOf(text)
		tx, why := c.read(raw)
		if why != nil {
			w := c.r.words[why.why]
			return nil, &rpcError{Code: w.Code, Message: w.Text}
		}
		include[at] = append(include[at], tx)
	}
	if head := c.c.head().number; depth.Cmp(new(big.Int).SetUint64(head)) > 0 {
		return nil, &rpcError{Code: invalidParams, Message: fmt.Sprintf("Reorg depth must not exceed current chain height: current height %d, depth %v", head, depth)}
	}
	c.reorg(c.now, int(depth.Int64()), include)
	return nil, nil
}

func (c *call) rollback() (any, *rpcError) {
	depth := big.NewInt(1)
	if len(c.params) > 0 {
		var e *rpcError
		if depth, e = c.number(0); e != nil {
			return nil, e
		}
	}
	head := c.c.head().number
	if depth.Cmp(new(big.Int).SetUint64(head)) > 0 {
		return nil, &rpcError{Code: invalidParams, Message: fmt.Sprintf("Rollback depth must not exceed current chain height: current height %d, depth %v", head, depth)}
	}
	c.unmine(c.now, c.takeBack(head-depth.Uint64()))
	return nil, nil
}

func (c *call) dropTransaction() (any, *rpcError) {
	h, e := c.hash(0)
	if x := c.p.txs[h]; e != nil || x == nil || !x.ready { // anvil looks at ready transactions only
		return nil, e
	}
	c.p.drop(h)
	return h.String(), nil
}

func (c *call) setBaseFee() (any, *rpcError) {
	v, e := c.number(0)
	if e == nil {
		c.c.next = v
	}
	return nil, e
}

func (c *call) setBalance() (any, *rpcError) {
	a, e := c.address(0)
	if e != nil {
		return nil, e
	}
	v, e := c.number(1)
	if e == nil {
		c.alter(a, func(x *account) { x.balance = v })
	}
	return nil, e
}

func (c *call) setCode() (any, *rpcError) {
	a, e := c.address(0)
	if e != nil {
		return nil, e
	}
	code, e := c.bytes(1)
	if e == nil {
		c.alter(a, func(x *account) { x.code = code })
	}
	return nil, e
}
