package evmtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"

	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// method is a JSON-RPC method, and which nodes have it.
type method struct {
	who int
	do  func(c *call) (any, *rpcError)
}

// The nodes that have a method.
const (
	everybody = iota
	onlyLax   // anvil
	onlyGeth  // and what behaves so
	noProxy   // not behind a provider
	bySender  // anvil and Reth
)

func (m method) has(n *Node) bool {
	switch m.who {
	case onlyLax:
		return n.r.lax
	case onlyGeth:
		return !n.r.lax && !n.r.behind
	case noProxy:
		return !n.r.behind
	case bySender:
		return n.r.lax || n.o.Personality == Reth
	}
	return true
}

var methods = map[string]method{
	"eth_chainId":               {everybody, func(c *call) (any, *rpcError) { return hexNumber(c.o.ChainID), nil }},
	"net_version":               {everybody, func(c *call) (any, *rpcError) { return strconv.FormatUint(c.o.ChainID, 10), nil }},
	"web3_clientVersion":        {everybody, func(c *call) (any, *rpcError) { return c.r.version, nil }},
	"eth_blockNumber":           {everybody, func(c *call) (any, *rpcError) { return hexNumber(c.v.head), nil }},
	"eth_syncing":               {everybody, func(*call) (any, *rpcError) { return false, nil }},
	"eth_gasPrice":              {everybody, (*call).gasPrice},
	"eth_maxPriorityFeePerGas":  {everybody, func(c *call) (any, *rpcError) { return hexBig(c.tip()), nil }},
	"eth_feeHistory":            {everybody, (*call).feeHistory},
	"eth_getBlockByNumber":      {everybody, (*call).blockByNumber},
	"eth_getBlockByHash":        {everybody, (*call).blockByHash},
	"eth_getBlockReceipts":      {everybody, (*call).blockReceipts},
	"eth_getTransactionByHash":  {everybody, (*call).transactionByHash},
	"eth_getTransactionReceipt": {everybody, (*call).transactionReceipt},
	"eth_getTransactionCount":   {everybody, (*call).transactionCount},
	"eth_getBalance":            {everybody, (*call).balance},
	"eth_getCode":               {everybody, (*call).code},
	"eth_call":                  {everybody, (*call).ethCall},
	"eth_estimateGas":           {everybody, (*call).estimateGas},
	sendMethod:                  {everybody, (*call).sendRaw},

	"eth_getTransactionBySenderAndNonce": {bySender, (*call).bySenderAndNonce},

	"txpool_status":      {noProxy, (*call).poolStatus},
	"txpool_inspect":     {noProxy, (*call).poolInspect},
	"txpool_contentFrom": {onlyGeth, (*call).poolContentFrom},

	"evm_mine":                          {onlyLax, (*call).evmMine},
	"anvil_mine":                        {onlyLax, (*call).anvilMine},
	"evm_setAutomine":                   {onlyLax, (*call).setAutomine},
	"anvil_setAutomine":                 {onlyLax, (*call).setAutomine},
	"anvil_getAutomine":                 {onlyLax, func(c *call) (any, *rpcError) { return c.o.BlockTime == 0, nil }},
	"evm_setIntervalMining":             {onlyLax, (*call).setInterval},
	"anvil_setIntervalMining":           {onlyLax, (*call).setInterval},
	"anvil_reorg":                       {onlyLax, (*call).anvilReorg},
	"anvil_rollback":                    {onlyLax, (*call).rollback},
	"anvil_dropTransaction":             {onlyLax, (*call).dropTransaction},
	"anvil_setNextBlockBaseFeePerGas":   {onlyLax, (*call).setBaseFee},
	"hardhat_setNextBlockBaseFeePerGas": {onlyLax, (*call).setBaseFee},
	"anvil_setBalance":                  {onlyLax, (*call).setBalance},
	"anvil_setCode":                     {onlyLax, (*call).setCode},
}

func hexNumber(v uint64) string  { return "0x" + strconv.FormatUint(v, 16) }
func hexBig(v *big.Int) string   { return "0x" + v.Text(16) }
func hexBytes(b []byte) string   { return fmt.Sprintf("0x%x", b) }
func (b *block) seconds() uint64 { return uint64(b.time.Unix()) }

// tip returns the tip that the node suggests.
func (c *call) tip() *big.Int {
	if c.r.lax {
		return big.NewInt(1e9)
	}
	return big.NewInt(minTip)
}

// flatPrice is the gas price of a chain without a base fee.
const flatPrice = 2e9

func (c *call) gasPrice() (any, *rpcError) {
	base := c.c.blocks[c.v.head].baseFee
	if c.o.NoBaseFee {
		return hexBig(big.NewInt(flatPrice)), nil
	}
	if c.r.lax {
		base = c.c.next
	}
	return hexBig(new(big.Int).Add(base, c.tip())), nil
}

func (c *call) feeHistory() (any, *rpcError) {
	count, e := c.number(0)
	if e != nil {
		return nil, e
	}
	newest, e := c.block(1)
	if e != nil {
		return nil, e
	}
	if newest == nil {
		newest = c.c.blocks[c.v.head]
	}
	var percentiles []float64
	if len(c.params) > 2 && json.Unmarshal(c.params[2], &percentiles) != nil {
		return nil, c.wrong(2, "percentiles")
	}
	blocks := c.c.blocks[:newest.number+1]
	if count.IsUint64() && count.Uint64() < uint64(len(blocks)) {
		blocks = blocks[uint64(len(blocks))-count.Uint64():]
	}
	base, ratio, blob, blobRatio, rewards := []string{}, []float64{}, []string{}, []float64{}, [][]string{}
	for _, b := range blocks {
		base, blob = append(base, hexBig(b.baseFee)), append(blob, "0x1")
		ratio, blobRatio = append(ratio, float64(b.gasUsed)/float64(b.gasLimit)), append(blobRatio, 0)
		rewards = append(rewards, b.rewards(percentiles))
	}
	after := newest.nextBaseFee()
	if newest == c.c.head() {
		after = c.c.next
	}
	out := map[string]any{
		"oldestBlock": hexNumber(newest.number + 1 - uint64(len(blocks))), "baseFeePerGas": append(base, hexBig(after)), "gasUsedRatio": ratio,
		"baseFeePerBlobGas": append(blob, "0x1"), "blobGasUsedRatio": blobRatio,
	}
	if len(percentiles) > 0 {
		out["reward"] = rewards
	}
	return out, nil
}

// rewards returns the tips at percentiles of the gas.
func (b *block) rewards(percentiles []float64) []string {
	txs := slices.Clone(b.txs)
	slices.SortFunc(txs, func(x, y *mined) int { return x.price.Cmp(y.price) })
	out := make([]string, len(percentiles))
	for i, p := range percentiles {
		out[i] = "0x0"
		used := 0.0
		for _, m := range txs {
			out[i] = hexBig(new(big.Int).Sub(m.price, b.baseFee))
			if used += float64(m.gasUsed); used >= p/100*float64(b.gasUsed) {
				break
			}
		}
	}
	return out
}

func (c *call) blockByNumber() (any, *rpcError) {
	b, e := c.block(0)
	if e != nil && len(c.params) > 0 {
		if text, bad := c.text(0); bad == nil {
			if _, err := strconv.ParseUint(text, 0, 64); err == nil {
				return nil, nil // beyond the head
			}
		}
	}
	if e != nil {
		return nil, e
	}
	full := len(c.params) > 1 && string(c.params[1]) == "true"
	if b == nil {
		return c.pendingJSON(full), nil
	}
	return c.blockJSON(b, full), nil
}

func (c *call) blockByHash() (any, *rpcError) {
	h, e := c.hash(0)
	if e != nil {
		return nil, e
	}
	if b := c.byHash(h); b != nil {
		return c.blockJSON(b, len(c.params) > 1 && string(c.params[1]) == "true"), nil
	}
	return nil, nil
}

func (c *call) blockReceipts() (any, *rpcError) {
	b, e := c.block(0)
	if e != nil || b == nil {
		return nil, e
	}
	out := []any{}
	for _, m := range b.txs {
		out = append(out, c.receiptJSON(m))
	}
	return out, nil
}

func (c *call) transactionByHash() (any, *rpcError) {
	h, e := c.hash(0)
	if e != nil {
		return nil, e
	}
	x, m := c.p.txs[h], c.mined(h)
	if m != nil && !(c.r.lax && x != nil) { // anvil looks into its pool first
		return c.txJSON(m.transaction, m), nil
	}
	if x != nil {
		return c.txJSON(x.transaction, nil), nil
	}
	if m := c.c.txs[h]; m != nil { // a backend that is behind has it in its pool
		return c.txJSON(m.transaction, nil), nil
	}
	return nil, nil
}

func (c *call) transactionReceipt() (any, *rpcError) {
	h, e := c.hash(0)
	if e != nil {
		return nil, e
	}
	if m := c.mined(h); m != nil {
		return c.receiptJSON(m), nil
	}
	return nil, nil
}

func (c *call) bySenderAndNonce() (any, *rpcError) {
	a, e := c.address(0)
	if e != nil {
		return nil, e
	}
	nonce, e := c.number(1)
	if e != nil {
		return nil, e
	}
	if x := c.p.of[a][nonce.Uint64()]; x != nil {
		return c.txJSON(x.transaction, nil), nil
	}
	for _, b := range c.c.blocks[:c.v.head+1] {
		for _, m := range b.txs {
			if m.from == a && m.Nonce == nonce.Uint64() {
				return c.txJSON(m.transaction, m), nil
			}
		}
	}
	return nil, nil
}

// state returns an account at the block that a parameter names.
func (c *call) state(i int) (a evmtx.Address, at account, pending bool, e *rpcError) {
	if a, e = c.address(0); e != nil {
		return a, at, false, e
	}
	b, e := c.block(i)
	if e != nil {
		return a, at, false, e
	}
	if b == nil {
		return a, c.c.at(a, c.v.head), true, nil
	}
	return a, c.c.at(a, b.number), false, c.kept(b)
}

func (c *call) transactionCount() (any, *rpcError) {
	a, at, pending, e := c.state(1)
	if e != nil {
		return nil, e
	}
	if !pending {
		return hexNumber(at.nonce), nil
	}
	// A backend that is behind still has the transactions of later blocks in its pool.
	return hexNumber(c.p.next(a, max(at.nonce, c.c.now(a).nonce))), nil
}

func (c *call) balance() (any, *rpcError) {
	_, at, _, e := c.state(1)
	return hexBig(at.funds()), e
}

func (c *call) code() (any, *rpcError) {
	_, at, _, e := c.state(1)
	return hexBytes(at.code), e
}

// message is the object of eth_call and eth_estimateGas.
type message struct {
	To    string `json:"to"`
	Data  string `json:"data"`
	Input string `json:"input"`
}

// simulate runs a call, and returns the gas that it needs.
func (c *call) simulate() (out []byte, gas uint64, e *rpcError) {
	var m message
	if len(c.params) == 0 || json.Unmarshal(c.params[0], &m) != nil {
		return nil, 0, c.wrong(0, "a transaction")
	}
	if m.Data == "" {
		m.Data = m.Input
	}
	data, _ := bytesOf(m.Data)
	tx := &evmtx.Tx{Type: evmtx.DynamicFee, Data: data}
	after, e := c.block(1)
	if e != nil {
		return nil, 0, e
	}
	height := c.v.head
	if after != nil {
		height = after.number
	}
	limit := c.c.head().gasLimit
	code := data
	if m.To != "" {
		to, err := evmtx.ParseAddress(m.To)
		if err != nil {
			return nil, 0, c.wrong(0, "a transaction to an address")
		}
		tx.To, code = &to, c.c.at(to, height).code
	}
	out, left, err := run(code, limit)
	if errors.Is(err, errRevert) {
		return nil, 0, &rpcError{Code: 3, Message: err.Error(), Data: hexBytes(out)}
	}
	if err != nil {
		return nil, 0, &rpcError{Code: -32000, Message: err.Error()}
	}
	used := tx.IntrinsicGas() + limit - left
	if tx.To == nil {
		used += codeByte * uint64(len(out))
	}
	return out, max(used, tx.FloorGas()), nil
}

func (c *call) ethCall() (any, *rpcError) {
	out, _, e := c.simulate()
	return hexBytes(out), e
}

func (c *call) estimateGas() (any, *rpcError) {
	_, gas, e := c.simulate()
	return hexNumber(gas), e
}

func (c *call) sendRaw() (any, *rpcError) {
	raw, e := c.bytes(0)
	if e != nil {
		return nil, e
	}
	tx, why := c.send(c.now, raw, c.dropTx)
	if why == nil {
		return tx.hash.String(), nil
	}
	w := c.r.words[why.why]
	switch {
	case !c.r.details:
	case why.whole != "":
		w.Text = why.whole
	default:
		w.Text += why.detail
	}
	return nil, &rpcError{Code: w.Code, Message: w.Text}
}

func (c *call) poolStatus() (any, *rpcError) {
	pending, queued := c.p.counts(c.c)
	return map[string]any{"pending": hexNumber(uint64(pending)), "queued": hexNumber(uint64(queued))}, nil
}

// listed lists the transactions of an account by nonce: the mineable ones, and the others.
func (c *call) listed(a evmtx.Address, each func(x *pooled) any) (pending, queued map[string]any) {
	byNonce := func(list []*pooled) map[string]any {
		out := map[string]any{}
		for _, x := range list {
			if c.r.lax || x.Type != evmtx.Blob { // geth does not list those
				out[strconv.FormatUint(x.Nonce, 10)] = each(x)
			}
		}
		return out
	}
	p, q := c.p.split(a, c.c.now(a).nonce)
	return byNonce(p), byNonce(q)
}

func (c *call) poolInspect() (any, *rpcError) {
	name := evmtx.Address.Checksum
	if c.r.lax {
		name = evmtx.Address.String
	}
	pending, queued := map[string]any{}, map[string]any{}
	for _, a := range c.p.accounts() {
		p, q := c.listed(a, func(x *pooled) any {
			to := "contract creation"
			if x.To != nil {
				to = name(*x.To)
			}
			return fmt.Sprintf("%s: %v wei + %d gas × %v wei", to, x.Value, x.Gas, x.FeeCap)
		})
		if len(p) > 0 {
			pending[name(a)] = p
		}
		if len(q) > 0 {
			queued[name(a)] = q
		}
	}
	return map[string]any{"pending": pending, "queued": queued}, nil
}

func (c *call) poolContentFrom() (any, *rpcError) {
	a, e := c.address(0)
	if e != nil {
		return nil, e
	}
	pending, queued := c.listed(a, func(x *pooled) any { return c.txJSON(x.transaction, nil) })
	return map[string]any{"pending": pending, "queued": queued}, nil
}
