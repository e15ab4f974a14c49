// Package anvil runs anvil, a real EVM node, for tests: each node in a temporary folder, on a free
// port of the loopback interface. Package binaries finds the program or downloads it. On Linux a
// node ends with the test binary, however the binary ends.
package anvil
