// Package anvil runs a real EVM node for tests, anvil: each in a temporary folder, on a free port
// of the loopback. Package binaries finds the program or brings it. On Linux a node dies with the
// test binary, however that ends.
package anvil
