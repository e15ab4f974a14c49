// Package dlt is the contract between dltbatch and a ledger: the promises of a client about
// submitting batches and about reporting their outcomes.
//
// Clients for Sawtooth and others live in the folders below. The public suite dlt/dlttest
// checks any client against this contract.
package dlt
