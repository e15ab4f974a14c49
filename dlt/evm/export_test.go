package evm

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

// MaxEntries is how many transactions a slot has room for.
const MaxEntries = maxEntries

// ReadSigned reads the answer of a service that signs.
func ReadSigned(raw []byte, tx Unsigned) error {
	_, err := readSigned(raw, tx)
	return err
}
