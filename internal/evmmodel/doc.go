// Package evmmodel goes through everything that can happen to one payment on an EVM chain, up to a
// number of processes and faults, step by step: claims that expire while their holder lives on,
// stale answers, foreign transactions, removed blocks, bytes that leave late, and the death of a
// process between any two steps. It has tests only.
//
// There are two kinds of clients. A client of evm.New gets a signed transaction as its payload,
// which has a nonce. A client of evm.NewSigner gets an intent, and chooses the nonce by these
// rules. The row keeps bytes before the client sends them, by the version of the claim, and only
// if the row's bytes are still the bytes that the claim saw. All bytes that a row keeps have one
// nonce, a slot. A client gives a slot up only if a deep block gives its nonce to another
// transaction, or if the row kept no bytes; and only if the row's bytes are still the bytes that
// it saw. A new slot takes its nonce from the deep blocks.
//
// A lane is three payments of one account, several of them under way. A nonce follows those that
// the lane's open rows keep, if each lower one is used in a deep block or kept, and nobody is
// beyond it. A nonce that no open row keeps, and that later ones wait for, is closed by a transfer
// of nothing. So is the nonce of a payment that a person withdraws: its row keeps that transfer
// before it is sent, and ends only by what is mined.
//
// The tests also break each rule, one at a time, and the search must find the wrong outcome.
package evmmodel
