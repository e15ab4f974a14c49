package evmtest

import (
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// refused is why a transaction is not taken.
type refused struct {
	why    Refusal
	detail string // geth's, behind its text
	whole  string // geth's, in place of its text
}

// What geth allows.
const (
	maxBytes    = 128 << 10
	maxBlobTx   = 1 << 20 // bytes, with the blobs
	maxGas      = 1 << 24 // EIP-7825
	minTip      = 1
	bumpPercent = 10
	bumpBlob    = 100
	minBlobFee  = 1
)

// has reports whether this software refuses for the reason.
func (r *rules) has(why Refusal) bool {
	_, ok := r.words[why]
	return ok
}

// read decodes signed bytes, and recovers who signed.
func (n *Node) read(raw []byte) (*transaction, *refused) {
	if len(raw) == 0 {
		return nil, &refused{why: NoBytes}
	}
	tx, err := evmtx.Decode(raw)
	switch {
	case errors.Is(err, evmtx.ErrTrailing) && !n.r.has(TrailingBytes): // the rest is not read
	case errors.Is(err, evmtx.ErrTrailing):
		return nil, &refused{why: TrailingBytes}
	case errors.Is(err, evmtx.ErrType):
		return nil, &refused{why: UnknownType}
	case errors.Is(err, evmtx.ErrBlobs):
		return nil, &refused{why: WrongBlobs}
	case err != nil:
		return nil, &refused{why: NotRLP}
	}
	from, err := tx.Sender()
	t := &transaction{Tx: tx, raw: tx.Encode(), from: from}
	if tx.Sidecar != nil {
		t.size, tx.Sidecar = len(raw), nil
	}
	t.hash = evmtx.Keccak(t.raw)
	if err != nil {
		return t, &refused{why: BadSignature}
	}
	return t, nil
}

// admit says why the pool does not take a transaction; nil if it does.
func (n *Node) admit(tx *transaction, signature *refused) *refused {
	if n.r.lax {
		return n.admitLax(tx)
	}
	if r := n.stateless(tx, signature); r != nil {
		return r
	}
	a := n.c.now(tx.from)
	switch expected := n.p.until(tx.from, a.nonce); {
	case tx.Nonce < a.nonce:
		return &refused{why: NonceTooLow, detail: fmt.Sprintf(": next nonce %d, tx nonce %d", a.nonce, tx.Nonce)}
	case tx.Nonce > expected && tx.Type == evmtx.Blob:
		return &refused{why: BlobGap, detail: fmt.Sprintf(": tx nonce %d, gapped nonce %d", tx.Nonce, expected)}
	case tx.Nonce > expected && n.r.has(NonceGap):
		return &refused{why: NonceGap}
	case tx.FeeCap.Cmp(n.c.next) < 0 && n.r.has(BelowBaseFee):
		return &refused{why: BelowBaseFee}
	}
	if r := n.funds(tx, a); r != nil {
		return r
	}
	old := n.p.of[tx.from][tx.Nonce]
	switch {
	case n.p.reserved(tx):
		return &refused{why: Reserved}
	case old != nil && !tx.replaces(old.transaction):
		return &refused{why: ReplacementTooCheap}
	case old == nil && a.delegated() && (len(n.p.of[tx.from]) > 0 || tx.Nonce > a.nonce):
		return &refused{why: AccountLimit}
	case old == nil && len(n.p.txs) >= n.o.PoolLimit:
		return &refused{why: PoolFull}
	}
	return nil
}

// stateless makes geth's checks that do not need the account, in geth's order.
func (n *Node) stateless(tx *transaction, signature *refused) *refused {
	fee := new(big.Int).Mul(tx.FeeCap, new(big.Int).SetUint64(tx.Gas))
	limit := n.c.open(n.c.head().time).gasLimit
	intrinsic, floor := tx.IntrinsicGas(), tx.FloorGas()
	switch {
	case fee.Cmp(Ether(1)) > 0:
		ethers, _ := new(big.Float).Quo(new(big.Float).SetInt(fee), big.NewFloat(1e18)).Float64()
		return &refused{why: FeeAboveCap, whole: fmt.Sprintf("tx fee (%.2f ether) exceeds the configured cap (1.00 ether)", ethers)}
	case tx.ChainID == 0:
		return &refused{why: Unprotected}
	case n.o.NoBaseFee && tx.Type > evmtx.AccessList:
		return &refused{why: UnknownType}
	case n.o.NoBaseFee && tx.FeeCap.Cmp(big.NewInt(flatPrice)) < 0:
		return &refused{why: TipTooLow}
	case n.p.txs[tx.hash] != nil:
		return &refused{why: AlreadyKnown}
	case len(tx.raw) > maxBytes && tx.Type != evmtx.Blob:
		return &refused{why: Oversized, detail: fmt.Sprintf(": transaction size %d, limit %d", len(tx.raw), maxBytes)}
	case tx.size > maxBlobTx:
		return &refused{why: Oversized, detail: fmt.Sprintf(": transaction size %d, limit %d", tx.size, maxBlobTx)}
	case tx.Gas > maxGas:
		return &refused{why: GasAboveCap, detail: fmt.Sprintf(" (cap: %d, tx: %d)", maxGas, tx.Gas)}
	case tx.Gas > limit:
		return &refused{why: GasAboveBlock}
	case tx.Tip.Cmp(tx.FeeCap) > 0:
		return &refused{why: TipAboveCap}
	case tx.ChainID != n.o.ChainID:
		return &refused{why: WrongChain, detail: fmt.Sprintf(": have %d want %d", tx.ChainID, n.o.ChainID)}
	case signature != nil:
		return signature
	case tx.Gas < intrinsic:
		return &refused{why: IntrinsicGas, detail: fmt.Sprintf(": gas %d, minimum needed %d", tx.Gas, intrinsic)}
	case tx.Gas < floor:
		return &refused{why: FloorGas, detail: fmt.Sprintf(": gas %d, minimum needed %d", tx.Gas, floor)}
	case tx.Tip.Cmp(big.NewInt(minTip)) < 0:
		return &refused{why: TipTooLow, detail: fmt.Sprintf(": gas tip cap %v, minimum needed %d", tx.Tip, minTip)}
	case tx.Type != evmtx.Blob:
	case tx.BlobFeeCap.Cmp(big.NewInt(minBlobFee)) < 0:
		return &refused{why: TipTooLow, detail: fmt.Sprintf(": blob fee cap %v, minimum needed %d", tx.BlobFeeCap, minBlobFee)}
	case tx.size == 0:
		return &refused{why: NoBlobs}
	}
	return nil
}

// funds looks whether the account can pay for this and all else that the pool has of it.
func (n *Node) funds(tx *transaction, a account) *refused {
	balance, cost := a.funds(), tx.cost()
	if balance.Cmp(cost) < 0 {
		return &refused{why: NoFunds, detail: fmt.Sprintf(": balance %v, tx cost %v, overshot %v", balance, cost, new(big.Int).Sub(cost, balance))}
	}
	spent := n.p.cost(tx.from, tx.Nonce)
	if need := new(big.Int).Add(spent, cost); balance.Cmp(need) < 0 {
		return &refused{why: NoFunds, detail: fmt.Sprintf(": balance %v, queued cost %v, tx cost %v, overshot %v", balance, spent, cost, need.Sub(need, balance))}
	}
	return nil
}

// replaces reports whether the fees are enough above those of another transaction of the nonce.
func (tx *transaction) replaces(old *transaction) bool {
	if tx.Type == evmtx.Blob {
		return bumped(old.FeeCap, tx.FeeCap, bumpBlob) && bumped(old.Tip, tx.Tip, bumpBlob) && bumped(old.BlobFeeCap, tx.BlobFeeCap, bumpBlob)
	}
	return bumped(old.FeeCap, tx.FeeCap, bumpPercent) && bumped(old.Tip, tx.Tip, bumpPercent)
}

// bumped reports whether a fee is so many percent above the fee of the transaction to be replaced.
func bumped(old, fee *big.Int, percent int64) bool {
	threshold := new(big.Int).Mul(old, big.NewInt(100+percent))
	threshold.Div(threshold, big.NewInt(100))
	return fee.Cmp(old) > 0 && fee.Cmp(threshold) >= 0
}

// admitLax refuses only what anvil refuses.
func (n *Node) admitLax(tx *transaction) *refused {
	a := n.c.now(tx.from)
	const least = 21000
	switch old := n.p.of[tx.from][tx.Nonce]; {
	case tx.ChainID != n.o.ChainID && tx.Type != evmtx.Legacy:
		return &refused{why: WrongChain}
	case tx.Nonce < a.nonce:
		return &refused{why: NonceTooLow}
	case tx.Type == evmtx.Blob && tx.size == 0:
		return &refused{why: NoBlobs}
	case tx.Gas < least:
		return &refused{why: IntrinsicGas}
	case tx.Gas > n.c.head().gasLimit:
		return &refused{why: GasAboveBlock}
	case tx.FeeCap.Cmp(n.c.next) < 0:
		return &refused{why: BelowBaseFee}
	case tx.Tip.Cmp(tx.FeeCap) > 0:
		return &refused{why: TipAboveCap}
	case a.funds().Cmp(tx.cost()) < 0:
		return &refused{why: NoFunds}
	case n.p.txs[tx.hash] != nil:
		return &refused{why: AlreadyKnown}
	case old != nil && (tx.FeeCap.Cmp(old.FeeCap) < 0 || old.ready && tx.FeeCap.Cmp(old.FeeCap) == 0):
		return &refused{why: ReplacementTooCheap}
	}
	return nil
}

// send takes signed bytes, or says why not.
func (n *Node) send(now time.Time, raw []byte, dropTx bool) (*transaction, *refused) {
	tx, signature := n.read(raw)
	if tx == nil || n.r.lax && signature != nil {
		n.note(Entry{Time: now, Kind: Refused, Text: string(signature.why)})
		return nil, signature
	}
	why := n.admit(tx, signature)
	kept := n.tracks() && why != nil && (why.why == PoolFull || why.why == AccountLimit)
	e := Entry{Time: now, Kind: Accepted, Hash: tx.hash.String(), From: tx.from.String(), Nonce: tx.Nonce}
	switch {
	case why != nil && !kept:
		e.Kind, e.Text = Refused, string(why.why)
	case dropTx:
		e.Text = "forgotten"
	case kept: // the tracker tries again
		n.tracked = append(n.tracked, tx)
		e.Text = "kept: " + string(why.why)
	default:
		if n.tracks() {
			n.tracked = append(n.tracked, tx)
		}
		n.put(now, tx)
	}
	n.note(e)
	if kept {
		why = nil
	}
	return tx, why
}

// put puts a transaction into the pool.
func (n *Node) put(now time.Time, tx *transaction) {
	state := n.c.now(tx.from).nonce
	n.p.add(tx, state)
	from := n.p.until(tx.from, state)
	if !n.r.lax && len(n.p.of[tx.from]) > int(from-state)+n.o.QueuedSlots { // it keeps QueuedSlots behind a gap, the lowest nonces
		queued := 0
		for _, x := range n.p.waiting(tx.from) {
			if x.Nonce >= from {
				if queued++; queued > n.o.QueuedSlots {
					n.p.remove(x.hash)
				}
			}
		}
	}
	n.arm(now)
}

func (n *Node) tracks() bool { return !n.r.lax && !n.o.NoTracker }

// look puts transactions that were sent and left the pool back into it, if they can be taken now.
func (n *Node) look(now time.Time) {
	for again := true; again; { // filling a gap makes room for others
		again = false
		for _, tx := range n.tracked {
			if n.p.txs[tx.hash] == nil && n.c.txs[tx.hash] == nil && n.admit(tx, nil) == nil {
				n.put(now, tx)
				again = again || n.p.txs[tx.hash] != nil
			}
		}
	}
}
