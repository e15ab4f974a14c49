// Package evmtx reads, writes and signs the transactions of EVM chains: type 0 (legacy, EIP-155),
// 1 (EIP-2930), 2 (EIP-1559) and 4 (EIP-7702). It decodes only canonical bytes, because the hash
// of a transaction is the hash of its bytes: two encodings of one transaction would have two
// hashes. Errors about input are *batch.InputErrors, which wrap one of this package's errors.
package evmtx
