// Package dlttest is the suite that every ledger client passes: dltbatch's own,
// and yours. It calls the client as the engine does and holds what comes back
// against the contract in package dlt, whatever the ledger behind it is.
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
// The backend is what tells a good client from a lucky one: it goes wrong on
// demand ([Harness.Set]) and counts what it was sent ([Harness.Posts]). What it
// cannot do is declared in [Harness.Lacks], with the reason, and shows in the log.
//
// The suite uses timers only where the contract speaks of time, so that a client
// and a backend without sockets can be checked in the virtual time of
// testing/synctest: take the [Checks] one by one.
package dlttest
