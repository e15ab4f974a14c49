// Package geth runs a real EVM node for tests, geth: each in a temporary folder, on a free port of
// the loopback, without peers. The node is a normal one, of a chain of its own, and not one of
// geth --dev: this package is its consensus client. It says when there is a block, which
// transactions the block has, which block is the head, and which is finalized, so that a test can
// replace blocks as a reorganization does. Package binaries finds the program or compiles it. On
// Linux a node dies with the test binary, however that ends.
package geth
