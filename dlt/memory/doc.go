// Package memory is a ledger inside the process, for tests: of a user's service,
// of a store, and of dltbatch itself. By default it is as unforgiving as a ledger
// can be: it executes a duplicate again, takes requests that arrive long after
// their connection has ended, and forgets statuses. It honours contexts, starts no
// goroutine, and so runs in the virtual time of testing/synctest.
//
// A payload is opaque to it, but for a prefix: one that begins with "invalid" is
// decided against, one that begins with "reject" is refused at the door.
package memory
