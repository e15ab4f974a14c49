package evm

import (
	"context"
	"errors"
	"fmt"
)

// takeLinks reads the answers about headers. A header that is missing is asked for again.
func (p *picture) takeLinks(answers []answer) error {
	before := len(p.line.hashes)
	p.way.take(answers)
	p.stuck = len(answers) > 0 && len(p.line.hashes) == before
	return nil
}

// deepest returns the lowest block of a receipt that is deep by its height, and near enough to be
// linked.
func (p *picture) deepest() (lowest uint64, deep bool) {
	for _, r := range p.receipts {
		if r != nil && p.isDeep(r.block.number) && p.line.top-r.block.number <= maxLine && (!deep || r.block.number < lowest) {
			lowest, deep = r.block.number, true
		}
	}
	return lowest, deep
}

// linkReceipts links the blocks of receipts that are deep by their height to the view, as far as
// the first headers have not done it. Its error names a block that it could not link.
func (c *Client) linkReceipts(ctx context.Context, e *endpoint, p *picture) error {
	var errs []error
	if lowest, deep := p.deepest(); deep {
		if !p.stuck {
			errs = append(errs, c.link(ctx, opStatuses, e, &p.way, lowest))
		}
		c.ancestry.keep(p.line)
	}
	for i, r := range p.receipts {
		if r == nil || !p.isDeep(r.block.number) {
			continue
		}
		if _, linked := p.line.at(r.block.number); !linked {
			errs = append(errs, fmt.Errorf("receipt of %s: %s", p.hashes[i], p.unlinked(r.block.number)))
		} else if p.line.has(r.block) {
			p.settled = c.floor.see(p.view, true)
		}
	}
	return errors.Join(errs...)
}
