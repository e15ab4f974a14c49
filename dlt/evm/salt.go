package evm

import (
	"encoding/binary"
	"math/big"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// salt makes the transactions of a batch differ from those of any other batch with the same
// intent. Without it two such batches could get the same transaction: a signature often depends on
// the signed bytes alone, and a process whose node stands still may choose a nonce again that a
// deep block has used. The receipt of one payment would then count for both batches. The salt
// changes neither the execution nor its price (docs/evm.md#the-salt-of-an-intent).
type salt struct {
	gasSeed, feeSeed uint64
}

// saltOf returns the salt of a batch. It is the same for all transactions of the batch, in every
// process.
func saltOf(key batch.Key) salt {
	h := evmtx.Keccak([]byte("intent\x00" + string(key.Service) + "\x00" + string(key.ID)))
	return salt{gasSeed: binary.BigEndian.Uint64(h[:8]), feeSeed: binary.BigEndian.Uint64(h[8:16])}
}

const (
	// gasRange is how much gas the salt may add to an estimate. An account needs the funds for it,
	// though it does not pay the unused part.
	gasRange = 1 << 12
	// wideGasRange is the gas range if the base fee is at most cheapBaseFee: there, fees leave
	// little room for the salt, and the gas costs next to nothing.
	wideGasRange = 1 << 16
	cheapBaseFee = 1_000_000 // wei
	// maxTxGas is the gas limit of a transaction on chains with EIP-7825.
	maxTxGas = 1 << 24
	// feeShareShift is the part of a fee cap's reserve that the salt may take away, as a shift.
	feeShareShift = 10
)

// addGas returns estimate plus addition plus the salt's gas, lowered to the block's gas limit and
// the chain's limit for a transaction, and at least estimate. A limit below estimate is ignored.
func (s salt) addGas(estimate, addition uint64, head block) uint64 {
	width := uint64(gasRange)
	if head.baseFee.Cmp(big.NewInt(cheapBaseFee)) <= 0 {
		width = wideGasRange
	}
	top := estimate + addition + width - 1
	for _, most := range [...]uint64{maxTxGas, head.gasLimit} {
		if estimate <= most {
			top = min(top, most)
		}
	}
	if top < estimate { // the sum has overflowed: no chain has such an estimate
		return estimate
	}
	return top - s.gasSeed%min(width, top-estimate+1)
}

// lowerFeeCap lowers a fee cap by a thousandth of its reserve at most. The reserve is the part
// above base fee plus tip; if the limit of fees leaves no such part, it is the part above the
// higher of the two. The result is at least least, which is zero for a first transaction. The tip
// does not change.
func (s salt) lowerFeeCap(f, least Fee, baseFee *big.Int) Fee {
	floor := new(big.Int).Add(baseFee, f.Tip)
	if f.FeeCap.Cmp(floor) < 0 { // the limit of fees has lowered the fee cap
		floor = largest(baseFee, f.Tip)
	}
	if least.FeeCap != nil {
		floor = largest(floor, least.FeeCap)
	}
	room := new(big.Int).Sub(f.FeeCap, floor)
	if room.Rsh(room, feeShareShift).Sign() <= 0 {
		return f
	}
	taken := new(big.Int).SetUint64(s.feeSeed)
	taken.Mod(taken, room.Add(room, big.NewInt(1)))
	return Fee{Tip: f.Tip, FeeCap: new(big.Int).Sub(f.FeeCap, taken)}
}
