// Package evmmodel goes through everything that can happen to one payment on an EVM chain, up to a
// number of processes and faults, step by step: claims that expire while their holder lives on,
// stale answers, foreign transactions, blocks that are taken back, bytes that leave late, and the
// death of a process between any two steps. It has tests only.
//
// There are two kinds of clients. The first is evm.New's: the payload is a signed transaction, and so
// its nonce is given. The second is evm.NewSigner's: the payload is an intent, and the client
// chooses the nonce. The rules of the second are these. Bytes are kept in the
// row before they are sent, by the version of the claim, and only if the row keeps what the claim
// saw. All bytes that a row keeps have one nonce, a slot. A slot is given up only if a deep block
// gives its nonce to another transaction, or if nothing was kept; and only if the row still keeps
// what was seen. A new slot takes its nonce from the deep blocks.
//
// Each rule is also broken, one at a time, and the search must find what goes wrong then.
package evmmodel
