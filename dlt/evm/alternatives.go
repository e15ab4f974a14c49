package evm

import (
	"bytes"
	"fmt"
	"math/big"
	"slices"
	"strconv"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// MaxAlternatives is how many transactions [Alternatives] takes at most.
const MaxAlternatives = 16

// alternativesMark is the first byte of a payload with alternatives. After it comes the RLP list
// of the transactions as strings. No transaction begins with this byte: a first byte up to 0x7f is
// a type, and a legacy transaction begins with 0xc0 or above (EIP-2718).
const alternativesMark = 0xa2

// Alternatives returns the payload of one batch of 2 to [MaxAlternatives] signed transactions, of
// which the chain executes at most one: [NewBatch] makes the batch. The transactions have no
// blobs, and the same account, chain, nonce and type. Everything else is the same, too, except the
// fees: so the batch has one meaning, whichever transaction is executed. Both fees rise from each
// transaction to the next by a tenth at least, because otherwise nodes would not let the next one
// replace it. A [Client] begins with the first transaction that pays the base fee, and goes on to
// the next one when the last one has waited for too long (docs/evm.md#alternatives). The error is
// a [*batch.InputError] that names the place in the list.
func Alternatives(signed ...[]byte) ([]byte, error) {
	payload := append([]byte{alternativesMark}, evmtx.EncodeStrings(signed)...)
	if _, err := parsePayload(payload); err != nil {
		return nil, err
	}
	return payload, nil
}

// hasAlternatives reports whether a payload has alternatives.
func hasAlternatives(payload []byte) bool { return len(payload) > 0 && payload[0] == alternativesMark }

// alternativeField returns the name of the alternative with index i for errors.
func alternativeField(i int) string { return "alternatives[" + strconv.Itoa(i) + "]" }

// splitPayload returns the encoded transactions of a payload: its alternatives, or the payload
// itself.
func splitPayload(payload []byte) ([][]byte, error) {
	if !hasAlternatives(payload) {
		return [][]byte{payload}, nil
	}
	raws, err := evmtx.DecodeStrings("alternatives", payload[1:], MaxAlternatives)
	if err != nil {
		return nil, err
	}
	if n := len(raws); n < 2 || n > MaxAlternatives {
		said := strconv.Itoa(n)
		if n > MaxAlternatives {
			said = "more"
		}
		return nil, &batch.InputError{Field: "alternatives", Value: said, Want: fmt.Sprintf("2 to %d signed transactions; one is a payload by itself", MaxAlternatives)}
	}
	return raws, nil
}

// checkAlternatives refuses alternatives that are not one payment. All of a transaction but its
// fees must be the same in each alternative, and the fees must rise.
func (p *parsedPayload) checkAlternatives() error {
	first := p.txs[0]
	if first.Type == evmtx.Blob && len(p.txs) > 1 {
		return &batch.InputError{Field: alternativeField(0) + ".type", Value: "3", Want: "0, 1, 2 or 4: a transaction with blobs has no alternatives, because nodes replace it only for twice its fees"}
	}
	for i, tx := range p.txs[1:] {
		i++
		refuse := func(field, value, want string) error {
			return &batch.InputError{Field: alternativeField(i) + "." + field, Value: batch.Excerpt(value, 80), Want: want}
		}
		if at := slices.Index(p.hashes[:i], p.hashes[i]); at >= 0 {
			return &batch.InputError{Field: alternativeField(i), Value: p.hashes[i].String(), Want: "each transaction once: it is " + alternativeField(at)}
		}
		for _, f := range [...]struct {
			name     string
			of, want string
		}{
			{"type", strconv.Itoa(int(tx.Type)), strconv.Itoa(int(first.Type))},
			{"chain_id", strconv.FormatUint(tx.ChainID, 10), strconv.FormatUint(first.ChainID, 10)},
			{"nonce", strconv.FormatUint(tx.Nonce, 10), strconv.FormatUint(first.Nonce, 10)},
			{"gas", strconv.FormatUint(tx.Gas, 10), strconv.FormatUint(first.Gas, 10)},
			{"to", recipientText(tx), recipientText(first)},
			{"value", tx.Value.String(), first.Value.String()},
		} {
			if f.of != f.want {
				return refuse(f.name, f.of, batch.Excerpt(f.want, 80)+", as "+alternativeField(0)+" has: only fees may differ")
			}
		}
		switch {
		case !bytes.Equal(tx.Data, first.Data):
			return refuse("data", strconv.Itoa(len(tx.Data))+" bytes", "the bytes of "+alternativeField(0)+": only fees may differ")
		case hashWithoutFees(tx, false) != hashWithoutFees(first, false):
			return refuse("access_list", strconv.Itoa(len(tx.Access))+" accounts", "the list of "+alternativeField(0)+": only fees may differ")
		case hashWithoutFees(tx, true) != hashWithoutFees(first, true):
			return refuse("authorization_list", strconv.Itoa(len(tx.Auths))+" authorizations", "the list of "+alternativeField(0)+": only fees may differ")
		}
		if p.senders[i] != p.sender {
			return refuse("sender", p.senders[i].String(), p.sender.String()+", the account that signed "+alternativeField(0))
		}
		before := p.txs[i-1]
		for _, f := range [...]struct {
			name               string
			newPrice, oldPrice *big.Int
		}{{"max_fee_per_gas", tx.FeeCap, before.FeeCap}, {"max_priority_fee_per_gas", tx.Tip, before.Tip}} {
			if least := leastReplacementPrice(f.oldPrice); f.newPrice.Cmp(least) < 0 {
				return refuse(f.name, f.newPrice.String(), numberExcerpt(least)+" at least: a tenth more than "+alternativeField(i-1)+", or no node replaces that")
			}
		}
	}
	if highest := p.txs[len(p.txs)-1].FeeCap; highest.BitLen() > feeBits {
		return &batch.InputError{Field: alternativeField(len(p.txs)-1) + ".max_fee_per_gas", Value: numberExcerpt(highest), Want: "at most 128 bits"}
	}
	return nil
}

func recipientText(tx *evmtx.Tx) string {
	if tx.To == nil {
		return "none"
	}
	return tx.To.String()
}

// hashWithoutFees returns a hash of everything in a transaction except its fees and its signature.
// If auths is false, the hash leaves out the authorizations, too.
func hashWithoutFees(tx *evmtx.Tx, auths bool) evmtx.Hash {
	same := *tx
	same.Tip, same.FeeCap = nil, nil
	if !auths {
		same.Auths = nil
	}
	return same.SigningHash()
}

// leastReplacementPrice returns the lowest fee that may replace the fee v: nodes ask for a tenth
// more of both fees (docs/ledgers/evm.md#21-replacement).
func leastReplacementPrice(v *big.Int) *big.Int {
	out := new(big.Int).Mul(v, big.NewInt(11))
	out.Quo(out.Add(out, big.NewInt(9)), big.NewInt(10))
	return largest(out, new(big.Int).Add(v, big.NewInt(1)))
}
