// Package dlt is the contract between dltbatch and a ledger: what a client
// promises about submitting batches and about telling what became of them.
//
// Clients for Sawtooth and others live in the folders below; the public suite
// dlt/dlttest checks any client against this contract.
package dlt
