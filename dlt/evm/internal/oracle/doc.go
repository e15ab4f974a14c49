// Package oracle compares evmtx, which encodes and decodes signed transactions, with go-ethereum:
// for any bytes, and for any fields. It is a separate module that nothing imports, because
// go-ethereum has many dependencies. make fuzz runs it; make test does not.
package oracle
