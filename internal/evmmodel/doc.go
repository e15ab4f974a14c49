// Package evmmodel searches all that can happen to one payment on an EVM chain, step by step, up
// to a number of processes and faults: claims that expire while their holders go on, stale
// answers, foreign transactions, removed blocks, bytes that are sent late, and processes that die
// between any two steps. It has tests only.
//
// There are two kinds of clients. A client of evm.New gets a signed transaction as its payload,
// which has a nonce. A client of evm.NewSigner gets an intent, and chooses the nonce by these
// rules. Bytes are stored in the row before the client sends them. They are stored only if the row
// still has the version of the claim, and still the bytes that the claim saw. All bytes of a row
// have one nonce, and are a slot. A client gives a slot up only if a deep block has another
// transaction with its nonce, or if the row had no bytes; and only if the row still has the bytes
// that the client saw. A new slot takes its nonce from the deep blocks.
//
// A lane is three payments of one account, several of which are under way. A new nonce follows the
// nonces in the lane's open rows, if each lower nonce is used in a deep block or in a row, and
// nobody has used a higher one. A nonce that is in no open row, and for which later ones wait, is
// closed by a transfer of nothing. So is the nonce of a payment that a person withdraws: that
// transfer is stored in the row before it is sent, and only a mined transaction ends the row.
//
// The tests also break each rule, one at a time, and the search must find the wrong outcome.
package evmmodel
