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

// errNonceGap is the cause of an ErrNotYet of Submit: a nonce before the batch's nonce is missing.
var errNonceGap = errors.New("a nonce is missing before it")

// closeGap uses up a nonce that no open batch of the lane keeps and for which the later nonces
// wait, such as the nonce of a batch that a person has given up. It sends a transfer of nothing
// from the account to itself. Such a transfer moves nothing, whenever and however often it is
// mined, so it is stored nowhere. It may take the nonce of an open batch only if the lane has lost
// that batch's slot. That batch then gets another slot, after the usual proof that its nonce was
// used. closeGap returns an error if nothing was sent.
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
	// No transaction of this nonce is in the pool, or in a block that may still be taken back.
	if nonce, err = p.missingNonce(ctx, v, latest, pending, held); err != nil {
		return 0, hash, err
	}
	gas, err := p.chooseGas(ctx, false)
	if err != nil {
		return 0, hash, err
	}
	least := p.market.BaseFee
	if !p.market.Legacy { // a legacy price is paid in full, so it is not raised
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

// missingNonce returns the nonce below those of the lane that is missing.
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

// gapError returns the error of a batch that waits for a nonce which no batch of its lane has. The
// error says whether closeGap has used up that nonce.
func (c *SigningClient) gapError(ctx context.Context, e *endpoint, a batch.Attempt, in intent, sender evmtx.Address, waits error) error {
	nonce, hash, err := c.closeGap(ctx, e, a, in, sender)
	out, ok := errors.AsType[*dlt.Error](waits)
	if !ok {
		return waits
	}
	out.Err = nil
	if err != nil {
		out.Message += c.client.shownText("; it is not closed: " + errorText(err))
		return out
	}
	out.Message += c.client.shownText(fmt.Sprintf("; no open batch of the lane keeps nonce %d, and it is closed by a transfer of nothing, %s", nonce, hash))
	return out
}
