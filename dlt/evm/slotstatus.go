package evm

import (
	"context"
	"errors"
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// BatchStatuses implements [dlt.BatchStatusReader]. It looks for every transaction that is kept for
// a batch, and what [Client.BatchStatuses] says of one holds for the batch. Stalled means that none
// is in a block, the last one has waited for SignerOptions.BumpAfter blocks, and a higher fee is
// within the limit. Void means that a deep block, which was read whole, gives the nonce to another
// transaction; or that nothing is kept, and so nothing was sent. Errors are [*dlt.Error]s; the
// answers beside an error are good.
func (c *SigningClient) BatchStatuses(ctx context.Context, _ batch.ServiceID, attempts []batch.Attempt) (out []batch.Status, err error) {
	if err := ctx.Err(); err != nil {
		return nil, &dlt.Error{Op: opStatuses, Kind: dlt.ErrDoubt, Err: err}
	}
	var part []held
	var errs []error
	size := 0
	flush := func() {
		if len(part) == 0 {
			return
		}
		statuses, err := c.askInTurn(ctx, part)
		out, errs = append(out, statuses...), append(errs, err)
		part, size = nil, 0
	}
	seen := map[batch.Key]bool{}
	for _, a := range attempts {
		if seen[a.Key] {
			continue
		}
		seen[a.Key] = true
		if len(a.Prepared) == 0 {
			out = append(out, batch.Status{ID: a.ID, Reported: batch.ReportedVoid, Message: errUnposted.Error()})
			continue
		}
		s, err := decodeSlot(a.Prepared)
		sender, bad := evmtx.ParseAddress(string(a.Service))
		if err = errors.Join(err, bad); err != nil {
			errs = append(errs, c.broken(opStatuses, fmt.Errorf("batch %s: %w", a.Key, err)))
			continue
		}
		if size += len(s.entries); size > maxIDs {
			flush()
			size = len(s.entries)
		}
		part = append(part, held{id: a.ID, sender: sender, slot: s})
	}
	flush()
	for _, err := range errs { // the first is enough
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// held is a slot that is asked about.
type held struct {
	id     batch.ID
	sender evmtx.Address
	*slot
}

// askInTurn asks the nodes until one answers.
func (c *SigningClient) askInTurn(ctx context.Context, all []held) (out []batch.Status, err error) {
	for _, e := range c.c.inTurn() {
		if out, err = c.statuses(ctx, e, all); len(out) > 0 || err == nil || ctx.Err() != nil {
			break
		}
	}
	return out, err
}

// statuses asks one node.
func (c *SigningClient) statuses(ctx context.Context, e *endpoint, all []held) (out []batch.Status, err error) {
	var subjects []subject
	for _, h := range all {
		for _, hash := range h.hashes() {
			subjects = append(subjects, subject{hash, h.sender.String()})
		}
	}
	p, err := c.c.pictured(ctx, e, subjects)
	if p == nil {
		return nil, err
	}
	first := 0
	for _, h := range all {
		st, ok := p.together(first, len(h.entries))
		first += len(h.entries)
		if !ok {
			continue
		}
		late := h.stalled(p.head, c.o.BumpAfter)
		if st.Reported == batch.ReportedUnknown || st.Reported == batch.ReportedPending && late {
			if st, err = c.open(ctx, e, h, st, late, err); st.Reported == 0 {
				continue
			}
		}
		st.ID = h.id
		out = append(out, st)
	}
	return out, err
}

// together is the status of some transactions of one nonce, of which one takes effect at most. A
// transaction without an answer leaves it open, unless another one was executed.
func (p *picture) together(first, n int) (best batch.Status, ok bool) {
	rank := func(r batch.Reported) int {
		switch r {
		case batch.ReportedCommitted, batch.ReportedInvalid:
			return 3
		case batch.ReportedValid:
			return 2
		case batch.ReportedPending:
			return 1
		}
		return 0
	}
	ok = true
	for i := first; i < first+n; i++ {
		st, answered := p.status(i)
		if ok = ok && answered; answered && (best.Reported == 0 || rank(st.Reported) >= rank(best.Reported)) {
			best = st
		}
	}
	return best, ok || rank(best.Reported) == 3
}

// open finishes the status of a batch that is in no block: another transaction may have its nonce.
// Beside an error of its own there is no status.
func (c *SigningClient) open(ctx context.Context, e *endpoint, h held, st batch.Status, late bool, before error) (batch.Status, error) {
	proof, err := c.c.whoUsed(ctx, opStatuses, e, h.sender, h.nonce, h.free(c.c.o.Finality), h.hashes())
	switch {
	case err != nil:
		if before != nil {
			err = before
		}
		return batch.Status{}, err
	case proof.by == byAnother:
		return batch.Status{Reported: batch.ReportedVoid, Message: proof.text(h.nonce)}, before
	case proof.by == byOurs: // its receipt will say so
		return batch.Status{}, before
	case proof.by == bySomeone:
		text := fmt.Sprintf("nonce %d is used in a deep block, and the node cannot tell any more by whom", h.nonce)
		return batch.Status{Reported: batch.ReportedPending, Message: text}, before
	case st.Reported == batch.ReportedPending && late && h.canRise():
		st.Reported = batch.ReportedStalled
	case st.Reported == batch.ReportedPending && late:
		st.Message += fmt.Sprintf("; the limit is %s gwei, after %d transactions", gwei(h.maxFee), len(h.entries))
	}
	return st, before
}
