// Package integration tests what needs more than the library depends on: the
// PostgreSQL store with two drivers and through PgBouncer. It is a module of its own,
// so that what it needs never reaches those who import the library.
package integration
