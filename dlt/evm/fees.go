package evm

import (
	"context"
	"math/big"
)

// Fee is the price of a unit of gas, in wei.
type Fee struct {
	// Tip is the most that the block's maker gets, on top of the base fee.
	Tip *big.Int
	// FeeCap is the most that base fee and tip together may be: no block whose base fee is above
	// FeeCap contains the transaction.
	FeeCap *big.Int
}

// Market is the state of the chain when fees are chosen. Its numbers may be kept and changed.
type Market struct {
	Account string // address of the account that pays, 0x and 40 lower-case hex digits
	// BaseFee is the base fee of the last block, in wei. Where Legacy is set, it is the gas price
	// that the node suggests.
	BaseFee *big.Int
	// Legacy is true if the chain's blocks have no base fee (EIP-1559). Then the transaction is of
	// type 0, its gas price is Fee.FeeCap, all of which is paid, and Fee.Tip has no effect.
	Legacy bool
	Tip    *big.Int // the tip that the node suggests, in wei; nil where it suggests none
	// Last are the fees of the batch's last transaction, which did not suffice. They are zero for
	// the first transaction of a batch, and where no node has the last transaction, so that nobody
	// knows whether its fees suffice.
	Last Fee

	askHistory func(ctx context.Context, s Speed) (tips []*big.Int, next *big.Int, err error)
}

// clone returns a copy of the market that shares no number with it.
func (m Market) clone() Market {
	for _, n := range [...]**big.Int{&m.BaseFee, &m.Tip, &m.Last.Tip, &m.Last.FeeCap} {
		if *n != nil {
			*n = new(big.Int).Set(*n)
		}
	}
	return m
}

// Fees chooses fees, in wei, for a new transaction or for a replacement. A [SigningClient] lowers
// them to the limit of the batch, takes the batch's salt from the fee cap's reserve, a thousandth
// of it at most (docs/evm.md#the-salt-of-an-intent), and raises the fees of a replacement to an
// eighth above Last at least, because nodes accept no lower fees. An error, or a panic, means that
// nothing is signed now. A Fees may be called concurrently, and should return soon after ctx is
// done.
type Fees func(ctx context.Context, m Market) (Fee, error)

// defaultTip is the tip if the node suggests none, in wei.
const defaultTip = 1e9

// DefaultFees pays the tip that the node suggests (1 gwei where it suggests none), and at most
// twice the base fee in addition: enough for six full blocks one after another. On a chain without
// a base fee it pays the gas price that the node suggests, and an eighth more; where gas costs
// nothing, so that accounts have no funds, it pays nothing.
func DefaultFees(_ context.Context, m Market) (Fee, error) {
	if m.Legacy && m.BaseFee.Sign() == 0 {
		return Fee{Tip: new(big.Int), FeeCap: new(big.Int)}, nil
	}
	if m.Legacy {
		return Fee{Tip: new(big.Int), FeeCap: raisedFee(m.BaseFee)}, nil
	}
	tip := m.Tip
	if tip == nil {
		tip = big.NewInt(defaultTip)
	}
	limit := new(big.Int).Lsh(m.BaseFee, 1)
	return Fee{Tip: tip, FeeCap: limit.Add(limit, tip)}, nil
}

// clamp returns f lowered to the limit and raised to least (a zero least asks for nothing). ok is
// false for fees that cannot be paid: missing or negative ones, or a least above the limit.
func (f Fee) clamp(least Fee, limit *big.Int) (Fee, bool) {
	if f.Tip == nil || f.FeeCap == nil || f.Tip.Sign() < 0 || f.FeeCap.Sign() < 0 {
		return Fee{}, false
	}
	out := Fee{Tip: new(big.Int).Set(f.Tip), FeeCap: new(big.Int).Set(f.FeeCap)}
	if least.FeeCap != nil {
		if least.FeeCap.Cmp(limit) > 0 {
			return Fee{}, false
		}
		out.Tip, out.FeeCap = largest(out.Tip, least.Tip), largest(out.FeeCap, least.FeeCap)
	}
	out.FeeCap = smallest(out.FeeCap, limit)
	out.Tip = smallest(out.Tip, out.FeeCap)
	return out, true
}

// paysBaseFee reports whether the fee cap is not below the head's base fee, so that a block after
// this head may contain the transaction.
func (f Fee) paysBaseFee(head block) bool {
	return head.baseFee == nil || f.FeeCap.Cmp(head.baseFee) >= 0
}

func largest(a, b *big.Int) *big.Int {
	if a.Cmp(b) >= 0 {
		return a
	}
	return b
}

func smallest(a, b *big.Int) *big.Int {
	if a.Cmp(b) <= 0 {
		return a
	}
	return b
}
