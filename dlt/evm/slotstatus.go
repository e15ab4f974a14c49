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
// is in a block, the last one has waited for Options.BumpAfter blocks, and a higher fee is
// within the limit. Void means that a deep block shows another transaction, or an authorization, that has
// the nonce; or that nothing is kept, and so nothing was sent. Kept bytes that this client cannot read have
// no answer. Errors are [*dlt.Error]s; the
// answers beside an error are good.
func (c *SigningClient) BatchStatuses(ctx context.Context, _ batch.ServiceID, attempts []batch.Attempt) (out []batch.Status, err error) {
	if err := ctx.Err(); err != nil {
		return nil, &dlt.Error{Op: opStatuses, Kind: dlt.ErrDoubt, Err: err}
	}
	var all []asked
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
			continue // no error either: the others have theirs, and this one's lack of an answer calls a person
		}
		all = append(all, asked{id: a.ID, account: sender.String(), hashes: s.hashes(), slot: s})
	}
	statuses, err := c.c.lookFor(ctx, all, c.open)
	return append(out, statuses...), err
}

// open finishes the status of a batch that is in no block: another transaction may have its nonce.
// Beside an error there is no status.
func (c *SigningClient) open(ctx context.Context, e *endpoint, p *picture, one asked, st batch.Status) (batch.Status, error) {
	s := one.slot
	late := s.stalled(p.head, c.c.o.BumpAfter)
	if st.Reported == batch.ReportedPending && !late {
		return st, nil
	}
	sender, err := evmtx.ParseAddress(one.account)
	if err != nil {
		return batch.Status{}, err
	}
	proof, err := c.c.whoUsed(ctx, opStatuses, e, sender, s.nonce, s.free(c.c.o.Finality), one.hashes)
	switch {
	case err != nil:
		return batch.Status{}, err
	case proof.by == byAnother:
		return batch.Status{Reported: batch.ReportedVoid, Message: proof.text(s.nonce)}, nil
	case proof.by == byOurs: // its receipt will say so
		return batch.Status{}, nil
	case proof.by == bySomeone:
		text := fmt.Sprintf("nonce %d is used in a deep block, and the node does not show by whom", s.nonce)
		return batch.Status{Reported: batch.ReportedPending, Message: text}, nil
	case st.Reported == batch.ReportedPending && late && s.canRise():
		st.Reported = batch.ReportedStalled
	case st.Reported == batch.ReportedPending && late:
		st.Message += fmt.Sprintf("; the limit is %s gwei, after %d transactions", gwei(s.maxFee), len(s.entries))
	}
	return st, nil
}
