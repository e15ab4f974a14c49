// Package anvil runs a real EVM node for tests, anvil: each in a temporary folder, on a free port of
// the loopback. It finds the program, or installs it from npm, where a lock file keeps the hash of
// the package, and no script of it is run; node and npm it installs from Debian where they lack, as
// root. A node dies with the test binary, however that ends.
package anvil
