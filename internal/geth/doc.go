// Package geth runs geth, a real EVM node, for tests: each node in a temporary folder, on a free
// port of the loopback interface, without peers. The node is a normal one, with its own chain, and
// does not run as geth --dev: this package is its consensus client. It decides when there is a
// block, which transactions the block has, which block is the head, and which is finalized, so
// that a test can replace blocks as a reorganization does. Package binaries finds the program or
// compiles it. On Linux a node ends with the test binary, however the binary ends.
package geth
