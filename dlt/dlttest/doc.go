// Package dlttest is the suite that every ledger client must pass: dltbatch's own, and yours.
// It calls the client as the engine does, and checks its answers against the contract in
// package dlt, for any ledger.
//
//	func TestConformance(t *testing.T) {
//		dlttest.Run(t, func(t dlttest.TB) *dlttest.Harness {
//			backend := startBackend(t)
//			return &dlttest.Harness{
//				Ledger: mine.New(backend.URL), Batch: backend.batch, Set: backend.set, Posts: backend.posts,
//				Lacks: map[dlttest.Fault]string{dlttest.Redirect: "it speaks no HTTP"},
//			}
//		})
//	}
//
// The backend distinguishes a good client from a lucky one: it goes wrong on demand
// ([Harness.Set]) and counts the submissions that reach it ([Harness.Posts]). Faults that it
// cannot make are declared in [Harness.Lacks], with the reason, and appear in the log. A client
// that speaks HTTP can have its backend behind a [Server], which does the common part.
//
// The suite uses timers only where the contract mentions time. So a client and a backend
// without sockets can be checked in the virtual time of testing/synctest: run the [Checks] one
// by one.
package dlttest
