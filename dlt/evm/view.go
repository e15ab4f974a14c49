package evm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// block is a block's place in a chain.
type block struct {
	number    uint64
	hash      evmtx.Hash
	baseFee   *big.Int  // of a unit of gas; nil where the node names none
	gasLimit  uint64    // 0 where the node names none
	timestamp time.Time // zero where the node does not say
	// parent is zero where the node names none, and txs is its list of transactions as it came.
	parent evmtx.Hash
	txList json.RawMessage
}

// view is the chain of one node up to head, with which its other answers are compared. Nothing up
// to deep is taken back.
type view struct {
	head       block
	deep       block
	isNoneDeep bool // no block is deep yet
	// linkedBlocks are the blocks that are linked to the view, from its top down: from the block
	// that the node calls deep, or from the head, where a block is deep once enough blocks stand
	// on it. A deep height proves nothing without such a link.
	linkedBlocks *linkedBlocks
	// highestDeep is the height of the floor.
	highestDeep uint64
}

// isDeep reports whether a block of this height counts as deep.
func (v view) isDeep(number uint64) bool { return !v.isNoneDeep && number <= v.deep.number }

// isBehind reports whether a block of this height was shown to be deep, and not by this node.
func (v view) isBehind(number uint64) bool { return number <= v.highestDeep && !v.isDeep(number) }

// describeGap says that no link leads down to a height.
func (v view) describeGap(height uint64) string {
	low := v.linkedBlocks.lowest()
	switch {
	case v.linkedBlocks.top-height > maxLinkedBlocks:
		return fmt.Sprintf("block %d is more than %d blocks below block %d: nobody can follow so many parents", height, maxLinkedBlocks, v.linkedBlocks.top)
	case low == 0:
		return fmt.Sprintf("block %d is not below block %d", height, v.linkedBlocks.top)
	}
	return fmt.Sprintf("block %d is not known to be below block %d: the node has not shown block %d, the parent of block %d", height, v.linkedBlocks.top, low-1, low)
}

// identity says since when a node is known to be of the right chain.
type identity struct {
	mu sync.Mutex
	at time.Time
}

// identityFreshFor bounds how long a node behind the same connections counts as of the same chain.
const identityFreshFor = 10 * time.Second

func (i *identity) isFresh(now time.Time) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return !i.at.IsZero() && now.Sub(i.at) < identityFreshFor
}

func (i *identity) noteAt(now time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.at = now
}

func (i *identity) forget() { i.noteAt(time.Time{}) }

// identityRequests ask which chain the node has. Their answers go to identify.
func identityRequests() []request {
	return []request{{"eth_chainId", nil}, {"eth_getBlockByNumber", []any{"0x0", false}}}
}

// identify refuses a node of another chain: nothing may be posted to it, and its answers mean
// nothing.
func (c *Client) identify(ctx context.Context, op string, e *endpoint, answers []answer) error {
	fail := func(kind error, format string, args ...any) error {
		e.identity.forget()
		return &dlt.Error{Op: op, Kind: kind, Endpoint: e.shownAddress, Message: c.show(fmt.Sprintf(format, args...))}
	}
	if answers[0].err != nil {
		return fail(kindOf(answers[0].err), "eth_chainId: %s", answers[0].err.Message)
	}
	id, err := quantity(answers[0].result)
	if err != nil {
		return fail(dlt.ErrDoubt, "eth_chainId: %v", err)
	}
	if id != c.chain {
		return fail(dlt.ErrMisconfigured, "the node's chain is %d, not %d", id, c.chain)
	}
	if answers[1].isNull() || answers[1].err != nil && hasNoBlock(answers[1].err) {
		return c.identifyLater(ctx, op, e, answers[1])
	}
	if answers[1].err != nil {
		return fail(kindOf(answers[1].err), "block 0: %s", answers[1].err.Message)
	}
	genesis, err := decodeBlock(answers[1])
	if err != nil {
		return fail(dlt.ErrDoubt, "block 0: %v", err)
	}
	if genesis.number != 0 {
		return fail(dlt.ErrDoubt, "block 0: the node answers with block %d", genesis.number)
	}
	c.genesis.CompareAndSwap(nil, &genesis.hash)
	if known := *c.genesis.Load(); known != genesis.hash {
		return fail(dlt.ErrMisconfigured, "the node's block 0 is %s, not %s: it is another chain with the same id", genesis.hash, known)
	}
	e.identity.noteAt(time.Now())
	return nil
}

// hasNoBlock reports whether a node's error says that it does not have the block.
func hasNoBlock(err *rpcError) bool {
	if err.Code == codeResourceNotFound || err.Code == codePrunedHistory {
		return true
	}
	text := strings.ToLower(err.Message)
	return slices.ContainsFunc([]string{"not found", "pruned", "missing block", "history unavailable"}, func(t string) bool { return strings.Contains(text, t) })
}

const (
	codeResourceNotFound = -32001 // EIP-1474
	codePrunedHistory    = 4444   // execution-apis
)

// identifyLater identifies a node that has no block 0, because it has removed old blocks or began
// with a snapshot. It has the chain's id, and a later block. Where a deep block is known, it must
// not have another one at that height.
func (c *Client) identifyLater(ctx context.Context, op string, e *endpoint, zero answer) error {
	if e.identity.isFresh(time.Now()) {
		return nil
	}
	reqs := []request{{"eth_getBlockByNumber", []any{"latest", false}}}
	height, hash, known := c.highestDeep.linkedBlock()
	if known {
		reqs = append(reqs, blockRequest(height))
	}
	answers, err := c.ask(ctx, op, e, reqs)
	if err != nil {
		return dlt.At(e.shownAddress, c.asLedgerError(op, err))
	}
	_, none := decodeBlock(zero)
	out := &dlt.Error{Op: op, Kind: dlt.ErrDoubt, Endpoint: e.shownAddress, Message: c.show("block 0: " + none.Error())}
	if head, err := decodeBlock(answers[0]); err != nil || head.number == 0 {
		return out
	}
	if known {
		if b, err := decodeBlock(answers[1]); err == nil && (b.number != height || b.hash != hash) {
			out.Kind = dlt.ErrMisconfigured
			out.Message = c.show(fmt.Sprintf("the node has no block 0, and its block %d is %s, not %s: it is another chain with the same id", height, b.hash, hash))
			return out
		}
	}
	e.identity.noteAt(time.Now())
	return nil
}

// viewRequests ask for the blocks of a view. Their answers go to readView.
func (c *Client) viewRequests() []request {
	reqs := []request{{"eth_getBlockByNumber", []any{"latest", false}}}
	if c.options.Finality.usesTag() {
		reqs = append(reqs, request{"eth_getBlockByNumber", []any{"finalized", false}})
	}
	return reqs
}

// readView reads them. Without a deep block by its tag there is no view: to take another depth
// instead would be to promise more than was asked for.
func (c *Client) readView(answers []answer) (v view, err error) {
	if v.head, err = decodeBlock(answers[0]); err != nil {
		return v, fmt.Errorf("latest block: %w", err)
	}
	f := c.options.Finality
	switch {
	case f.instant:
		v.deep = v.head
	case f.blocks > 0:
		v.isNoneDeep = v.head.number < f.blocks
		if !v.isNoneDeep {
			v.deep.number = v.head.number - f.blocks // its hash is asked for where it is needed
		}
	default:
		if v.deep, err = decodeBlock(answers[1]); err != nil {
			return v, fmt.Errorf("finalized block: %w; a chain without one needs another Options.Finality", err)
		}
	}
	top := linkedBlocksOf(v.head)
	if f.usesTag() {
		top = linkedBlocksOf(v.deep)
	}
	c.ancestry.extend(&top)
	v.linkedBlocks = &top
	return v, nil
}

// askView asks a node for its chain and its view, and more questions with that.
func (c *Client) askView(ctx context.Context, op string, e *endpoint, more []request) (view, []answer, error) {
	reqs := append(identityRequests(), c.viewRequests()...)
	first := len(reqs)
	answers, err := c.ask(ctx, op, e, append(reqs, more...))
	if err != nil {
		return view{}, nil, dlt.At(e.shownAddress, c.asLedgerError(op, err))
	}
	if err := c.identify(ctx, op, e, answers); err != nil {
		return view{}, nil, err
	}
	v, err := c.readView(answers[2:first])
	if err != nil {
		return view{}, nil, &dlt.Error{Op: op, Kind: kindOfAny(answers), Endpoint: e.shownAddress, Err: c.shownError(err)}
	}
	return v, answers[first:], nil
}

// asLedgerError makes a *dlt.Error of any other error.
func (c *Client) asLedgerError(op string, err error) error {
	if _, ok := errors.AsType[*dlt.Error](err); ok {
		return err
	}
	return &dlt.Error{Op: op, Kind: dlt.ErrDoubt, Err: c.shownError(err)}
}

// kindOf returns the kind of a question that a node answered with an error.
func kindOf(err *rpcError) error {
	switch k := classify(err); k {
	case classBusy:
		return dlt.ErrBusy
	case classMisconfigured:
		return dlt.ErrMisconfigured
	}
	return dlt.ErrDoubt
}

// kindOfAny is kindOf for the first error among answers.
func kindOfAny(answers []answer) error {
	for _, a := range answers {
		if a.err != nil {
			return kindOf(a.err)
		}
	}
	return dlt.ErrDoubt
}

func decodeBlock(a answer) (block, error) {
	var doc struct {
		Number   json.RawMessage `json:"number"`
		Hash     string          `json:"hash"`
		BaseFee  string          `json:"baseFeePerGas"`
		GasLimit string          `json:"gasLimit"`
		Made     string          `json:"timestamp"`
		Parent   string          `json:"parentHash"`
		Txs      json.RawMessage `json:"transactions"`
	}
	switch {
	case a.err != nil:
		return block{}, errors.New(a.err.Message)
	case !a.hasResult():
		return block{}, errors.New("no answer")
	case a.isNull():
		return block{}, errors.New("the node has none")
	}
	if err := json.Unmarshal(a.result, &doc); err != nil {
		return block{}, err
	}
	number, err := quantity(doc.Number)
	if err != nil {
		return block{}, err
	}
	hash, ok := evmtx.ParseHash(doc.Hash)
	if !ok {
		return block{}, fmt.Errorf("block %d has no hash", number)
	}
	b := block{number: number, hash: hash, baseFee: hexBig(doc.BaseFee), txList: doc.Txs}
	b.parent, _ = evmtx.ParseHash(doc.Parent)
	if limit := hexBig(doc.GasLimit); limit != nil && limit.IsUint64() {
		b.gasLimit = limit.Uint64()
	}
	if at := hexBig(doc.Made); at != nil && at.IsInt64() && at.Sign() > 0 {
		b.timestamp = time.Unix(at.Int64(), 0)
	}
	return b, nil
}

// hexBig reads a number of any size; nil without a number.
func hexBig(s string) *big.Int {
	if v, ok := new(big.Int).SetString(strings.TrimPrefix(s, "0x"), 16); ok {
		return v
	}
	return nil
}

// quantity reads a number of at most 64 bits.
func quantity(raw json.RawMessage) (uint64, error) {
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return 0, fmt.Errorf("not a quantity: %w", err)
	}
	digits, ok := strings.CutPrefix(s, "0x")
	if !ok {
		return 0, fmt.Errorf("not a quantity: %.40q", s)
	}
	n, err := strconv.ParseUint(digits, 16, 64)
	if err != nil {
		return 0, fmt.Errorf("not a quantity: %.40q", s)
	}
	return n, nil
}

func hexQuantity(n uint64) string { return "0x" + strconv.FormatUint(n, 16) }

// number reads the answer to a question for a quantity.
func number(a answer) (uint64, error) {
	switch {
	case a.err != nil:
		return 0, errors.New(a.err.Message)
	case !a.hasResult():
		return 0, errors.New("no answer")
	}
	return quantity(a.result)
}
