// Package oracle compares the codec of signed transactions, evmtx, with go-ethereum's: for any
// bytes, and for any fields. It is a module of its own, which nobody imports, since go-ethereum
// brings much. make fuzz runs it; make test does not.
package oracle
