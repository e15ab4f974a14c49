package evm

import (
	"context"
	"errors"
	"fmt"
	"math/big"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// When a person has withdrawn a batch ([batch.Attempt].Withdrawn), its nonce is closed: its slot
// gets a transfer of nothing from the account to itself, with the same nonce and higher fees. Like
// every transaction of a slot, the transfer is stored before it is sent. At most one transaction
// of the slot is mined, and that one decides the batch. Nothing else is assumed, and no
// transaction that was sent before is forgotten.

// transferOfNothing returns the transfer that closes a nonce.
func transferOfNothing(sender evmtx.Address) intent { return intent{to: &sender, value: new(big.Int)} }

// isClosing reports whether the slot's nonce is being closed: its last transaction is a transfer
// of nothing.
func (s *slot) isClosing() bool { return s.lastEntry().closingGas != 0 }

// countOwn returns how many of the slot's hashes are transactions of the intent itself. They come
// first.
func (s *slot) countOwn() (n int) {
	seen := map[evmtx.Hash]bool{}
	for _, e := range s.entries {
		if e.closingGas == 0 && !seen[e.hash] {
			seen[e.hash] = true
			n++
		}
	}
	return n
}

// readSlot reads prepared bytes. A transfer that closes a nonce may cost as much as the client
// allows, because the batch's own limit may be the reason why the batch waits.
func (c *SigningClient) readSlot(kept []byte) (*slot, error) {
	s, err := decodeSlot(kept)
	if err == nil && s.isClosing() {
		s.maxFee = largest(s.maxFee, c.options.MaxFeePerGas)
	}
	return s, err
}

// addClosing adds to a slot the transfer of nothing that closes its nonce.
func (p *preparation) addClosing(ctx context.Context, s *slot, kept []byte) ([]byte, error) {
	p.intent = transferOfNothing(p.sender)
	_, latest, _, err := p.askState(ctx)
	if err != nil {
		return nil, err
	}
	if latest > s.nonce { // used by any transaction; only the statuses say by which
		return kept, nil
	}
	limit, least := largest(s.maxFee, p.options.MaxFeePerGas), s.leastReplacement()
	if least.FeeCap.Cmp(limit) > 0 {
		forgotten, err := p.client.isForgotten(ctx, p.endpoint, s.hashes())
		if err != nil {
			return nil, err
		}
		if forgotten { // no transaction in the pool needs to be replaced
			least = Fee{}
		}
	}
	switch {
	case len(s.entries) >= maxEntries:
		return nil, p.notYetError("nonce %d is not closed: %d transactions were signed for it, and there is no room for more", s.nonce, len(s.entries))
	case least.FeeCap != nil && least.FeeCap.Cmp(limit) > 0:
		return nil, p.notYetError("nonce %d is not closed: a replacement costs %s gwei at least, and SignerOptions.MaxFeePerGas is %s", s.nonce, gwei(least.FeeCap), gwei(limit))
	case limit.Cmp(p.market.BaseFee) < 0:
		return nil, p.notYetError("nonce %d is not closed: the base fee of block %d is %s gwei, and SignerOptions.MaxFeePerGas %s", s.nonce, p.head.number, gwei(p.market.BaseFee), gwei(limit))
	}
	if err := p.client.checkLinked(ctx, opPrepare, p.endpoint, p.head); err != nil {
		return nil, err
	}
	gas, err := p.chooseGas(ctx, latest < s.nonce)
	if err != nil {
		return nil, notClosedError(err, s.nonce)
	}
	p.market.Last = s.lastEntry().fee
	e, err := p.sign(ctx, p, s.nonce, gas, least, limit)
	if err != nil {
		return nil, notClosedError(err, s.nonce)
	}
	e.closingGas = gas
	return e.append(append([]byte(nil), kept...)), nil
}

// notClosedError returns the error of an attempt to close a nonce. A refusal by the chain or the
// node says nothing about the batch, which may still take effect, so closing is tried again.
func notClosedError(err error, nonce uint64) error {
	e, ok := errors.AsType[*dlt.Error](err)
	if !ok {
		return err
	}
	if dlt.Kind(e) == batch.KindRejected {
		e.Kind = dlt.ErrNotYet
	}
	e.Message = fmt.Sprintf("nonce %d is not closed: %s", nonce, e.Message)
	return e
}

// needsClosing reports whether a batch was withdrawn, and nothing that closes its nonce is signed
// yet.
func (o *openBatch) needsClosing() bool { return o.isWithdrawn && !o.slot.isClosing() }

// statusOfSlot returns the status of a batch from its transactions, whose places begin at first.
// closed is true if a block has the transaction that closes the nonce. ok is false if there is no
// status. statusOfSlot is pure.
func (p *nodeAnswers) statusOfSlot(first int, one batchQuestion) (st batch.Status, closed, ok bool) {
	n := len(one.hashes)
	if one.slot != nil && one.slot.sendPermissions == nil {
		n = one.slot.countOwn()
	}
	st, ok = p.statusOfAny(first, n)
	if n == len(one.hashes) || st.Reported == batch.ReportedCommitted || st.Reported == batch.ReportedInvalid {
		return st, false, ok
	}
	nonce := one.slot.nonce
	other, answered := p.statusOfAny(first+n, len(one.hashes)-n)
	switch other.Reported {
	case batch.ReportedCommitted, batch.ReportedInvalid: // deep, so no other transaction of the nonce ever takes effect
		text := fmt.Sprintf("nonce %d was closed by transaction %s", nonce, p.closingHash(first+n, one.hashes[n:]))
		return batch.Status{Reported: batch.ReportedVoid, Message: text}, true, true
	case batch.ReportedValid:
		if st.Reported == batch.ReportedValid { // two blocks of one height: the question is asked again
			return batch.Status{}, false, false
		}
		text := fmt.Sprintf("transaction %s closes nonce %d in a block that may yet be taken back", p.closingHash(first+n, one.hashes[n:]), nonce)
		return batch.Status{Reported: batch.ReportedPending, Message: text}, true, ok && answered
	case batch.ReportedPending:
		if st.Reported != batch.ReportedValid {
			other.Message = fmt.Sprintf("a transfer of nothing is to close it: %s", other.Message)
			st = other
		}
	}
	return st, false, ok && answered
}

// closingHash returns the hash of the transaction that is in a block, among those whose places
// begin at first.
func (p *nodeAnswers) closingHash(first int, hashes []evmtx.Hash) evmtx.Hash {
	for i, h := range hashes {
		if p.receipts[first+i] != nil {
			return h
		}
	}
	return evmtx.Hash{}
}
