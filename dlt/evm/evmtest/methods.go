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

// method is a JSON-RPC method, and which personalities have it.
type method struct {
	availability int
	handle       func(c *rpcCall) (any, *rpcError)
}

// Which personalities have a method.
const (
	onAllNodes     = iota
	onAnvilOnly    // the method exists on Anvil alone
	onGethKinds    // Geth and all that behave as Geth
	notOnProviders // all but Provider
	onAnvilAndReth // Anvil and Reth
)

func (m method) isOn(n *Node) bool {
	switch m.availability {
	case onAnvilOnly:
		return n.rules.isLax
	case onGethKinds:
		return !n.rules.isLax && !n.rules.behindBalancer
	case notOnProviders:
		return !n.rules.behindBalancer
	case onAnvilAndReth:
		return n.rules.isLax || n.options.Personality == Reth
	}
	return true
}

var methods = map[string]method{
	"eth_chainId":               {onAllNodes, func(c *rpcCall) (any, *rpcError) { return hexNumber(c.options.ChainID), nil }},
	"net_version":               {onAllNodes, func(c *rpcCall) (any, *rpcError) { return strconv.FormatUint(c.options.ChainID, 10), nil }},
	"web3_clientVersion":        {onAllNodes, func(c *rpcCall) (any, *rpcError) { return c.rules.clientVersion, nil }},
	"eth_blockNumber":           {onAllNodes, func(c *rpcCall) (any, *rpcError) { return hexNumber(c.view.headNumber), nil }},
	"eth_syncing":               {onAllNodes, func(*rpcCall) (any, *rpcError) { return false, nil }},
	"eth_gasPrice":              {onAllNodes, (*rpcCall).gasPrice},
	"eth_maxPriorityFeePerGas":  {onAllNodes, func(c *rpcCall) (any, *rpcError) { return hexBig(c.suggestedTip()), nil }},
	"eth_feeHistory":            {onAllNodes, (*rpcCall).feeHistory},
	"eth_getBlockByNumber":      {onAllNodes, (*rpcCall).blockByNumber},
	"eth_getBlockByHash":        {onAllNodes, (*rpcCall).blockByHash},
	"eth_getBlockReceipts":      {onAllNodes, (*rpcCall).blockReceipts},
	"eth_getTransactionByHash":  {onAllNodes, (*rpcCall).transactionByHash},
	"eth_getTransactionReceipt": {onAllNodes, (*rpcCall).transactionReceipt},
	"eth_getTransactionCount":   {onAllNodes, (*rpcCall).transactionCount},
	"eth_getBalance":            {onAllNodes, (*rpcCall).balance},
	"eth_getCode":               {onAllNodes, (*rpcCall).code},
	"eth_call":                  {onAllNodes, (*rpcCall).ethCall},
	"eth_estimateGas":           {onAllNodes, (*rpcCall).estimateGas},
	sendMethod:                  {onAllNodes, (*rpcCall).sendRaw},

	"eth_getTransactionBySenderAndNonce": {onAnvilAndReth, (*rpcCall).bySenderAndNonce},

	"txpool_status":      {notOnProviders, (*rpcCall).poolStatus},
	"txpool_inspect":     {notOnProviders, (*rpcCall).poolInspect},
	"txpool_contentFrom": {onGethKinds, (*rpcCall).poolContentFrom},

	"evm_mine":                          {onAnvilOnly, (*rpcCall).evmMine},
	"anvil_mine":                        {onAnvilOnly, (*rpcCall).anvilMine},
	"evm_setAutomine":                   {onAnvilOnly, (*rpcCall).setAutomine},
	"anvil_setAutomine":                 {onAnvilOnly, (*rpcCall).setAutomine},
	"anvil_getAutomine":                 {onAnvilOnly, func(c *rpcCall) (any, *rpcError) { return c.options.BlockTime == 0, nil }},
	"evm_setIntervalMining":             {onAnvilOnly, (*rpcCall).setInterval},
	"anvil_setIntervalMining":           {onAnvilOnly, (*rpcCall).setInterval},
	"anvil_reorg":                       {onAnvilOnly, (*rpcCall).anvilReorg},
	"anvil_rollback":                    {onAnvilOnly, (*rpcCall).rollback},
	"anvil_dropTransaction":             {onAnvilOnly, (*rpcCall).dropTransaction},
	"anvil_setNextBlockBaseFeePerGas":   {onAnvilOnly, (*rpcCall).setBaseFee},
	"hardhat_setNextBlockBaseFeePerGas": {onAnvilOnly, (*rpcCall).setBaseFee},
	"anvil_setBalance":                  {onAnvilOnly, (*rpcCall).setBalance},
	"anvil_setCode":                     {onAnvilOnly, (*rpcCall).setCode},
}

func hexNumber(v uint64) string   { return "0x" + strconv.FormatUint(v, 16) }
func hexBig(v *big.Int) string    { return "0x" + v.Text(16) }
func hexBytes(b []byte) string    { return fmt.Sprintf("0x%x", b) }
func (b *block) unixTime() uint64 { return uint64(b.time.Unix()) }

// suggestedTip returns the tip that the node suggests.
func (c *rpcCall) suggestedTip() *big.Int {
	if c.rules.isLax {
		return big.NewInt(1e9)
	}
	return big.NewInt(minTip)
}

// flatPrice is the gas price of a chain without a base fee.
const flatPrice = 2e9

func (c *rpcCall) gasPrice() (any, *rpcError) {
	base := c.chain.blocks[c.view.headNumber].baseFee
	if c.options.NoBaseFee {
		return hexBig(big.NewInt(flatPrice)), nil
	}
	if c.rules.isLax {
		base = c.chain.nextBaseFee
	}
	return hexBig(new(big.Int).Add(base, c.suggestedTip())), nil
}

func (c *rpcCall) feeHistory() (any, *rpcError) {
	count, e := c.numberParam(0)
	if e != nil {
		return nil, e
	}
	newest, e := c.blockParam(1)
	if e != nil {
		return nil, e
	}
	if newest == nil {
		newest = c.chain.blocks[c.view.headNumber]
	}
	var percentiles []float64
	if len(c.params) > 2 && json.Unmarshal(c.params[2], &percentiles) != nil {
		return nil, c.wrongParam(2, "percentiles")
	}
	blocks := c.chain.blocks[:newest.number+1]
	if count.IsUint64() && count.Uint64() < uint64(len(blocks)) {
		blocks = blocks[uint64(len(blocks))-count.Uint64():]
	}
	base, ratio, blob, blobRatio, rewards := []string{}, []float64{}, []string{}, []float64{}, [][]string{}
	for _, b := range blocks {
		base, blob = append(base, hexBig(b.baseFee)), append(blob, "0x1")
		ratio, blobRatio = append(ratio, float64(b.gasUsed)/float64(b.gasLimit)), append(blobRatio, 0)
		rewards = append(rewards, b.tipsAtPercentiles(percentiles))
	}
	after := newest.nextBaseFee()
	if newest == c.chain.head() {
		after = c.chain.nextBaseFee
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

// tipsAtPercentiles returns the tips at these percentiles of the block's gas.
func (b *block) tipsAtPercentiles(percentiles []float64) []string {
	txs := slices.Clone(b.txs)
	slices.SortFunc(txs, func(x, y *minedTransaction) int { return x.effectiveGasPrice.Cmp(y.effectiveGasPrice) })
	out := make([]string, len(percentiles))
	for i, p := range percentiles {
		out[i] = "0x0"
		used := 0.0
		for _, m := range txs {
			out[i] = hexBig(new(big.Int).Sub(m.effectiveGasPrice, b.baseFee))
			if used += float64(m.gasUsed); used >= p/100*float64(b.gasUsed) {
				break
			}
		}
	}
	return out
}

func (c *rpcCall) blockByNumber() (any, *rpcError) {
	b, e := c.blockParam(0)
	if e != nil && len(c.params) > 0 {
		if text, bad := c.textParam(0); bad == nil {
			if _, err := strconv.ParseUint(text, 0, 64); err == nil {
				return nil, nil // a block above the head
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

func (c *rpcCall) blockByHash() (any, *rpcError) {
	h, e := c.hashParam(0)
	if e != nil {
		return nil, e
	}
	if b := c.findBlock(h); b != nil {
		return c.blockJSON(b, len(c.params) > 1 && string(c.params[1]) == "true"), nil
	}
	return nil, nil
}

func (c *rpcCall) blockReceipts() (any, *rpcError) {
	b, e := c.blockParam(0)
	if e != nil || b == nil {
		return nil, e
	}
	out := []any{}
	for _, m := range b.txs {
		out = append(out, c.receiptJSON(m))
	}
	return out, nil
}

func (c *rpcCall) transactionByHash() (any, *rpcError) {
	h, e := c.hashParam(0)
	if e != nil {
		return nil, e
	}
	x, m := c.pool.byHash[h], c.minedByHash(h)
	if m != nil && !(c.rules.isLax && x != nil) { // anvil looks into its pool first
		return c.txJSON(m.transaction, m), nil
	}
	if x != nil {
		return c.txJSON(x.transaction, nil), nil
	}
	if m := c.chain.txs[h]; m != nil { // for a backend that is behind, the transaction is still in the pool
		return c.txJSON(m.transaction, nil), nil
	}
	return nil, nil
}

func (c *rpcCall) transactionReceipt() (any, *rpcError) {
	h, e := c.hashParam(0)
	if e != nil {
		return nil, e
	}
	if m := c.minedByHash(h); m != nil {
		return c.receiptJSON(m), nil
	}
	return nil, nil
}

func (c *rpcCall) bySenderAndNonce() (any, *rpcError) {
	a, e := c.addressParam(0)
	if e != nil {
		return nil, e
	}
	nonce, e := c.numberParam(1)
	if e != nil {
		return nil, e
	}
	if x := c.pool.byAccount[a][nonce.Uint64()]; x != nil {
		return c.txJSON(x.transaction, nil), nil
	}
	for _, b := range c.chain.blocks[:c.view.headNumber+1] {
		for _, m := range b.txs {
			if m.from == a && m.Nonce == nonce.Uint64() {
				return c.txJSON(m.transaction, m), nil
			}
		}
	}
	return nil, nil
}

// accountParam returns an account's state at the block that parameter i names.
func (c *rpcCall) accountParam(i int) (a evmtx.Address, at account, pending bool, e *rpcError) {
	if a, e = c.addressParam(0); e != nil {
		return a, at, false, e
	}
	b, e := c.blockParam(i)
	if e != nil {
		return a, at, false, e
	}
	if b == nil {
		return a, c.chain.accountAfter(a, c.view.headNumber), true, nil
	}
	return a, c.chain.accountAfter(a, b.number), false, c.checkStateKept(b)
}

func (c *rpcCall) transactionCount() (any, *rpcError) {
	a, at, pending, e := c.accountParam(1)
	if e != nil {
		return nil, e
	}
	if !pending {
		return hexNumber(at.nonce), nil
	}
	// For a backend that is behind, the transactions of later blocks are still in the pool.
	return hexNumber(c.pool.pendingNonce(a, max(at.nonce, c.chain.accountNow(a).nonce))), nil
}

func (c *rpcCall) balance() (any, *rpcError) {
	_, at, _, e := c.accountParam(1)
	return hexBig(at.balanceOrZero()), e
}

func (c *rpcCall) code() (any, *rpcError) {
	_, at, _, e := c.accountParam(1)
	return hexBytes(at.code), e
}

// callObject is the first parameter of eth_call and eth_estimateGas.
type callObject struct {
	To    string `json:"to"`
	Data  string `json:"data"`
	Input string `json:"input"`
}

// simulate runs a call, and returns its output and the gas that it needs.
func (c *rpcCall) simulate() (out []byte, gas uint64, e *rpcError) {
	var m callObject
	if len(c.params) == 0 || json.Unmarshal(c.params[0], &m) != nil {
		return nil, 0, c.wrongParam(0, "a transaction")
	}
	if m.Data == "" {
		m.Data = m.Input
	}
	data, _ := parseHexBytes(m.Data)
	tx := &evmtx.Tx{Type: evmtx.DynamicFee, Data: data}
	after, e := c.blockParam(1)
	if e != nil {
		return nil, 0, e
	}
	height := c.view.headNumber
	if after != nil {
		height = after.number
	}
	limit := c.chain.head().gasLimit
	code := data
	if m.To != "" {
		to, err := evmtx.ParseAddress(m.To)
		if err != nil {
			return nil, 0, c.wrongParam(0, "a transaction to an address")
		}
		tx.To, code = &to, c.chain.accountAfter(to, height).code
	}
	out, left, err := runCode(code, limit)
	if errors.Is(err, errRevert) {
		return nil, 0, &rpcError{Code: 3, Message: err.Error(), Data: hexBytes(out)}
	}
	if err != nil {
		return nil, 0, &rpcError{Code: -32000, Message: err.Error()}
	}
	used := tx.IntrinsicGas() + limit - left
	if tx.To == nil {
		used += gasPerCodeByte * uint64(len(out))
	}
	return out, max(used, tx.FloorGas()), nil
}

func (c *rpcCall) ethCall() (any, *rpcError) {
	out, _, e := c.simulate()
	return hexBytes(out), e
}

func (c *rpcCall) estimateGas() (any, *rpcError) {
	_, gas, e := c.simulate()
	return hexNumber(gas), e
}

func (c *rpcCall) sendRaw() (any, *rpcError) {
	raw, e := c.bytesParam(0)
	if e != nil {
		return nil, e
	}
	tx, why := c.receive(c.now, raw, c.dropsTx)
	if why == nil {
		return tx.hash.String(), nil
	}
	w := c.rules.words[why.reason]
	switch {
	case !c.rules.addsDetails:
	case why.fullText != "":
		w.Text = why.fullText
	default:
		w.Text += why.textSuffix
	}
	return nil, &rpcError{Code: w.Code, Message: w.Text}
}

func (c *rpcCall) poolStatus() (any, *rpcError) {
	pending, queued := c.pool.counts(c.chain)
	return map[string]any{"pending": hexNumber(uint64(pending)), "queued": hexNumber(uint64(queued))}, nil
}

// poolByNonce returns the pool's transactions of an account by nonce: those that can be mined, and
// the others.
func (c *rpcCall) poolByNonce(a evmtx.Address, each func(x *pooledTx) any) (pending, queued map[string]any) {
	byNonce := func(list []*pooledTx) map[string]any {
		out := map[string]any{}
		for _, x := range list {
			if c.rules.isLax || x.Type != evmtx.Blob { // geth does not list transactions with blobs
				out[strconv.FormatUint(x.Nonce, 10)] = each(x)
			}
		}
		return out
	}
	p, q := c.pool.splitPending(a, c.chain.accountNow(a).nonce)
	return byNonce(p), byNonce(q)
}

func (c *rpcCall) poolInspect() (any, *rpcError) {
	name := evmtx.Address.Checksum
	if c.rules.isLax {
		name = evmtx.Address.String
	}
	pending, queued := map[string]any{}, map[string]any{}
	for _, a := range c.pool.accounts() {
		p, q := c.poolByNonce(a, func(x *pooledTx) any {
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

func (c *rpcCall) poolContentFrom() (any, *rpcError) {
	a, e := c.addressParam(0)
	if e != nil {
		return nil, e
	}
	pending, queued := c.poolByNonce(a, func(x *pooledTx) any { return c.txJSON(x.transaction, nil) })
	return map[string]any{"pending": pending, "queued": queued}, nil
}
