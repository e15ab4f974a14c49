package evmtx

// Gas that is charged before any code runs: EIP-2028, EIP-2930, EIP-3860, EIP-7623 and EIP-7702.
const (
	gasTx               = 21000
	gasCreate           = 32000
	gasPerZeroByte      = 4
	gasPerOtherByte     = 16
	gasPerInitCodeWord  = 2
	gasPerAccessAddress = 2400
	gasPerAccessKey     = 1900
	gasPerAuthorization = 25000
	floorGasPerToken    = 10
)

// IntrinsicGas returns the gas that a chain charges for the transaction itself.
func (tx *Tx) IntrinsicGas() uint64 {
	zero, other := tx.countDataBytes()
	gas := gasTx + gasPerZeroByte*zero + gasPerOtherByte*other
	if tx.To == nil {
		gas += gasCreate + gasPerInitCodeWord*((zero+other+31)/32)
	}
	for _, a := range tx.Access {
		gas += gasPerAccessAddress + gasPerAccessKey*uint64(len(a.Keys))
	}
	return gas + gasPerAuthorization*uint64(len(tx.Auths))
}

// FloorGas returns the least gas that a chain with EIP-7623 (Prague) charges for data.
func (tx *Tx) FloorGas() uint64 {
	zero, other := tx.countDataBytes()
	return gasTx + floorGasPerToken*(zero+4*other)
}

func (tx *Tx) countDataBytes() (zero, other uint64) {
	for _, c := range tx.Data {
		if c == 0 {
			zero++
		} else {
			other++
		}
	}
	return zero, other
}
