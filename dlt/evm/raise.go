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
	if !hasAlternatives(a.Payload) {
		return a.Prepared, nil
	}
	p, err := c.readPayload(a.Key, a.Payload)
	if err != nil {
		return nil, &dlt.Error{Op: opPrepare, Kind: dlt.ErrRejected, Message: c.shownText(err.Error())}
	}
	var out []byte
	err = c.onPreferred(ctx, a.Key, func(e *endpoint) (err error) {
		out, err = c.addPermission(ctx, e, a.Key, p, a.Prepared)
		return doubtAsUnavailable(err)
	})
	return out, err
}

// readSlot reads the prepared bytes of alternatives.
func (p *parsedPayload) readSlot(kept []byte) (*slot, error) {
	s, err := decodeList(kept)
	if err == nil && !slices.Equal(s.hashes(), p.hashes) {
		err = fmt.Errorf("%w: it has the transactions of another payload", errSlot)
	}
	return s, err
}

// addPermission returns the prepared bytes unchanged, or with one more permission.
func (c *Client) addPermission(ctx context.Context, e *endpoint, key batch.Key, p *parsedPayload, kept []byte) ([]byte, error) {
	s := newListSlot(p)
	if len(kept) > 0 {
		var err error
		if s, err = p.readSlot(kept); err != nil {
			return nil, c.unreadableError(opPrepare, key, err)
		}
	}
	v, answers, err := c.askView(ctx, opPrepare, e, []request{{"eth_getTransactionCount", []any{p.sender.String(), "latest"}}})
	if err != nil {
		return nil, err
	}
	latest, err := decodeNumber(answers[0])
	if err != nil {
		return nil, &dlt.Error{Op: opPrepare, Kind: kindOfAny(answers), Message: c.shownText("next nonce: " + err.Error())}
	}
	next, changes, err := s.nextAllowedIndex(v.head, latest, c.options.BumpAfter, func() (bool, error) { return c.isForgotten(ctx, e, s.hashes()) })
	switch {
	case err != nil:
		return nil, err
	case !changes:
		return kept, nil
	}
	if err := c.checkLinked(ctx, opPrepare, e, v.head); err != nil {
		return nil, err
	}
	if len(kept) == 0 {
		s.sendPermissions = []sendPermission{{next, v.head.number}}
		return s.encodeList(), nil
	}
	return sendPermission{next, v.head.number}.append(slices.Clone(kept)), nil
}

// nextAllowedIndex decides which alternative may be sent from this head on. latest is the
// account's next nonce, and after is Options.BumpAfter. changes is false if no permission is to be
// added. forgotten reports whether the node knows none of the alternatives.
func (s *slot) nextAllowedIndex(head block, latest, after uint64, forgotten func() (bool, error)) (at int, changes bool, err error) {
	if s.sendPermissions == nil {
		at, _ = s.firstPaying(0, head)
		return at, true, nil
	}
	if latest > s.nonce || !s.isStalled(head, after) { // the nonce is used, by any transaction, or the last alternative may still be mined
		return 0, false, nil
	}
	if s.lastEntry().fee.paysBaseFee(head) {
		again := latest < s.nonce // an earlier nonce has to be mined first
		if !again {
			if again, err = forgotten(); err != nil {
				return 0, false, err
			}
		}
		if again {
			return s.lastAllowedIndex(), s.hasRoomForPermission(), nil
		}
	}
	at, changes = s.firstPaying(s.lastAllowedIndex()+1, head)
	return at, changes, nil
}
