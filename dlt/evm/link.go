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

// linking is one question's way down a line. Beside a line it has the blocks that were read and
// are not linked yet: those above them may come from another node, with the next answer.
type linking struct {
	*line
	read map[evmtx.Hash]block
}

// take links what the answers show, and reports whether they show a block that was not read
// before.
func (l *linking) take(answers []answer) (isNew bool) {
	for _, a := range answers {
		b, err := decodeBlock(a)
		if err != nil {
			continue
		}
		if _, known := l.read[b.hash]; !known {
			if l.read == nil {
				l.read = map[evmtx.Hash]block{}
			}
			l.read[b.hash], isNew = block{number: b.number, hash: b.hash, parent: b.parent}, true
		}
	}
	for {
		if b, there := l.read[l.parent]; !there || !l.add(b) {
			return isNew
		}
	}
}

// wanted returns the heights of the next headers to ask for. The next lower one is asked for in
// any case: the block that was read at its height is another chain's.
func (l *linking) wanted(height uint64) (heights []uint64) {
	there := map[uint64]bool{}
	for _, b := range l.read {
		there[b.number] = true
	}
	low, high := l.missing(height)
	for h := high; h >= low && h <= high; h-- {
		if h == high || !there[h] {
			heights = append(heights, h)
		}
	}
	return heights
}

// link follows the parents from the lowest block of a line down to a height, and remembers how far
// it came. It asks for linksAtOnce headers at most, and takes no more than half of the time that
// is left: the next question goes on from there. It ends where the answers bring nothing new. An
// error means that no node has answered.
func (c *Client) link(ctx context.Context, op string, e *endpoint, l *linking, height uint64) error {
	if height < l.top && l.top-height > maxLine {
		return nil
	}
	begun := time.Now()
	end, bounded := ctx.Deadline()
	defer func() { c.ancestry.keep(l.line) }()
	for asked := 0; asked < linksAtOnce && !(bounded && time.Since(begun) > time.Until(end)); {
		c.ancestry.join(l.line)
		heights := l.wanted(height)
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
			return dlt.At(e.shown, c.typed(op, err))
		}
		if !l.take(answers) {
			break
		}
	}
	return nil
}

// standsOn makes sure that the top of a view's line was built on a block.
func (f *finder) standsOn(ctx context.Context, v view, b block) error {
	if err := f.link(ctx, f.op, f.e, &linking{line: v.line}, b.number); err != nil {
		return err
	}
	if _, linked := v.line.at(b.number); !linked {
		return f.fail("%s", v.unlinked(b.number))
	}
	if !v.line.has(b) {
		return f.fail("block %d: block %d was not built on %s: it is of another chain, or of a node that is behind", b.number, v.line.top, b.hash)
	}
	return nil
}

// The height of a head is kept with a transaction: it says from when on that waits. So a head
// counts for that only if it stands on a block that is lower by one, and an absurd height does not
// stop a batch for ever.

// parentRequest asks for the block before a head; nothing where that is known.
func (c *Client) parentRequest(head block) []request {
	l := lineOf(head)
	if c.ancestry.join(&l); head.number == 0 || len(l.hashes) > 1 {
		return nil
	}
	return []request{blockRequest(head.number - 1)}
}

// standsOnParent reads the answer to parentRequest.
func (c *Client) standsOnParent(op string, head block, answers []answer) error {
	if len(answers) == 0 {
		return nil
	}
	if b, err := decodeBlock(answers[0]); err == nil && b.hash == head.parent && b.number+1 == head.number {
		return nil
	}
	return c.behind(op, "the last block is %d by one answer, and another one does not show the block before it", head.number)
}

// isLinked makes sure that a head stands on the block before it.
func (c *Client) isLinked(ctx context.Context, op string, e *endpoint, head block) error {
	reqs := c.parentRequest(head)
	answers, err := c.ask(ctx, op, e, reqs)
	if err != nil {
		return dlt.At(e.shown, c.typed(op, err))
	}
	return c.standsOnParent(op, head, answers)
}
