package evmtest

import (
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// rejection says why a transaction is not accepted.
type rejection struct {
	reason     Refusal
	textSuffix string // geth's detail, after its text
	fullText   string // geth's text, if it differs from the usual one
}

// Limits of geth.
const (
	maxTxBytes         = 128 << 10
	maxBlobTxBytes     = 1 << 20 // bytes, with the blobs
	maxTxGas           = 1 << 24 // EIP-7825
	minTip             = 1
	minBumpPercent     = 10
	minBlobBumpPercent = 100
	minBlobFeeCap      = 1
)

// refusesFor reports whether this personality checks for the reason.
func (r *rules) refusesFor(why Refusal) bool {
	_, ok := r.words[why]
	return ok
}

// decodeSigned decodes signed bytes, and recovers the sender.
func (n *Node) decodeSigned(raw []byte) (*transaction, *rejection) {
	if len(raw) == 0 {
		return nil, &rejection{reason: NoBytes}
	}
	tx, err := evmtx.Decode(raw)
	switch {
	case errors.Is(err, evmtx.ErrTrailing) && !n.rules.refusesFor(TrailingBytes): // anvil ignores the rest
	case errors.Is(err, evmtx.ErrTrailing):
		return nil, &rejection{reason: TrailingBytes}
	case errors.Is(err, evmtx.ErrType):
		return nil, &rejection{reason: UnknownType}
	case errors.Is(err, evmtx.ErrBlobs):
		return nil, &rejection{reason: WrongBlobs}
	case err != nil:
		return nil, &rejection{reason: NotRLP}
	}
	from, err := tx.Sender()
	t := &transaction{Tx: tx, raw: tx.Encode(), from: from}
	if tx.Sidecar != nil {
		t.sizeWithBlobs, tx.Sidecar = len(raw), nil
	}
	t.hash = evmtx.Keccak(t.raw)
	if err != nil {
		return t, &rejection{reason: BadSignature}
	}
	return t, nil
}

// checkAdmission returns why the pool does not accept a transaction; nil if it does.
func (n *Node) checkAdmission(tx *transaction, signature *rejection) *rejection {
	if n.rules.isLax {
		return n.checkAdmissionLax(tx)
	}
	if r := n.checkStateless(tx, signature); r != nil {
		return r
	}
	a := n.chain.accountNow(tx.from)
	switch expected := n.pool.firstFreeNonce(tx.from, a.nonce); {
	case tx.Nonce < a.nonce:
		return &rejection{reason: NonceTooLow, textSuffix: fmt.Sprintf(": next nonce %d, tx nonce %d", a.nonce, tx.Nonce)}
	case tx.Nonce > expected && tx.Type == evmtx.Blob:
		return &rejection{reason: BlobGap, textSuffix: fmt.Sprintf(": tx nonce %d, gapped nonce %d", tx.Nonce, expected)}
	case tx.Nonce > expected && n.rules.refusesFor(NonceGap):
		return &rejection{reason: NonceGap}
	case tx.FeeCap.Cmp(n.chain.nextBaseFee) < 0 && n.rules.refusesFor(BelowBaseFee):
		return &rejection{reason: BelowBaseFee}
	}
	if r := n.checkFunds(tx, a); r != nil {
		return r
	}
	old := n.pool.byAccount[tx.from][tx.Nonce]
	switch {
	case n.pool.hasOtherKind(tx):
		return &rejection{reason: Reserved}
	case old != nil && !tx.paysToReplace(old.transaction):
		return &rejection{reason: ReplacementTooCheap}
	case old == nil && a.delegated() && (len(n.pool.byAccount[tx.from]) > 0 || tx.Nonce > a.nonce):
		return &rejection{reason: AccountLimit}
	case old == nil && len(n.pool.byHash) >= n.options.PoolLimit:
		return &rejection{reason: PoolFull}
	}
	return nil
}

// checkStateless makes those of geth's checks that do not need the account, in geth's order.
func (n *Node) checkStateless(tx *transaction, signature *rejection) *rejection {
	fee := new(big.Int).Mul(tx.FeeCap, new(big.Int).SetUint64(tx.Gas))
	limit := n.chain.beginBlock(n.chain.head().time).gasLimit
	intrinsic, floor := tx.IntrinsicGas(), tx.FloorGas()
	switch {
	case fee.Cmp(Ether(1)) > 0:
		ethers, _ := new(big.Float).Quo(new(big.Float).SetInt(fee), big.NewFloat(1e18)).Float64()
		return &rejection{reason: FeeAboveCap, fullText: fmt.Sprintf("tx fee (%.2f ether) exceeds the configured cap (1.00 ether)", ethers)}
	case tx.ChainID == 0:
		return &rejection{reason: Unprotected}
	case n.options.NoBaseFee && tx.Type > evmtx.AccessList:
		return &rejection{reason: UnknownType}
	case n.options.NoBaseFee && tx.FeeCap.Cmp(big.NewInt(flatPrice)) < 0:
		return &rejection{reason: TipTooLow}
	case n.pool.byHash[tx.hash] != nil:
		return &rejection{reason: AlreadyKnown}
	case len(tx.raw) > maxTxBytes && tx.Type != evmtx.Blob:
		return &rejection{reason: Oversized, textSuffix: fmt.Sprintf(": transaction size %d, limit %d", len(tx.raw), maxTxBytes)}
	case tx.sizeWithBlobs > maxBlobTxBytes:
		return &rejection{reason: Oversized, textSuffix: fmt.Sprintf(": transaction size %d, limit %d", tx.sizeWithBlobs, maxBlobTxBytes)}
	case tx.Gas > maxTxGas:
		return &rejection{reason: GasAboveCap, textSuffix: fmt.Sprintf(" (cap: %d, tx: %d)", maxTxGas, tx.Gas)}
	case tx.Gas > limit:
		return &rejection{reason: GasAboveBlock}
	case tx.Tip.Cmp(tx.FeeCap) > 0:
		return &rejection{reason: TipAboveCap}
	case tx.ChainID != n.options.ChainID:
		return &rejection{reason: WrongChain, textSuffix: fmt.Sprintf(": have %d want %d", tx.ChainID, n.options.ChainID)}
	case signature != nil:
		return signature
	case tx.Gas < intrinsic:
		return &rejection{reason: IntrinsicGas, textSuffix: fmt.Sprintf(": gas %d, minimum needed %d", tx.Gas, intrinsic)}
	case tx.Gas < floor:
		return &rejection{reason: FloorGas, textSuffix: fmt.Sprintf(": gas %d, minimum needed %d", tx.Gas, floor)}
	case tx.Tip.Cmp(big.NewInt(minTip)) < 0:
		return &rejection{reason: TipTooLow, textSuffix: fmt.Sprintf(": gas tip cap %v, minimum needed %d", tx.Tip, minTip)}
	case tx.Type != evmtx.Blob:
	case tx.BlobFeeCap.Cmp(big.NewInt(minBlobFeeCap)) < 0:
		return &rejection{reason: TipTooLow, textSuffix: fmt.Sprintf(": blob fee cap %v, minimum needed %d", tx.BlobFeeCap, minBlobFeeCap)}
	case tx.sizeWithBlobs == 0:
		return &rejection{reason: NoBlobs}
	}
	return nil
}

// checkFunds checks that the account can pay for this transaction and for all others that the pool
// has of it.
func (n *Node) checkFunds(tx *transaction, a account) *rejection {
	balance, cost := a.balanceOrZero(), tx.cost()
	if balance.Cmp(cost) < 0 {
		return &rejection{reason: NoFunds, textSuffix: fmt.Sprintf(": balance %v, tx cost %v, overshot %v", balance, cost, new(big.Int).Sub(cost, balance))}
	}
	spent := n.pool.costExcept(tx.from, tx.Nonce)
	if need := new(big.Int).Add(spent, cost); balance.Cmp(need) < 0 {
		return &rejection{reason: NoFunds, textSuffix: fmt.Sprintf(": balance %v, queued cost %v, tx cost %v, overshot %v", balance, spent, cost, need.Sub(need, balance))}
	}
	return nil
}

// paysToReplace reports whether the fees are high enough to replace old, a transaction of the same
// nonce.
func (tx *transaction) paysToReplace(old *transaction) bool {
	if tx.Type == evmtx.Blob {
		return exceedsByPercent(old.FeeCap, tx.FeeCap, minBlobBumpPercent) && exceedsByPercent(old.Tip, tx.Tip, minBlobBumpPercent) && exceedsByPercent(old.BlobFeeCap, tx.BlobFeeCap, minBlobBumpPercent)
	}
	return exceedsByPercent(old.FeeCap, tx.FeeCap, minBumpPercent) && exceedsByPercent(old.Tip, tx.Tip, minBumpPercent)
}

// exceedsByPercent reports whether fee is at least percent above old.
func exceedsByPercent(old, fee *big.Int, percent int64) bool {
	threshold := new(big.Int).Mul(old, big.NewInt(100+percent))
	threshold.Div(threshold, big.NewInt(100))
	return fee.Cmp(old) > 0 && fee.Cmp(threshold) >= 0
}

// checkAdmissionLax makes anvil's checks only.
func (n *Node) checkAdmissionLax(tx *transaction) *rejection {
	a := n.chain.accountNow(tx.from)
	const least = 21000
	switch old := n.pool.byAccount[tx.from][tx.Nonce]; {
	case tx.ChainID != n.options.ChainID && tx.Type != evmtx.Legacy:
		return &rejection{reason: WrongChain}
	case tx.Nonce < a.nonce:
		return &rejection{reason: NonceTooLow}
	case tx.Type == evmtx.Blob && tx.sizeWithBlobs == 0:
		return &rejection{reason: NoBlobs}
	case tx.Gas < least:
		return &rejection{reason: IntrinsicGas}
	case tx.Gas > n.chain.head().gasLimit:
		return &rejection{reason: GasAboveBlock}
	case tx.FeeCap.Cmp(n.chain.nextBaseFee) < 0:
		return &rejection{reason: BelowBaseFee}
	case tx.Tip.Cmp(tx.FeeCap) > 0:
		return &rejection{reason: TipAboveCap}
	case a.balanceOrZero().Cmp(tx.cost()) < 0:
		return &rejection{reason: NoFunds}
	case n.pool.byHash[tx.hash] != nil:
		return &rejection{reason: AlreadyKnown}
	case old != nil && (tx.FeeCap.Cmp(old.FeeCap) < 0 || old.isReady && tx.FeeCap.Cmp(old.FeeCap) == 0):
		return &rejection{reason: ReplacementTooCheap}
	}
	return nil
}

// receive adds signed bytes to the pool, or returns why they are refused.
func (n *Node) receive(now time.Time, raw []byte, dropTx bool) (*transaction, *rejection) {
	tx, signature := n.decodeSigned(raw)
	if tx == nil || n.rules.isLax && signature != nil {
		n.addEntry(Entry{Time: now, Kind: Refused, Text: string(signature.reason)})
		return nil, signature
	}
	why := n.checkAdmission(tx, signature)
	kept := n.hasTracker() && why != nil && (why.reason == PoolFull || why.reason == AccountLimit)
	e := Entry{Time: now, Kind: Accepted, Hash: tx.hash.String(), From: tx.from.String(), Nonce: tx.Nonce}
	switch {
	case why != nil && !kept:
		e.Kind, e.Text = Refused, string(why.reason)
	case dropTx:
		e.Text = "forgotten"
	case kept: // the tracker will try again
		n.trackedTxs = append(n.trackedTxs, tx)
		e.Text = "kept: " + string(why.reason)
	default:
		if n.hasTracker() {
			n.trackedTxs = append(n.trackedTxs, tx)
		}
		n.addToPool(now, tx)
	}
	n.addEntry(e)
	if kept {
		why = nil
	}
	return tx, why
}

// addToPool adds a transaction to the pool.
func (n *Node) addToPool(now time.Time, tx *transaction) {
	state := n.chain.accountNow(tx.from).nonce
	n.pool.add(tx, state)
	from := n.pool.firstFreeNonce(tx.from, state)
	if !n.rules.isLax && len(n.pool.byAccount[tx.from]) > int(from-state)+n.options.QueuedSlots { // behind a gap the pool keeps QueuedSlots transactions, those with the lowest nonces
		queued := 0
		for _, x := range n.pool.txsByNonce(tx.from) {
			if x.Nonce >= from {
				if queued++; queued > n.options.QueuedSlots {
					n.pool.remove(x.hash)
				}
			}
		}
	}
	n.scheduleBlock(now)
}

func (n *Node) hasTracker() bool { return !n.rules.isLax && !n.options.NoTracker }

// restoreTracked puts sent transactions that have left the pool back into it, if it accepts them
// now.
func (n *Node) restoreTracked(now time.Time) {
	for again := true; again; { // a filled gap makes room for other transactions
		again = false
		for _, tx := range n.trackedTxs {
			if n.pool.byHash[tx.hash] == nil && n.chain.txs[tx.hash] == nil && n.checkAdmission(tx, nil) == nil {
				n.addToPool(now, tx)
				again = again || n.pool.byHash[tx.hash] != nil
			}
		}
	}
}
