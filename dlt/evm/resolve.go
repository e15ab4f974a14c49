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

// Resolve implements [dlt.Ledger]. A transaction can never take effect once a deep block has used
// its nonce, for another transaction or for this transaction, which reverted; alternatives have
// one nonce. Nothing else keeps a transaction from taking effect, neither time nor a pool that
// forgets it. NotCommitted means that the client has read such a block, or receipt. The error is a
// [*dlt.Error].
func (c *Client) Resolve(ctx context.Context, d dlt.Doubt) (dlt.Evidence, error) {
	p, err := c.readPayload(d.Key, d.Payload)
	if err != nil {
		return dlt.CannotTell, &dlt.Error{Op: opResolve, Kind: dlt.ErrRejected, Message: c.shownText(err.Error())}
	}
	late := ctx.Err() != nil
	for _, e := range c.endpointsInTurn() {
		var found dlt.Evidence
		if found, err = c.resolve(ctx, e, p); err == nil {
			return found, nil
		}
		if ctx.Err() != nil {
			if !late && isEndpointsFault(ctx, err) {
				c.putAside(e, err) // the next question begins with another endpoint
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
	if len(statuses) > 0 { // else the answers contradict each other, and none counts
		switch statuses[0].Reported {
		case batch.ReportedCommitted:
			return dlt.Committed, nil
		case batch.ReportedInvalid: // the transaction reverted in a deep block: its nonce is used
			return dlt.NotCommitted, nil
		case batch.ReportedValid:
			return dlt.InFlight, nil
		}
	}
	// A pool may still show a transaction whose nonce a deep block has used.
	proof, err := c.findUse(ctx, opResolve, e, p.sender, p.txs[0].Nonce, unknownHeight, p.hashes)
	if err != nil {
		return dlt.CannotTell, err
	}
	return evidenceOf[proof.user], nil
}

// nonceUser says whose transaction used a nonce.
type nonceUser uint8

const (
	nonceUnused        nonceUser = iota // no deep block has used it
	nonceUsedByOurs                     // used by a transaction of the batch; its receipt will say so
	nonceUsedByAnother                  // used for good by a transaction that is not of the batch
	nonceUsedBySomeone                  // used in a deep block, but the node does not show by what
)

var evidenceOf = map[nonceUser]dlt.Evidence{
	nonceUnused: dlt.InFlight, nonceUsedByOurs: dlt.InFlight, nonceUsedByAnother: dlt.NotCommitted, nonceUsedBySomeone: dlt.CannotTell,
}

// nonceUse is the finding about the use of a nonce.
type nonceUse struct {
	user  nonceUser
	block block
	hash  string // hash of the transaction; "" if an authorization used the nonce (EIP-7702)
}

func (u nonceUse) text(nonce uint64) string {
	if u.hash == "" {
		return fmt.Sprintf("nonce %d was used by an authorization in block %d", nonce, u.block.number)
	}
	return fmt.Sprintf("nonce %d was used by transaction %s in block %d", nonce, u.hash, u.block.number)
}

// findUse finds out which transaction used an account's nonce, up to the last deep block. A
// missing receipt proves nothing, nor does a transaction that is missing in a block's list:
// another node may answer each question, and some nodes have headers and state without the list.
// Each finding is a transaction, or an authorization of the account, in a block that was read.
// free is the height of a block that is never taken back and after which the nonce was still free:
// with it, blocks can be searched on a node that no longer has the state of that time.
func (c *Client) findUse(ctx context.Context, op string, e *endpoint, sender evmtx.Address, nonce, free uint64, ours []evmtx.Hash) (nonceUse, error) {
	v, _, err := c.askView(ctx, op, e, nil)
	if err != nil || v.isNoneDeep {
		return nonceUse{}, err
	}
	c.highestDeep.update(v, false)
	f := nonceUseFinder{Client: c, op: op, endpoint: e, sender: sender, nonce: nonce, ownHashes: ours}
	count, err := f.nextNonceAt(ctx, v.deep.number)
	switch {
	case err != nil:
		return nonceUse{}, err
	case count <= nonce:
		return nonceUse{user: nonceUnused}, nil
	}
	return f.findUse(ctx, v, free)
}

// findUse looks for the use of the nonce in several ways, until one leads to the block with the
// use. Each way only names a height to look at.
func (f *nonceUseFinder) findUse(ctx context.Context, v view, free uint64) (nonceUse, error) {
	var first error
	for _, way := range []func() (uint64, bool, error){
		func() (uint64, bool, error) { return f.findHeight(ctx, v, f.nextNonceByHash) },
		func() (uint64, bool, error) { return f.findHeight(ctx, v, f.nextNonceByHeight) },
		func() (uint64, bool, error) { return f.askHeight(ctx) },
		func() (uint64, bool, error) { return f.searchBlocks(ctx, v, free) },
	} {
		height, found, err := way()
		if errors.Is(err, errNoState) { // the node answers, and no longer has the state that this way needs
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

// unknownHeight is for a nonce of which no height is recorded at which it was free.
const unknownHeight = math.MaxUint64
