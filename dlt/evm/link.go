package evm

import (
	"context"
	"time"

	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

func blockRequest(height uint64) request {
	return request{"eth_getBlockByNumber", []any{hexQuantity(height), false}}
}

// blockDescent links blocks below the lowest block of a run, during one question. readBlocks are
// the blocks that were read and are not linked yet: a later answer, perhaps of another node, may
// have the blocks above them.
type blockDescent struct {
	*linkedBlocks
	readBlocks map[evmtx.Hash]block
}

// addAnswers links the blocks in the answers, and reports whether the answers show a block that
// was not read before.
func (l *blockDescent) addAnswers(answers []answer) (isNew bool) {
	for _, a := range answers {
		b, err := decodeBlock(a)
		if err != nil {
			continue
		}
		if _, known := l.readBlocks[b.hash]; !known {
			if l.readBlocks == nil {
				l.readBlocks = map[evmtx.Hash]block{}
			}
			l.readBlocks[b.hash], isNew = block{number: b.number, hash: b.hash, parent: b.parent}, true
		}
	}
	for {
		if b, there := l.readBlocks[l.parent]; !there || !l.addParent(b) {
			return isNew
		}
	}
}

// wantedHeights returns the heights of the next headers to ask for. The height just below the run
// is always among them: a block already read at that height is of another chain.
func (l *blockDescent) wantedHeights(height uint64) (heights []uint64) {
	there := map[uint64]bool{}
	for _, b := range l.readBlocks {
		there[b.number] = true
	}
	low, high := l.missingHeights(height)
	for h := high; h >= low && h <= high; h-- {
		if h == high || !there[h] {
			heights = append(heights, h)
		}
	}
	return heights
}

// linkDown follows the parent hashes from the lowest block of a run down to a height, and
// remembers the linked blocks. It asks for maxLinksAsked headers at most, and uses at most half of
// the time that is left; the next question goes on from there. It stops when the answers bring
// nothing new. An error means that no node has answered.
func (c *Client) linkDown(ctx context.Context, op string, e *endpoint, l *blockDescent, height uint64) error {
	if height < l.top && l.top-height > maxLinkedBlocks {
		return nil
	}
	begun := time.Now()
	end, bounded := ctx.Deadline()
	defer func() { c.ancestry.remember(l.linkedBlocks) }()
	for asked := 0; asked < maxLinksAsked && !(bounded && time.Since(begun) > time.Until(end)); {
		c.ancestry.extend(l.linkedBlocks)
		heights := l.wantedHeights(height)
		if len(heights) == 0 {
			return nil
		}
		reqs := make([]request, len(heights))
		for i, h := range heights {
			reqs[i] = blockRequest(h)
		}
		asked += len(reqs)
		answers, err := c.ask(ctx, op, e, reqs)
		if err != nil {
			return dlt.At(e.shownAddress, c.asLedgerError(op, err))
		}
		if !l.addAnswers(answers) {
			break
		}
	}
	return nil
}

// checkStandsOn makes sure that the top of a view's linked blocks was built on the block b.
func (f *nonceUseFinder) checkStandsOn(ctx context.Context, v view, b block) error {
	if err := f.linkDown(ctx, f.op, f.endpoint, &blockDescent{linkedBlocks: v.linkedBlocks}, b.number); err != nil {
		return err
	}
	if _, linked := v.linkedBlocks.hashAt(b.number); !linked {
		return f.doubt("%s", v.describeGap(b.number))
	}
	if !v.linkedBlocks.has(b) {
		return f.doubt("block %d: block %d was not built on %s: it is of another chain, or of a node that is behind", b.number, v.linkedBlocks.top, b.hash)
	}
	return nil
}

// The height of the head is stored with a transaction, as the height from which on the transaction
// waits. A head counts only if it is linked to a block that is lower by one, so that an absurd
// height does not stop a batch for ever.

// parentRequest returns the request for the block before a head; nil if that block is known.
func (c *Client) parentRequest(head block) []request {
	l := linkedBlocksOf(head)
	if c.ancestry.extend(&l); head.number == 0 || len(l.hashes) > 1 {
		return nil
	}
	return []request{blockRequest(head.number - 1)}
}

// checkParent reads the answers to the requests of parentRequest.
func (c *Client) checkParent(op string, head block, answers []answer) error {
	if len(answers) == 0 {
		return nil
	}
	if b, err := decodeBlock(answers[0]); err == nil && b.hash == head.parent && b.number+1 == head.number {
		return nil
	}
	return c.behindError(op, "the last block is %d by one answer, and another one does not show the block before it", head.number)
}

// checkLinked makes sure that a head is linked to the block before it.
func (c *Client) checkLinked(ctx context.Context, op string, e *endpoint, head block) error {
	reqs := c.parentRequest(head)
	answers, err := c.ask(ctx, op, e, reqs)
	if err != nil {
		return dlt.At(e.shownAddress, c.asLedgerError(op, err))
	}
	return c.checkParent(op, head, answers)
}
