// Package dlt is the contract between dltbatch and a ledger: the promises of a client about
// submitting batches and about reporting their outcomes.
//
// Clients for Sawtooth and others live in the folders below. A client of your own begins as a
// struct that embeds [Unimplemented] and has three methods: Submit, BatchStatuses and Traits. The
// public suite dlt/dlttest checks any client against this contract; examples/customledger has
// both.
package dlt
