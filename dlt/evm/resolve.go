package evm

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

const opResolve = "resolve"

// Resolve implements [dlt.Ledger]. A transaction can never take effect once a deep block has
// used its nonce, for another transaction or for this one, which reverted; alternatives have one
// nonce. Nothing else ends its life, neither time nor a pool that forgets it. NotCommitted means
// that such a block, or receipt, was read. The error is a [*dlt.Error].
func (c *Client) Resolve(ctx context.Context, d dlt.Doubt) (dlt.Evidence, error) {
	p, err := c.readPayload(d.Key, d.Payload)
	if err != nil {
		return dlt.CannotTell, &dlt.Error{Op: opResolve, Kind: dlt.ErrRejected, Message: c.show(err.Error())}
	}
	late := ctx.Err() != nil
	for _, e := range c.endpointsInTurn() {
		var found dlt.Evidence
		if found, err = c.resolve(ctx, e, p); err == nil {
			return found, nil
		}
		if ctx.Err() != nil {
			if !late && isEndpointsFault(ctx, err) {
				c.putAside(e, err) // so that another one is asked first the next time
			}
			return found, err
		}
	}
	return dlt.CannotTell, err
}

func (c *Client) resolve(ctx context.Context, e *endpoint, p *parsedPayload) (dlt.Evidence, error) {
	statuses, err := c.statusesFrom(ctx, e, []batchQuestion{{id: p.id(), account: p.sender.String(), hashes: p.hashes}}, nil)
	if err != nil {
		return dlt.CannotTell, err
	}
	if len(statuses) > 0 { // else the answers contradict each other
		switch statuses[0].Reported {
		case batch.ReportedCommitted:
			return dlt.Committed, nil
		case batch.ReportedInvalid: // reverted in a deep block: the nonce is used
			return dlt.NotCommitted, nil
		case batch.ReportedValid:
			return dlt.InFlight, nil
		}
	}
	// A pool may show a transaction that a deep block has overtaken.
	proof, err := c.findUse(ctx, opResolve, e, p.sender, p.txs[0].Nonce, unknownHeight, p.hashes)
	if err != nil {
		return dlt.CannotTell, err
	}
	return evidenceOf[proof.user], nil
}

// nonceUser says who used a nonce.
type nonceUser uint8

const (
	nonceUnused        nonceUser = iota // in no deep block
	nonceUsedByOurs                     // a receipt will say so
	nonceUsedByAnother                  // for good
	nonceUsedBySomeone                  // in a deep block, and the node does not show the user
)

var evidenceOf = map[nonceUser]dlt.Evidence{
	nonceUnused: dlt.InFlight, nonceUsedByOurs: dlt.InFlight, nonceUsedByAnother: dlt.NotCommitted, nonceUsedBySomeone: dlt.CannotTell,
}

// nonceUse is a finding about a nonce.
type nonceUse struct {
	user  nonceUser
	block block
	hash  string // of the other transaction; "" where an authorization used the nonce (EIP-7702)
}

func (u nonceUse) text(nonce uint64) string {
	if u.hash == "" {
		return fmt.Sprintf("nonce %d was used by an authorization in block %d", nonce, u.block.number)
	}
	return fmt.Sprintf("nonce %d was used by transaction %s in block %d", nonce, u.hash, u.block.number)
}

// findUse finds out which transaction used an account's nonce, up to the last deep block. What is
// not there proves nothing, neither a receipt nor a transaction in a block's list: another node
// may answer each question, and some have headers and state without the list. A finding is always
// a transaction, or an authorization of the account, that stands in a block. free is a height at
// which the nonce was free, of a block that is never taken back: a node that no longer has the
// state of that time still has the blocks.
func (c *Client) findUse(ctx context.Context, op string, e *endpoint, sender evmtx.Address, nonce, free uint64, ours []evmtx.Hash) (nonceUse, error) {
	v, _, err := c.askView(ctx, op, e, nil)
	if err != nil || v.isNoneDeep {
		return nonceUse{}, err
	}
	c.highestDeep.update(v, false)
	f := nonceUseFinder{Client: c, op: op, endpoint: e, sender: sender, nonce: nonce, ours: ours}
	count, err := f.nextNonceAt(ctx, v.deep.number)
	switch {
	case err != nil:
		return nonceUse{}, err
	case count <= nonce:
		return nonceUse{user: nonceUnused}, nil
	}
	return f.findUse(ctx, v, free)
}

// findUse looks for the user of the nonce in the ways that there are, until one leads to it. Each
// only says where to look.
func (f *nonceUseFinder) findUse(ctx context.Context, v view, free uint64) (nonceUse, error) {
	var first error
	for _, way := range []func() (uint64, bool, error){
		func() (uint64, bool, error) { return f.findHeight(ctx, v, f.nextNonceByHash) },
		func() (uint64, bool, error) { return f.findHeight(ctx, v, f.nextNonceByHeight) },
		func() (uint64, bool, error) { return f.askHeight(ctx) },
		func() (uint64, bool, error) { return f.searchBlocks(ctx, v, free) },
	} {
		height, found, err := way()
		if errors.Is(err, errNoState) { // it answers, and has removed what this way needs
			continue
		}
		if err == nil && found && v.isDeep(height) {
			var u nonceUse
			if u, err = f.readUse(ctx, v, height); err == nil {
				return u, nil
			}
		}
		if err != nil && (dlt.Kind(err) != batch.KindDoubt || ctx.Err() != nil) {
			return nonceUse{}, err
		}
		if first == nil {
			first = err
		}
	}
	if first != nil {
		return nonceUse{}, first
	}
	return nonceUse{user: nonceUsedBySomeone}, nil
}

// unknownHeight: nobody has written down when the nonce was free.
const unknownHeight = math.MaxUint64
