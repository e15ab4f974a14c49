package evm

import (
	"context"
	"errors"
	"fmt"
)

// addLinks reads the answers with headers. A header that is missing will be asked for again.
func (p *nodeAnswers) addLinks(answers []answer) error {
	before := len(p.linkedBlocks.hashes)
	p.descent.addAnswers(answers)
	p.areLinksIncomplete = len(answers) > 0 && len(p.linkedBlocks.hashes) == before
	return nil
}

// lowestDeepReceipt returns the height of the lowest block of a receipt that is deep by its height
// and near enough to be linked.
func (p *nodeAnswers) lowestDeepReceipt() (lowest uint64, deep bool) {
	for _, r := range p.receipts {
		if r != nil && p.isDeep(r.block.number) && p.linkedBlocks.top-r.block.number <= maxLinkedBlocks && (!deep || r.block.number < lowest) {
			lowest, deep = r.block.number, true
		}
	}
	return lowest, deep
}

// linkReceipts links to the view those blocks of receipts that are deep by their height and that
// the first headers have not linked. The error names a block that could not be linked.
func (c *Client) linkReceipts(ctx context.Context, e *endpoint, p *nodeAnswers) error {
	var errs []error
	if lowest, deep := p.lowestDeepReceipt(); deep {
		if !p.areLinksIncomplete {
			errs = append(errs, c.linkDown(ctx, opStatuses, e, &p.descent, lowest))
		}
		c.ancestry.remember(p.linkedBlocks)
	}
	for i, r := range p.receipts {
		if r == nil || !p.isDeep(r.block.number) {
			continue
		}
		if _, linked := p.linkedBlocks.hashAt(r.block.number); !linked {
			errs = append(errs, fmt.Errorf("receipt of %s: %s", p.hashes[i], p.describeGap(r.block.number)))
		} else if p.linkedBlocks.has(r.block) {
			p.highestDeep = c.highestDeep.update(p.view, true)
		}
	}
	return errors.Join(errs...)
}
