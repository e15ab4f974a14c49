package evm

import (
	"math/big"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// Slot returns the content of prepared bytes of an intent.
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

// SlotGas returns the gas of a slot's transactions.
func SlotGas(prepared []byte) (uint64, error) {
	s, err := decodeSlot(prepared)
	if err != nil {
		return 0, err
	}
	return s.gas, nil
}

// List returns the content of prepared bytes of alternatives. turns has the index of the
// alternative that went out by each permission.
func List(prepared []byte) (turns []int, hashes []string, err error) {
	s, err := decodeList(prepared)
	if err != nil {
		return nil, nil, err
	}
	for _, t := range s.sendPermissions {
		turns = append(turns, t.entryIndex)
	}
	for _, e := range s.entries {
		hashes = append(hashes, e.hash.String())
	}
	return turns, hashes, nil
}

// Split returns the transactions of a payload.
func Split(payload []byte) ([][]byte, error) { return splitPayload(payload) }

// ListAgain decodes prepared bytes of alternatives, and encodes them again.
func ListAgain(prepared []byte) ([]byte, error) {
	s, err := decodeList(prepared)
	if err != nil {
		return nil, err
	}
	return s.encodeList(), nil
}

// MaxPermissions is how many permissions the slot of alternatives has room for.
const MaxPermissions = maxPermissions

// MaxEntries is how many transactions a slot has room for. The last ClosingRoom of them are left
// free for those that close its nonce.
const MaxEntries, ClosingRoom = maxEntries, closingEntries

// ReadSigned reads the answer of a signing service.
func ReadSigned(raw []byte, tx Unsigned) error {
	_, err := readSigned(raw, tx)
	return err
}

// ReadHistory reads the answer of eth_feeHistory.
func ReadHistory(raw []byte) (tips []*big.Int, next *big.Int, err error) { return readHistory(raw) }

// SlotRaw returns the transaction with index at in the slot of an intent, encoded.
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
