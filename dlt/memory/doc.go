// Package memory is a ledger inside the process, for tests of a user's service, of a store,
// and of dltbatch itself. By default it is as unforgiving as a ledger can be: it executes a
// duplicate again, accepts requests that arrive long after their connection has ended, and
// forgets statuses. It honours contexts, starts no goroutine, and so runs in the virtual time
// of testing/synctest.
//
// Payloads are opaque to it, except for a prefix: it decides against a payload that begins
// with "invalid", and refuses a payload that begins with "reject" on submission.
package memory
