// Package pgtest runs a PostgreSQL of its own for tests, and a PgBouncer before it: one of
// each for a test binary, in a temporary folder, on a free port of the loopback. Package binaries
// finds the programs or brings them. A missing database is a failure, never a skip.
//
// Tests call [Main] from TestMain, so that both are stopped at the end. On Linux they die with the
// test binary however it ends, because the kernel kills them then.
package pgtest
