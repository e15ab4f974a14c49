package evm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// maxIDs is the largest number of ids in one query: each is two questions in an array, and a
// third for its block.
const maxIDs = 50

const opStatuses = "batch statuses"

// BatchStatuses implements [dlt.BatchStatusReader]. It first fixes the node's head and the last
// deep block, and then compares everything with them: Committed and Invalid (reverted) mean a
// receipt in a deep block, Valid a receipt in a later one, Pending a transaction in the node's
// pool, and Unknown none of it. Answers that contradict each other are left out. An id that is not
// a hash has no answer. Errors are [*dlt.Error]s; the answers beside an error are good.
func (c *Client) BatchStatuses(ctx context.Context, _ batch.ServiceID, attempts []batch.Attempt) ([]batch.Status, error) {
	var hashes []evmtx.Hash
	seen := make(map[evmtx.Hash]struct{}, len(attempts))
	for _, a := range attempts {
		h, ok := evmtx.ParseHash(string(a.ID))
		if _, twice := seen[h]; ok && !twice && h.String() == string(a.ID) {
			seen[h] = struct{}{}
			hashes = append(hashes, h)
		}
	}
	var out []batch.Status
	for part := range slices.Chunk(hashes, maxIDs) {
		statuses, err := c.askInTurn(ctx, part)
		if out = append(out, statuses...); err != nil {
			return out, err
		}
	}
	return out, nil
}

// askInTurn asks the nodes until one answers.
func (c *Client) askInTurn(ctx context.Context, hashes []evmtx.Hash) (out []batch.Status, err error) {
	for _, e := range c.inTurn() {
		if out, err = c.statuses(ctx, e, hashes); len(out) > 0 || err == nil || ctx.Err() != nil {
			break
		}
	}
	return out, err
}

// statuses asks one node.
func (c *Client) statuses(ctx context.Context, e *endpoint, hashes []evmtx.Hash) ([]batch.Status, error) {
	reqs := make([]request, len(hashes))
	for i, h := range hashes {
		reqs[i] = request{"eth_getTransactionReceipt", []any{h.String()}}
	}
	v, answers, err := c.look(ctx, opStatuses, e, reqs)
	if err != nil {
		return nil, err
	}
	v.settled = c.settle(v)
	p := picture{view: v, hashes: hashes, receipts: make([]*receipt, len(hashes)), known: make([]known, len(hashes)), canonical: map[uint64]evmtx.Hash{}}
	errs := []error{p.takeReceipts(answers)}
	// What the first answers leave open: whether a deep receipt's block is on the chain of the
	// view, and whether the pool has the transactions without receipts.
	more, heights := p.rest()
	answers, err = c.ask(ctx, opStatuses, e, more)
	if err != nil {
		errs = append(errs, c.typed(opStatuses, err))
	} else {
		errs = append(errs, p.takeRest(answers, heights))
	}
	out := p.statuses()
	if err := errors.Join(errs...); err != nil {
		if _, ok := errors.AsType[*dlt.Error](err); !ok {
			err = &dlt.Error{Op: opStatuses, Kind: dlt.ErrDoubt, Err: c.cause(err)}
		}
		return out, dlt.At(e.shown, err)
	}
	return out, nil
}

// known is a node's answer about a transaction by its hash.
type known uint8

const (
	unasked known = iota
	nowhere
	inPool
	inBlock // which a receipt should have said
)

// picture holds a node's answers about some transactions, compared with one view.
type picture struct {
	view
	hashes    []evmtx.Hash
	answered  []bool
	receipts  []*receipt // nil where the node has none
	known     []known
	canonical map[uint64]evmtx.Hash // the blocks of the view's chain by height
}

// takeReceipts reads the answers about receipts. An error leaves its transaction without a status.
func (p *picture) takeReceipts(answers []answer) error {
	p.answered = make([]bool, len(p.hashes))
	var errs []error
	for i, a := range answers {
		r, err := readReceipt(a)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("receipt of %s: %w", p.hashes[i], err))
		case r != nil && r.hash != p.hashes[i]:
			// Another's: no answer.
		default:
			p.receipts[i], p.answered[i] = r, a.there()
		}
	}
	return errors.Join(errs...)
}

// rest returns the questions that are left: first the heights whose blocks it returns, then the
// transactions without a receipt, in their order.
func (p *picture) rest() (reqs []request, heights []uint64) {
	p.canonical[p.head.number] = p.head.hash
	if p.deep.hash != (evmtx.Hash{}) {
		p.canonical[p.deep.number] = p.deep.hash
	}
	for _, r := range p.receipts {
		if r == nil || !p.isDeep(r.block.number) {
			continue
		}
		if _, have := p.canonical[r.block.number]; !have {
			p.canonical[r.block.number] = evmtx.Hash{}
			heights = append(heights, r.block.number)
			reqs = append(reqs, request{"eth_getBlockByNumber", []any{hexQuantity(r.block.number), false}})
		}
	}
	for i, r := range p.receipts {
		if r == nil && p.answered[i] {
			reqs = append(reqs, request{"eth_getTransactionByHash", []any{p.hashes[i].String()}})
		}
	}
	return reqs, heights
}

func (p *picture) takeRest(answers []answer, heights []uint64) error {
	var errs []error
	for i, h := range heights {
		b, err := decodeBlock(answers[i])
		if err != nil {
			errs = append(errs, fmt.Errorf("block %d: %w", h, err))
		} else if b.number == h {
			p.canonical[h] = b.hash
		}
	}
	answers = answers[len(heights):]
	for i, r := range p.receipts {
		if r != nil || !p.answered[i] {
			continue
		}
		k, err := readKnown(answers[0], p.hashes[i])
		if err != nil {
			errs = append(errs, fmt.Errorf("transaction %s: %w", p.hashes[i], err))
		}
		p.known[i], answers = k, answers[1:]
	}
	return errors.Join(errs...)
}

func readKnown(a answer, hash evmtx.Hash) (known, error) {
	switch {
	case a.err != nil:
		return unasked, errors.New(a.err.Message)
	case !a.there():
		return unasked, nil
	case a.isNull():
		return nowhere, nil
	}
	var doc struct {
		Hash  string  `json:"hash"`
		Block *string `json:"blockHash"`
	}
	if err := json.Unmarshal(a.result, &doc); err != nil {
		return unasked, err
	}
	switch {
	case doc.Hash != hash.String():
		return unasked, nil
	case doc.Block != nil:
		return inBlock, nil
	}
	return inPool, nil
}

// statuses draws the conclusions. It is pure.
func (p *picture) statuses() (out []batch.Status) {
	for i, h := range p.hashes {
		if s, ok := p.status(i); ok {
			s.ID = batch.ID(h.String())
			out = append(out, s)
		}
	}
	return out
}

func (p *picture) status(i int) (batch.Status, bool) {
	r := p.receipts[i]
	switch {
	case r != nil && !p.isDeep(r.block.number):
		return batch.Status{Reported: batch.ReportedValid}, true
	case r != nil && p.canonical[r.block.number] != r.block.hash:
		return batch.Status{}, false // of another chain than the view: ask again
	case r != nil && r.reverted:
		return batch.Status{Reported: batch.ReportedInvalid, Receipts: []batch.Receipt{r.asBatch()}, Message: r.reason()}, true
	case r != nil:
		return batch.Status{Reported: batch.ReportedCommitted, Receipts: []batch.Receipt{r.asBatch()}}, true
	case p.known[i] == inPool:
		return batch.Status{Reported: batch.ReportedPending}, true
	case p.known[i] == nowhere:
		return batch.Status{Reported: batch.ReportedUnknown}, true
	}
	return batch.Status{}, false
}
