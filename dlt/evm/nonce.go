package evm

import (
	"fmt"
	"slices"
)

// heldNonces returns the nonces of the encoded slots in lane, in ascending order.
func heldNonces(lane [][]byte) (all []uint64, err error) {
	for _, b := range lane {
		s, err := decodeSlot(b)
		if err != nil {
			return nil, err
		}
		all = append(all, s.nonce)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// nextNonce decides which nonce of an account a new slot gets. deep, latest and pending are the
// account's counts after the last deep block, after the last block, and with the pool. held are
// the nonces of the other open slots of the lane, in ascending order. nonce is the one after the
// highest of them, or the deep count. ok is true only if each nonce below it is used in a deep
// block or held, and nobody has used this nonce or a higher one: a nonce above another sender's
// transaction that is not deep would be a gap for ever if that transaction is taken back. So no
// counter is kept that could become wrong. If missing is true, nonce is a lower nonce that nobody
// holds. nextNonce is pure.
func nextNonce(deep, latest, pending uint64, held []uint64) (nonce uint64, missing, ok bool) {
	nonce = deep
	for _, h := range held {
		switch {
		case h < deep: // used for good; the nonce's own batch finds out by which transaction
		case h > nonce:
			return nonce, true, false
		default:
			nonce = h + 1
		}
	}
	return nonce, false, latest <= nonce && pending <= nonce && latest >= deep
}

// describeLane says, for an error, which nonces the lane holds.
func describeLane(held []uint64) string {
	if len(held) == 0 {
		return "no other batch of the lane has one"
	}
	return fmt.Sprintf("the lane's open batches have %d to %d", held[0], held[len(held)-1])
}
