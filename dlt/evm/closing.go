package evm

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// errNonceGap is the cause of a Submit's ErrNotYet where a nonce is missing before the batch's.
var errNonceGap = errors.New("a nonce is missing before it")

// closeGap uses a nonce up that no open batch of the lane keeps, and for which the later ones
// wait: one of a batch that a person has given up, say. It sends a transfer of nothing from the
// account to itself. That moves nothing whenever and however often it is mined, so it is kept
// nowhere. It may end the slot of a batch only if the lane has forgotten that slot, and then that
// batch gets another one, by the proof that is asked for anyhow. It returns an error where nothing
// was sent.
func (c *SigningClient) closeGap(ctx context.Context, e *endpoint, a batch.Attempt, in intent, sender evmtx.Address) (nonce uint64, hash evmtx.Hash, err error) {
	held, err := heldNonces(append(slices.Clone(a.Lane), a.Prepared))
	if err != nil {
		return 0, hash, err
	}
	p := preparation{SigningClient: c, endpoint: e, sender: sender, key: a.Key, salt: saltOf(a.Key)}
	p.intent = transferOfNothing(sender)
	p.intent.maxFee = in.maxFee
	v, latest, pending, err := p.askState(ctx)
	if err != nil {
		return 0, hash, err
	}
	if v, err = p.addDeepHash(ctx, v); err != nil {
		return 0, hash, err
	}
	// Nothing that may yet be taken back has used it, and no transaction of it is in the pool.
	if nonce, err = p.missingNonce(ctx, v, latest, pending, held); err != nil {
		return 0, hash, err
	}
	gas, err := p.chooseGas(ctx, false)
	if err != nil {
		return 0, hash, err
	}
	least := p.market.BaseFee
	if !p.market.Legacy { // a legacy price is paid as it is
		least = new(big.Int).Lsh(least, 2)
	}
	signed, err := p.sign(ctx, &p, nonce, gas, Fee{Tip: new(big.Int), FeeCap: smallest(least, p.intent.maxFee)}, p.intent.maxFee)
	if err != nil {
		return 0, hash, err
	}
	s := slot{nonce: nonce, gas: gas, maxFee: p.intent.maxFee, entries: []entry{signed}}
	tx, err := s.tx(signed, p.intent, sender, c.client.chain)
	if err != nil {
		return 0, hash, err
	}
	a.Key.ID, a.Payload = batch.ID(signed.hash.String()), tx.Encode()
	one := submission{Client: c.client, endpoint: e, attempt: a, tx: tx, sender: sender, batchHashes: s.hashes(), getsNewNonce: true}
	return nonce, signed.hash, one.submit(ctx)
}

// missingNonce returns the nonce that is missing before those of the lane.
func (p *preparation) missingNonce(ctx context.Context, v view, latest, pending uint64, held []uint64) (uint64, error) {
	deep, err := p.nonceAfterDeep(ctx, v)
	if err != nil {
		return 0, err
	}
	nonce, missing, _ := nextNonce(deep, latest, pending, held)
	if !missing || nonce != deep || latest != nonce || pending != nonce {
		return 0, fmt.Errorf("no nonce of the account can be closed now: its next one is %d in block %d, which is deep, %d in the last block and %d with the pool, and %s",
			deep, v.deep.number, latest, pending, describeLane(held))
	}
	return nonce, nil
}

// gapError returns the error of a batch that waits for a nonce which no batch of its lane has,
// after the nonce was closed, or could not be closed.
func (c *SigningClient) gapError(ctx context.Context, e *endpoint, a batch.Attempt, in intent, sender evmtx.Address, waits error) error {
	nonce, hash, err := c.closeGap(ctx, e, a, in, sender)
	out, ok := errors.AsType[*dlt.Error](waits)
	if !ok {
		return waits
	}
	out.Err = nil
	if err != nil {
		out.Message += c.client.show("; it is not closed: " + errorText(err))
		return out
	}
	out.Message += c.client.show(fmt.Sprintf("; no open batch of the lane keeps nonce %d, and it is closed by a transfer of nothing, %s", nonce, hash))
	return out
}
