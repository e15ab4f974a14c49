// Package pgtest runs a PostgreSQL for tests, and a PgBouncer before it: one of each for a test
// binary, in a temporary folder, on a free port of the loopback interface. Package binaries finds
// the programs or brings them. A missing database is a failure, never a skip.
//
// Tests call [Main] from TestMain, so that both are stopped at the end. On Linux the kernel kills
// both when the test binary ends, however it ends.
package pgtest
