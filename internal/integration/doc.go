// Package integration holds the tests that need more dependencies than the library: the PostgreSQL
// store with two drivers and through PgBouncer. It is a module of its own, so that users of the
// library never get its dependencies.
package integration
