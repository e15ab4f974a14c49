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

// A batch that a person has withdrawn ([batch.Attempt].Withdrawn) ends by its nonce: its slot gets
// a transfer of nothing from the account to itself, of the same nonce and with higher fees. That
// is kept before it is sent, as every transaction of a slot. One of them is mined at most, and
// that one decides: nothing else is assumed, and nothing that was sent before is forgotten.

// nothing is the transfer that closes a nonce.
func nothing(sender evmtx.Address) intent { return intent{to: &sender, value: new(big.Int)} }

// closing reports whether the slot is to be closed: its last transaction is a transfer of nothing.
func (s *slot) closing() bool { return s.last().closing != 0 }

// own is how many of the slot's hashes are those of the batch itself. They come first.
func (s *slot) own() (n int) {
	seen := map[evmtx.Hash]bool{}
	for _, e := range s.entries {
		if e.closing == 0 && !seen[e.hash] {
			seen[e.hash] = true
			n++
		}
	}
	return n
}

// slot reads kept bytes. What closes a nonce may cost as much as the client allows: the batch's
// own limit may be what it waits for.
func (c *SigningClient) slot(kept []byte) (*slot, error) {
	s, err := decodeSlot(kept)
	if err == nil && s.closing() {
		s.maxFee = largest(s.maxFee, c.o.MaxFeePerGas)
	}
	return s, err
}

// closes adds the transfer of nothing that closes a slot's nonce.
func (p *preparing) closes(ctx context.Context, s *slot, kept []byte) ([]byte, error) {
	p.in = nothing(p.sender)
	_, latest, _, err := p.look(ctx)
	if err != nil {
		return nil, err
	}
	if latest > s.nonce { // mined, by whomever: only the statuses say by whom
		return kept, nil
	}
	limit, least := largest(s.maxFee, p.o.MaxFeePerGas), s.least()
	if least.FeeCap.Cmp(limit) > 0 {
		forgotten, err := p.c.forgotten(ctx, p.e, s.hashes())
		if err != nil {
			return nil, err
		}
		if forgotten { // there is nothing to replace
			least = Fee{}
		}
	}
	switch {
	case len(s.entries) >= maxEntries:
		return nil, p.notYet("nonce %d is not closed: %d transactions were signed for it, and there is no room for more", s.nonce, len(s.entries))
	case least.FeeCap != nil && least.FeeCap.Cmp(limit) > 0:
		return nil, p.notYet("nonce %d is not closed: a replacement costs %s gwei at least, and SignerOptions.MaxFeePerGas is %s", s.nonce, gwei(least.FeeCap), gwei(limit))
	case limit.Cmp(p.market.BaseFee) < 0:
		return nil, p.notYet("nonce %d is not closed: the base fee of block %d is %s gwei, and SignerOptions.MaxFeePerGas %s", s.nonce, p.head.number, gwei(p.market.BaseFee), gwei(limit))
	}
	if err := p.c.isLinked(ctx, opPrepare, p.e, p.head); err != nil {
		return nil, err
	}
	gas, err := p.gas(ctx, latest < s.nonce)
	if err != nil {
		return nil, notClosed(err, s.nonce)
	}
	p.market.Last = s.last().fee
	e, err := p.sign(ctx, p, s.nonce, gas, least, limit)
	if err != nil {
		return nil, notClosed(err, s.nonce)
	}
	e.closing = gas
	return e.append(append([]byte(nil), kept...)), nil
}

// notClosed is the error of what closes a nonce. That the chain or the node refuses it says
// nothing about the batch, which may take effect all the same: it is tried again.
func notClosed(err error, nonce uint64) error {
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

// closes reports whether a batch was withdrawn, and nothing was signed yet that closes its nonce.
func (o *open) closes() bool { return o.withdrawn && !o.slot.closing() }

// ofSlot is the status of a batch by what is known of its transactions, whose places begin at
// first. closed says that a block has the one that closes its nonce. Without ok there is none. It
// is pure.
func (p *picture) ofSlot(first int, one asked) (st batch.Status, closed, ok bool) {
	n := len(one.hashes)
	if one.slot != nil && one.slot.turns == nil {
		n = one.slot.own()
	}
	st, ok = p.together(first, n)
	if n == len(one.hashes) || st.Reported == batch.ReportedCommitted || st.Reported == batch.ReportedInvalid {
		return st, false, ok
	}
	nonce := one.slot.nonce
	other, answered := p.together(first+n, len(one.hashes)-n)
	switch other.Reported {
	case batch.ReportedCommitted, batch.ReportedInvalid: // deep, and so the others never are
		text := fmt.Sprintf("nonce %d was closed by transaction %s", nonce, p.closedBy(first+n, one.hashes[n:]))
		return batch.Status{Reported: batch.ReportedVoid, Message: text}, true, true
	case batch.ReportedValid:
		if st.Reported == batch.ReportedValid { // two blocks of one height: ask again
			return batch.Status{}, false, false
		}
		text := fmt.Sprintf("transaction %s closes nonce %d in a block that may yet be taken back", p.closedBy(first+n, one.hashes[n:]), nonce)
		return batch.Status{Reported: batch.ReportedPending, Message: text}, true, ok && answered
	case batch.ReportedPending:
		if st.Reported != batch.ReportedValid {
			other.Message = fmt.Sprintf("a transfer of nothing is to close it: %s", other.Message)
			st = other
		}
	}
	return st, false, ok && answered
}

// closedBy names the transaction of a block, of those whose places begin at first.
func (p *picture) closedBy(first int, hashes []evmtx.Hash) evmtx.Hash {
	for i, h := range hashes {
		if p.receipts[first+i] != nil {
			return h
		}
	}
	return evmtx.Hash{}
}
