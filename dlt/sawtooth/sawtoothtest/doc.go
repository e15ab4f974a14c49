// Package sawtoothtest is a Sawtooth node for tests: a real HTTP server that behaves as real
// nodes do, bad habits included (docs/ledgers/sawtooth.md). Use it in a test like this:
//
//	node := sawtoothtest.Start(t, nil)
//	ledger, err := sawtooth.New(node.URL(), nil)
//	// ... run batches through the ledger, then node.Check(...)
//
// It verifies signatures and structure, refuses whole lists, and forgets everything on a
// restart except commits. It ignores resubmissions for as long as its cache remembers the
// batch, reports PENDING late and sometimes for ever, and may still commit an INVALID batch.
// It executes a small family of named integers ([Set], [Inc], [Dec]), so that its state shows
// the order of execution. It journals every POST and every execution ([Node.Journal],
// [Check]), and injects faults by seed ([Faults]).
//
// It reports blocks to its subscribers ([Node.DropSockets] ends their sockets,
// [Node.BreakEvents] their events), and a test can rewind its chain ([Node.Fork]). Its
// validator and its REST API die and come back separately ([Node.KillValidator],
// [Node.StartValidator]; [Node.Stop], [Node.Resume]) or together ([Node.Restart]), any number
// of times, with requests in flight. Each part loses its memory when it dies; the chain stays.
//
// Its answers were compared with those of a Sawtooth 1.2.6, request by request
// (testdata/nodes).
//
// It has no consensus, no gossip and no real transaction processors. There is one validator.
//
// The node has no clock and no goroutine of its own: at each request or call it does
// everything that was due since the last one (blocks, publications, late arrivals), in the
// order of its times. So it runs in real time as well as under testing/synctest, and blocks
// carry the time at which they were due.
package sawtoothtest
