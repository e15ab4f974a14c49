package evm

import (
	"context"
	"fmt"
	"slices"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

// Prepare implements [dlt.Ledger]. For a batch that is one transaction it keeps nothing. Of
// [Alternatives] it keeps all hashes, before the first of them is sent, and which of them may be
// sent: at first the lowest one that pays the base fee, or the first one where none does. Once
// that one has waited for Options.BumpAfter blocks, or no longer pays the base fee, the next one
// that does is added. Nothing is added where the nonce is used, and nothing higher where another
// nonce of the account has to be mined before it, or where the node has forgotten all of them.
// Kept bytes that this client cannot read are [dlt.ErrNotYet]. The error is a [*dlt.Error].
func (c *Client) Prepare(ctx context.Context, a batch.Attempt) ([]byte, error) {
	if !isList(a.Payload) {
		return a.Prepared, nil
	}
	p, err := c.read(a.Key, a.Payload)
	if err != nil {
		return nil, &dlt.Error{Op: opPrepare, Kind: dlt.ErrRejected, Message: c.show(err.Error())}
	}
	var out []byte
	err = c.onPreferred(ctx, a.Key, func(e *endpoint) (err error) {
		out, err = c.raise(ctx, e, a.Key, p, a.Prepared)
		return unposted(err)
	})
	return out, err
}

// slot reads the kept bytes of alternatives.
func (p *payment) slot(kept []byte) (*slot, error) {
	s, err := decodeList(kept)
	if err == nil && !slices.Equal(s.hashes(), p.hashes) {
		err = fmt.Errorf("%w: it has the transactions of another payload", errSlot)
	}
	return s, err
}

// raise returns the kept bytes as they are, or with another turn.
func (c *Client) raise(ctx context.Context, e *endpoint, key batch.Key, p *payment, kept []byte) ([]byte, error) {
	s := newList(p)
	if len(kept) > 0 {
		var err error
		if s, err = p.slot(kept); err != nil {
			return nil, c.broken(opPrepare, key, err)
		}
	}
	v, answers, err := c.look(ctx, opPrepare, e, []request{{"eth_getTransactionCount", []any{p.sender.String(), "latest"}}})
	if err != nil {
		return nil, err
	}
	latest, err := number(answers[0])
	if err != nil {
		return nil, &dlt.Error{Op: opPrepare, Kind: kindOfAny(answers), Message: c.show("next nonce: " + err.Error())}
	}
	next, changes, err := s.next(v.head, latest, c.o.BumpAfter, func() (bool, error) { return c.forgotten(ctx, e, s.hashes()) })
	switch {
	case err != nil:
		return nil, err
	case !changes:
		return kept, nil
	}
	if err := c.isLinked(ctx, opPrepare, e, v.head); err != nil {
		return nil, err
	}
	if len(kept) == 0 {
		s.turns = []turn{{next, v.head.number}}
		return s.encodeList(), nil
	}
	return turn{next, v.head.number}.append(slices.Clone(kept)), nil
}

// next decides which alternative may be sent from this head on, at which the account's next nonce
// is latest. changes is false where nothing is to be added. forgotten reports whether the node
// knows none of them.
func (s *slot) next(head block, latest, after uint64, forgotten func() (bool, error)) (at int, changes bool, err error) {
	if s.turns == nil {
		at, _ = s.above(0, head)
		return at, true, nil
	}
	if latest > s.nonce || !s.stalled(head, after) { // mined, by whomever; or it may yet be
		return 0, false, nil
	}
	if s.last().fee.pays(head) {
		again := latest < s.nonce // another one has to be mined before it
		if !again {
			if again, err = forgotten(); err != nil {
				return 0, false, err
			}
		}
		if again {
			return s.turn(), s.mayTurn(), nil
		}
	}
	at, changes = s.above(s.turn()+1, head)
	return at, changes, nil
}
