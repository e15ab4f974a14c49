package evm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// BatchStatuses implements [dlt.BatchStatusReader]. It looks for every transaction that is kept
// for a batch, and what [Client.BatchStatuses] says of one holds for the batch. Stalled means that
// none is in a block, the last one has waited for Options.BumpAfter blocks, and a higher fee is
// within the limit, or that the batch is withdrawn and nothing closes its nonce yet. Void means
// that a deep block shows another transaction, or an authorization, that has the nonce, or the
// transfer of nothing that closes it; or that nothing is kept, and so nothing was sent. Kept bytes
// that this client cannot read have no answer. Errors are [*dlt.Error]s; the
// answers that come with an error are good.
func (c *SigningClient) BatchStatuses(ctx context.Context, _ batch.ServiceID, attempts []batch.Attempt) (out []batch.Status, err error) {
	if err := ctx.Err(); err != nil {
		return nil, &dlt.Error{Op: opStatuses, Kind: dlt.ErrDoubt, Err: err}
	}
	var all []batchQuestion
	seen := map[batch.Key]bool{}
	for _, a := range attempts {
		if seen[a.Key] {
			continue
		}
		seen[a.Key] = true
		if len(a.Prepared) == 0 {
			out = append(out, batch.Status{ID: a.ID, Reported: batch.ReportedVoid, Message: errNothingPrepared.Error()})
			continue
		}
		s, err := c.readSlot(a.Prepared)
		sender, bad := evmtx.ParseAddress(string(a.Service))
		if err = errors.Join(err, bad); err != nil {
			continue // without an error, which would concern the others; a batch without an answer is reported to a person
		}
		all = append(all, batchQuestion{id: a.ID, account: sender.String(), hashes: s.hashes(), slot: s, isWithdrawn: a.Withdrawn})
	}
	used := map[batch.ID]usedSlot{}
	statuses, err := c.client.askStatuses(ctx, all, func(ctx context.Context, e *endpoint, p *nodeAnswers, all []*openBatch) error {
		return c.finishOpen(ctx, e, p, all, used)
	})
	for _, st := range statuses { // another node has answered about this batch
		delete(used, st.ID)
	}
	more, failed := c.finishUsed(ctx, used)
	if err == nil {
		err = failed
	}
	return slices.Concat(out, statuses, more), err
}

// usedSlot is a batch in no block whose nonce is used in a deep block.
type usedSlot struct {
	endpoint  *endpoint // the node that says so
	view      view
	batch     openBatch
	isOverdue bool
}

// finishOpen finishes the statuses of batches that are in no block, or whose answers contradict
// each other. Another transaction may have used their nonces. So finishOpen asks for all of these
// nonces at once, after the deep block, and puts the batches with used nonces into used for
// findSlotUse, which takes longer. A batch whose own question fails has no status.
func (c *SigningClient) finishOpen(ctx context.Context, e *endpoint, p *nodeAnswers, all []*openBatch, used map[batch.ID]usedSlot) (first error) {
	var requests []request
	var isLate []bool
	var waiting []*openBatch
	for _, o := range all {
		l := o.needsClosing() || o.slot.isStalled(p.head, c.client.options.BumpAfter)
		if o.status.Reported == batch.ReportedPending && (!l || o.isClosed) {
			continue
		}
		waiting, isLate = append(waiting, o), append(isLate, l)
		if !p.isNoneDeep {
			requests = append(requests, request{"eth_getTransactionCount", []any{o.account, hexQuantity(p.deep.number)}})
		}
	}
	f := nonceUseFinder{Client: c.client, op: opStatuses, endpoint: e}
	answers, err := c.client.ask(ctx, opStatuses, e, requests)
	if err != nil {
		err = dlt.At(e.shownAddress, c.client.asLedgerError(opStatuses, err))
	}
	for i, o := range waiting {
		next, failed := uint64(0), err
		if !p.isNoneDeep && failed == nil {
			next, failed = f.readNextNonce(answers[i], p.deep.number)
		}
		switch {
		case failed != nil:
			o.status, first = batch.Status{}, cmp.Or(first, failed)
		case next > o.slot.nonce:
			used[o.id] = usedSlot{e, p.view, *o, isLate[i]}
			o.status = batch.Status{}
		default:
			o.status = o.conclude(isLate[i], p.waitsForAnother(o), nonceUse{user: nonceUnused})
		}
	}
	return first
}

// waitsForAnother reports whether an earlier nonce of the account has to be mined before the
// slot's.
func (p *nodeAnswers) waitsForAnother(o *openBatch) bool {
	latest, ok := p.nextNonces[nonceQuestion{o.account, "latest"}]
	return ok && latest < o.slot.nonce
}

// finishUsed finishes the statuses of batches whose nonces are used. It takes them in random
// order, so that no batch is always among the last. After the first batch it stops when half of
// the remaining time has passed: the other batches have no answer yet, and are asked about again.
func (c *SigningClient) finishUsed(ctx context.Context, used map[batch.ID]usedSlot) (out []batch.Status, first error) {
	begun := time.Now()
	end, bounded := ctx.Deadline()
	done := 0
	for id, u := range used {
		if bounded && done > 0 && time.Since(begun) > time.Until(end) {
			break
		}
		done++
		proof, err := c.findSlotUse(ctx, u)
		if err != nil {
			first = cmp.Or(first, err)
			continue
		}
		if st := u.batch.conclude(u.isOverdue, false, proof); st.Reported != 0 {
			st.ID = id
			out = append(out, st)
		}
	}
	return out, first
}

// findSlotUse asks the nodes in turn which transaction used a slot's nonce, until one shows it.
func (c *SigningClient) findSlotUse(ctx context.Context, u usedSlot) (proof nonceUse, err error) {
	sender, err := evmtx.ParseAddress(u.batch.account)
	if err != nil {
		return nonceUse{}, err
	}
	s := u.batch.slot
	free := s.freeHeight(c.client.options.Finality)
	f := nonceUseFinder{Client: c.client, op: opStatuses, endpoint: u.endpoint, sender: sender, nonce: s.nonce, ownHashes: u.batch.hashes}
	proof, err = f.findUse(ctx, u.view, free)
	for _, e := range c.client.endpointsInTurn() {
		if e == u.endpoint || err == nil && proof.user != nonceUsedBySomeone || ctx.Err() != nil {
			continue
		}
		if other, failed := c.client.findUse(ctx, opStatuses, e, sender, s.nonce, free, u.batch.hashes); failed == nil && (err != nil || other.user != nonceUnused) {
			proof, err = other, nil
		}
	}
	return proof, err
}

// conclude returns the status of a batch that is in no block, from the facts about its nonce.
// waits is true if an earlier nonce of the account has to be mined first: the batch is then sent
// again together with the batch of that nonce, because a pool may have lost both.
func (o *openBatch) conclude(late, waits bool, proof nonceUse) batch.Status {
	st, s := o.status, o.slot
	switch {
	case proof.user == nonceUsedByAnother:
		return batch.Status{Reported: batch.ReportedVoid, Message: proof.text(s.nonce)}
	case proof.user == nonceUsedByOurs: // its receipt will say so
		return batch.Status{}
	case st.Reported == 0: // the answers contradict each other
		return st
	case proof.user == nonceUsedBySomeone:
		text := fmt.Sprintf("nonce %d is used in a deep block, and the node does not show by whom", s.nonce)
		return batch.Status{Reported: batch.ReportedPending, Message: text}
	case st.Reported == batch.ReportedPending && late && (s.canRise() || waits || o.needsClosing()):
		st.Reported = batch.ReportedStalled
	case st.Reported == batch.ReportedPending && late:
		st.Message += fmt.Sprintf("; the limit is %s gwei, after %d transactions", gwei(s.maxFee), len(s.entries))
	}
	return st
}
