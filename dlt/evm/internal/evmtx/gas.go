package evmtx

// The prices of gas before any code runs: EIP-2028, EIP-2930, EIP-3860, EIP-7623 and EIP-7702.
const (
	gasTx            = 21000
	gasCreate        = 32000
	gasZero          = 4
	gasNonZero       = 16
	gasInitWord      = 2
	gasAccessAddress = 2400
	gasAccessKey     = 1900
	gasAuth          = 25000
	floorToken       = 10
)

// IntrinsicGas returns the gas that a chain charges for the transaction itself.
func (tx *Tx) IntrinsicGas() uint64 {
	zero, other := tx.dataBytes()
	gas := gasTx + gasZero*zero + gasNonZero*other
	if tx.To == nil {
		gas += gasCreate + gasInitWord*((zero+other+31)/32)
	}
	for _, a := range tx.Access {
		gas += gasAccessAddress + gasAccessKey*uint64(len(a.Keys))
	}
	return gas + gasAuth*uint64(len(tx.Auths))
}

// FloorGas returns the least that a chain with EIP-7623 (Prague) charges for data.
func (tx *Tx) FloorGas() uint64 {
	zero, other := tx.dataBytes()
	return gasTx + floorToken*(zero+4*other)
}

func (tx *Tx) dataBytes() (zero, other uint64) {
	for _, c := range tx.Data {
		if c == 0 {
			zero++
		} else {
			other++
		}
	}
	return zero, other
}
