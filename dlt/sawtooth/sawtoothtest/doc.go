// Package sawtoothtest is a Sawtooth node to test against: a real HTTP server
// that behaves as nodes do and not as one would like them to
// (docs/ledgers/sawtooth.md). In a test of one's own:
//
//	node := sawtoothtest.Start(t, nil)
//	ledger, err := sawtooth.New(node.URL(), nil)
//	// ... run batches through the ledger, then node.Check(...)
//
// It verifies signatures and structure, refuses whole lists, forgets on a
// restart all that is not committed, ignores resubmissions for as long as its
// cache remembers the batch, reports PENDING late and sometimes for ever, and
// lets an INVALID batch still commit. It executes a small family of named
// integers ([Set], [Inc], [Dec]), so that the order of execution shows in its
// state, journals every POST and every execution ([Node.Journal], [Check]), and
// injects faults by seed ([Faults]).
//
// It tells its subscribers of blocks ([Node.DropSockets] ends their sockets,
// [Node.BreakEvents] their events), and its chain rewinds when a test says so
// ([Node.Fork]). Its validator and its REST API die and come back separately
// ([Node.KillValidator], [Node.StartValidator]; [Node.Stop], [Node.Resume]) or
// together ([Node.Restart]), as often as one likes, with requests under way: what
// is remembered dies with whoever remembers it, and the chain stays.
//
// Its answers were held against those of a Sawtooth 1.2.6, request by request
// (testdata/nodes).
//
// What it does not do: consensus, gossip, real transaction processors.
// There is one validator.
//
// The node has no clock and no goroutine of its own: whatever was due since the
// last look (blocks, publications, late arrivals) is done, in the order of its
// times, when a request or a call comes in. So it runs in real time as well as
// under testing/synctest, and blocks carry the time they were due.
package sawtoothtest
