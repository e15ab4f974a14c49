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

// block is a block's header, as far as the client needs it.
type block struct {
	number    uint64
	hash      evmtx.Hash
	baseFee   *big.Int  // in wei for a unit of gas; nil if the node names none
	gasLimit  uint64    // 0 if the node names none
	timestamp time.Time // zero if the node names none
	// parent is zero if the node names none. txList is the list of transactions as the node wrote
	// it.
	parent evmtx.Hash
	txList json.RawMessage
}

// view is the chain of one node up to head, with which the node's other answers are compared. No
// block up to deep is taken back.
type view struct {
	head       block
	deep       block
	isNoneDeep bool // true if no block is deep yet
	// linkedBlocks are the blocks that are linked to the view, from its top down. The top is the
	// block that the node calls deep or, where a block is deep once enough blocks stand on it, the
	// head. A height proves nothing about a block without such a link.
	linkedBlocks *linkedBlocks
	// highestDeep is the height of the floor.
	highestDeep uint64
}

// isDeep reports whether a block of this height counts as deep.
func (v view) isDeep(number uint64) bool { return !v.isNoneDeep && number <= v.deep.number }

// isBehind reports whether a block at this height is known to be deep, but not by this node.
func (v view) isBehind(number uint64) bool { return number <= v.highestDeep && !v.isDeep(number) }

// describeGap returns an error text: no link leads down to this height.
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

// identity is when a node was last seen to be of the right chain.
type identity struct {
	mu      sync.Mutex
	askedAt time.Time
}

// identityFreshFor is how long a node counts as being of the right chain, behind the same
// connections.
const identityFreshFor = 10 * time.Second

func (i *identity) isFresh(now time.Time) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return !i.askedAt.IsZero() && now.Sub(i.askedAt) < identityFreshFor
}

func (i *identity) noteAt(now time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.askedAt = now
}

func (i *identity) forget() { i.noteAt(time.Time{}) }

// identityRequests returns the requests that ask which chain the node has. identify reads the
// answers.
func identityRequests() []request {
	return []request{{"eth_chainId", nil}, {"eth_getBlockByNumber", []any{"0x0", false}}}
}

// identify returns an error for a node of another chain: nothing may be posted to such a node, and
// its answers mean nothing.
func (c *Client) identify(ctx context.Context, op string, e *endpoint, answers []answer) error {
	fail := func(kind error, format string, args ...any) error {
		e.identity.forget()
		return &dlt.Error{Op: op, Kind: kind, Endpoint: e.shownAddress, Message: c.shownText(fmt.Sprintf(format, args...))}
	}
	if answers[0].err != nil {
		return fail(kindOf(answers[0].err), "eth_chainId: %s", answers[0].err.Message)
	}
	id, err := decodeQuantity(answers[0].result)
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

// hasNoBlock reports whether a node's error means that the node does not have the block.
func hasNoBlock(err *rpcError) bool {
	if err.Code == codeResourceNotFound || err.Code == codePrunedHistory {
		return true
	}
	text := strings.ToLower(err.Message)
	return slices.ContainsFunc([]string{"not found", "pruned", "missing block", "history unavailable"}, func(t string) bool { return strings.Contains(text, t) })
}

const (
	codeResourceNotFound = -32001 // EIP-1474
	codePrunedHistory    = 4444   // code of the execution-apis specification
)

// identifyLater identifies a node without block 0, which has removed old blocks or began with a
// snapshot. Such a node must have the chain's id and a later block. If a deep block is known, the
// node must not have a different block at that height.
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
	out := &dlt.Error{Op: op, Kind: dlt.ErrDoubt, Endpoint: e.shownAddress, Message: c.shownText("block 0: " + none.Error())}
	if head, err := decodeBlock(answers[0]); err != nil || head.number == 0 {
		return out
	}
	if known {
		if b, err := decodeBlock(answers[1]); err == nil && (b.number != height || b.hash != hash) {
			out.Kind = dlt.ErrMisconfigured
			out.Message = c.shownText(fmt.Sprintf("the node has no block 0, and its block %d is %s, not %s: it is another chain with the same id", height, b.hash, hash))
			return out
		}
	}
	e.identity.noteAt(time.Now())
	return nil
}

// viewRequests returns the requests for the blocks of a view. readView reads the answers.
func (c *Client) viewRequests() []request {
	reqs := []request{{"eth_getBlockByNumber", []any{"latest", false}}}
	if c.options.Finality.usesTag() {
		reqs = append(reqs, request{"eth_getBlockByNumber", []any{"finalized", false}})
	}
	return reqs
}

// readView reads the answers to viewRequests. If the deep block is found by tag and the node has
// none, there is no view: another depth instead would promise more than the user asked for.
func (c *Client) readView(answers []answer) (v view, err error) {
	if v.head, err = decodeBlock(answers[0]); err != nil {
		return v, fmt.Errorf("latest block: %w", err)
	}
	f := c.options.Finality
	switch {
	case f.isInstant:
		v.deep = v.head
	case f.blocks > 0:
		v.isNoneDeep = v.head.number < f.blocks
		if !v.isNoneDeep {
			v.deep.number = v.head.number - f.blocks // the hash is asked for when it is needed
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

// askView asks a node for its chain and its view, together with the requests in more.
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

// asLedgerError turns an error that is not a *dlt.Error into one.
func (c *Client) asLedgerError(op string, err error) error {
	if _, ok := errors.AsType[*dlt.Error](err); ok {
		return err
	}
	return &dlt.Error{Op: op, Kind: dlt.ErrDoubt, Err: c.shownError(err)}
}

// kindOf returns the kind of error for a question that a node answered with an error.
func kindOf(err *rpcError) error {
	switch k := classify(err); k {
	case classBusy:
		return dlt.ErrBusy
	case classMisconfigured:
		return dlt.ErrMisconfigured
	}
	return dlt.ErrDoubt
}

// kindOfAny returns kindOf of the first error among answers.
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
	number, err := decodeQuantity(doc.Number)
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

// hexBig reads a hexadecimal number of any size; nil if the text is no number.
func hexBig(s string) *big.Int {
	if v, ok := new(big.Int).SetString(strings.TrimPrefix(s, "0x"), 16); ok {
		return v
	}
	return nil
}

// decodeQuantity reads a JSON-RPC quantity of at most 64 bits.
func decodeQuantity(raw json.RawMessage) (uint64, error) {
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

// decodeNumber reads the answer to a question for a quantity.
func decodeNumber(a answer) (uint64, error) {
	switch {
	case a.err != nil:
		return 0, errors.New(a.err.Message)
	case !a.hasResult():
		return 0, errors.New("no answer")
	}
	return decodeQuantity(a.result)
}
