module github.com/dltbatch/dltbatch/dlt/evm/internal/oracle

go 1.26.0

replace github.com/dltbatch/dltbatch => ../../../..

require (
	github.com/decred/dcrd/dcrec/secp256k1/v4 v4.4.1
	github.com/dltbatch/dltbatch v0.0.0
	github.com/ethereum/go-ethereum v1.17.8
	github.com/holiman/uint256 v1.3.2
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/ProjectZKM/Ziren/crates/go-runtime/zkvm_runtime v0.0.0-20251001021608-1fe7b43fc4d6 // indirect
	github.com/bits-and-blooms/bitset v1.20.0 // indirect
	github.com/consensys/gnark-crypto v0.18.1 // indirect
	github.com/crate-crypto/go-eth-kzg v1.5.0 // indirect
	github.com/ethereum/c-kzg-4844/v2 v2.1.8 // indirect
	github.com/supranational/blst v0.3.16 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)
