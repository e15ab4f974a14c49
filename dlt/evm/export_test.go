package evm

import (
	"math/big"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// Slot shows what a batch keeps.
func Slot(prepared []byte) (nonce uint64, fees []Fee, hashes []string, err error) {
	s, err := decodeSlot(prepared)
	if err != nil {
		return 0, nil, nil, err
	}
	for _, e := range s.entries {
		fees, hashes = append(fees, e.fee), append(hashes, e.hash.String())
	}
	return s.nonce, fees, hashes, nil
}

// SlotGas is the gas of all transactions that a batch keeps.
func SlotGas(prepared []byte) (uint64, error) {
	s, err := decodeSlot(prepared)
	if err != nil {
		return 0, err
	}
	return s.gas, nil
}

// List shows what is kept for alternatives: the places of those that went out, one for each turn.
func List(prepared []byte) (turns []int, hashes []string, err error) {
	s, err := decodeList(prepared)
	if err != nil {
		return nil, nil, err
	}
	for _, t := range s.turns {
		turns = append(turns, t.entryIndex)
	}
	for _, e := range s.entries {
		hashes = append(hashes, e.hash.String())
	}
	return turns, hashes, nil
}

// Split returns the transactions of a payload.
func Split(payload []byte) ([][]byte, error) { return splitPayload(payload) }

// ListAgain decodes what is kept for alternatives, and encodes it again.
func ListAgain(prepared []byte) ([]byte, error) {
	s, err := decodeList(prepared)
	if err != nil {
		return nil, err
	}
	return s.encodeList(), nil
}

// MaxTurns is how many turns a slot of alternatives has room for.
const MaxTurns = maxTurns

// MaxEntries is how many transactions a slot has room for. The last ClosingRoom are for those that
// close its nonce.
const MaxEntries, ClosingRoom = maxEntries, closingEntries

// ReadSigned reads the answer of a service that signs.
func ReadSigned(raw []byte, tx Unsigned) error {
	_, err := readSigned(raw, tx)
	return err
}

// ReadHistory reads the answer of eth_feeHistory.
func ReadHistory(raw []byte) (tips []*big.Int, next *big.Int, err error) { return readHistory(raw) }

// SlotRaw returns a transaction that is kept for an intent.
func SlotRaw(prepared []byte, b batch.Batch, chain uint64, at int) ([]byte, error) {
	s, err := decodeSlot(prepared)
	if err != nil {
		return nil, err
	}
	in, err := parseIntent(b.Payload)
	if err != nil {
		return nil, err
	}
	sender, err := evmtx.ParseAddress(string(b.Service))
	if err != nil {
		return nil, err
	}
	tx, err := s.tx(s.entries[at], in, sender, chain)
	if err != nil {
		return nil, err
	}
	return tx.Encode(), nil
}
