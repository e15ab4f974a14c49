package evm

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"sync"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"

	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// Unsigned is a transaction of type 2, or of type 0 on a chain without a base fee, that is to be
// signed. The signer may keep and change it.
type Unsigned struct {
	ChainID uint64
	Nonce   uint64
	Fee     Fee
	Legacy  bool // true if the transaction is of type 0; its gas price is Fee.FeeCap
	Gas     uint64
	To      string // 0x and 40 lower-case hex digits; "" creates a contract
	Value   *big.Int
	Data    []byte
	// Bytes are the encoding whose Keccak-256 is signed, for services that hash by themselves.
	Bytes []byte
	// Hash is the Keccak-256 of Bytes.
	Hash [32]byte
}

// Signer signs transactions: a key ([KeySigner]), or a service that has a key. It may refuse any
// transaction; then the batch waits, and so do the other batches of its lane.
type Signer interface {
	// Sign returns the signature of tx.Hash by the key of account, which is 0x and 40 lower-case
	// hex digits. The signature is r and s of 32 bytes each, and the parity of the point: 0 or 1,
	// or 27 or 28. s may be in either half of the order. A signature is used only if it recovers
	// to the account; an error, a panic or another account's signature means that nothing is sent
	// now.
	//
	// Sign is also called for transfers of nothing from the account to itself, which use up a
	// nonce that no intent has any more: a Signer that checks transactions before it signs them
	// has to accept these transfers.
	//
	// Sign may be called again for the same nonce, with higher fees or after a crash, and may
	// return another signature then. Sign may be called concurrently, but one client never calls
	// it twice at once for one account. Sign should return soon after ctx is done: until it does,
	// nothing else of the account is signed.
	Sign(ctx context.Context, account string, tx Unsigned) (sig [65]byte, err error)
}

// newUnsigned returns a transaction for a signer that shares no memory with tx.
func newUnsigned(tx *evmtx.Tx) Unsigned {
	u := Unsigned{
		ChainID: tx.ChainID, Nonce: tx.Nonce, Fee: Fee{Tip: new(big.Int).Set(tx.Tip), FeeCap: new(big.Int).Set(tx.FeeCap)}, Gas: tx.Gas, Legacy: tx.Type == evmtx.Legacy,
		Value: new(big.Int).Set(tx.Value), Data: append([]byte(nil), tx.Data...), Bytes: tx.SigningBytes(), Hash: tx.SigningHash(),
	}
	if tx.To != nil {
		u.To = tx.To.String()
	}
	return u
}

// addSignature adds a signature to a transaction, and makes sure that it is the account's
// signature of these bytes.
func addSignature(tx *evmtx.Tx, sig [65]byte, account evmtx.Address) ([65]byte, error) {
	var s secp256k1.ModNScalar
	if sig[64] >= 27 {
		sig[64] -= 27
	}
	if sig[64] > 1 {
		return sig, fmt.Errorf("the last byte of its signature is %d, not 0, 1, 27 or 28", sig[64])
	}
	if overflow := s.SetByteSlice(sig[32:64]); !overflow && s.IsOverHalfOrder() { // EIP-2: only the lower half is valid
		s.Negate()
		s.PutBytesUnchecked(sig[32:64])
		sig[64] ^= 1
	}
	tx.R, tx.S, tx.YParity = new(big.Int).SetBytes(sig[:32]), new(big.Int).SetBytes(sig[32:64]), sig[64]
	sender, err := tx.Sender()
	if err != nil {
		return sig, err
	}
	if sender != account {
		return sig, fmt.Errorf("its signature is of account %s, or of other bytes", sender)
	}
	return sig, nil
}

// signerCalls calls the user's Signer and Fees, with one call for an account at a time. A call
// that does not return blocks only its own account.
type signerCalls struct {
	mu   sync.Mutex
	busy map[evmtx.Address]time.Time
}

// call runs f within the time limit. The error is [dlt.ErrNotYet], because nothing was sent. After
// an error no result of f counts.
func (d *signerCalls) call(ctx context.Context, limit time.Duration, account evmtx.Address, f func(context.Context) (entry, error)) (entry, error) {
	now := time.Now()
	if since, busy := d.enter(account, now); busy {
		return entry{}, fmt.Errorf("a call of %s ago has not returned", now.Sub(since).Round(time.Second))
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	type result struct {
		e   entry
		err error
	}
	done := make(chan result, 1)
	go func() {
		var r result
		defer func() {
			if p := recover(); p != nil {
				r = result{err: fmt.Errorf("panic: %v", p)}
			}
			d.leave(account)
			done <- r
		}()
		r.e, r.err = f(ctx)
	}()
	select {
	case r := <-done:
		return r.e, r.err
	case <-ctx.Done():
		return entry{}, fmt.Errorf("no answer within %s: %w", limit, ctx.Err())
	}
}

func (d *signerCalls) enter(account evmtx.Address, now time.Time) (since time.Time, busy bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if since, busy = d.busy[account]; busy {
		return since, true
	}
	if d.busy == nil {
		d.busy = map[evmtx.Address]time.Time{}
	}
	d.busy[account] = now
	return now, false
}

func (d *signerCalls) leave(account evmtx.Address) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.busy, account)
}

// sign chooses fees that are at least least, and has the transaction signed. The error is a
// [*dlt.Error] of the kind ErrNotYet.
func (c *SigningClient) sign(ctx context.Context, p *preparation, nonce, gas uint64, least Fee, limit *big.Int) (entry, error) {
	e, err := c.signerCalls.call(ctx, c.options.SignTimeout, p.sender, func(ctx context.Context) (entry, error) {
		fee, err := c.askFees(ctx, p.market, least, limit)
		if err != nil {
			return entry{}, err
		}
		if p.market.Legacy {
			fee.Tip = new(big.Int)
		}
		fee = p.salt.lowerFeeCap(fee, least, p.head.baseFee)
		tx := p.intent.tx(c.client.chain, nonce, gas, fee)
		if p.market.Legacy {
			tx.Type = evmtx.Legacy
		}
		sig, err := c.signer.Sign(ctx, p.sender.String(), newUnsigned(tx))
		if err != nil {
			return entry{}, fmt.Errorf("signer: %w", err)
		}
		if sig, err = addSignature(tx, sig, p.sender); err != nil {
			return entry{}, fmt.Errorf("signer: %w", err)
		}
		return entry{height: p.head.number, fee: fee, sig: sig, hash: tx.Hash()}, nil
	})
	if err != nil {
		return entry{}, &dlt.Error{Op: opPrepare, Kind: dlt.ErrNotYet, Message: c.client.shownText("nothing is signed: " + err.Error())}
	}
	return e, nil
}

// askFeesOnly returns the fees that Fees asks for, lowered to the limit, and signs nothing.
func (p *preparation) askFeesOnly(ctx context.Context, limit *big.Int) (Fee, error) {
	e, err := p.signerCalls.call(ctx, p.options.SignTimeout, p.sender, func(ctx context.Context) (entry, error) {
		fee, err := p.askFees(ctx, p.market, Fee{}, limit)
		return entry{fee: fee}, err
	})
	return e.fee, err
}

// askFees calls Fees.
func (c *SigningClient) askFees(ctx context.Context, m Market, least Fee, limit *big.Int) (Fee, error) {
	fee, err := c.options.Fees(ctx, m.clone()) // a clone, since the salt and the slot need these numbers unchanged
	if err != nil {
		return Fee{}, fmt.Errorf("fees: %w", err)
	}
	fee, ok := fee.clamp(least, limit)
	if !ok {
		return Fee{}, errors.New("fees: none, or negative ones")
	}
	return fee, nil
}
