// Package evmtest is an EVM node for tests: a real HTTP server that speaks JSON-RPC as real nodes
// do, bad habits included. Use it in a test like this:
//
//	node := evmtest.Start(t, nil)
//	raw, hash := evmtest.Dev(0).Sign(evmtest.Unsigned{ChainID: 1337, To: evmtest.Dev(1).Address()})
//	// ... send raw through a client of node.URL(), then look at node.Blocks()
//
// It has accounts with nonces and balances, a pool with gaps and replacements, blocks with base
// fees, receipts, and as much of a virtual machine as a contract needs that reverts. Blocks come
// soon after each transaction, at intervals, or when a test says so ([Node.Mine]).
//
// A node has one of three personalities ([Geth], [Anvil], [Provider]), or the words of other
// software ([Besu] and so on). Answers of Geth and Anvil were compared with geth 1.17.8's and
// anvil 1.7.1's, request by request (testdata/nodes).
//
// A test can take blocks back ([Node.Reorg]), make the node forget ([Node.Drop], [Node.Forget]),
// raise the base fee ([Node.SetBaseFee]), empty accounts ([Node.SetBalance]) and kill the node
// ([Node.Kill], [Node.Resume]): Options.DumpInterval and Options.KillUnmines decide how much it
// loses. It injects faults by seed or by script ([Faults]), and keeps a journal ([Node.Journal]).
// [Node.Blocks] is the chain, which shows every execution.
//
// Anvil decides once which transactions of its pool are ready, and does not look again. So after a
// reorg the pending count skips the nonces that were lost, and the next block forgets the
// transactions behind them, sent again or not. Not as anvil does: of two transactions that wait
// for a nonce before them and have the same nonce, this package keeps the one with the higher
// fees, and anvil keeps both.
//
// It has no logs, no websockets, no tries: the roots of its blocks mean nothing. Type 4
// transactions are mined, but their authorizations do nothing. Of blobs the node compares the
// commitments with the hashes, and tests no proofs; a unit of blob gas always costs one wei.
//
// The node has no clock and no goroutine of its own: at each request or call it does everything
// that was due since the last one (blocks, dumps, late arrivals), in the order of its times. So it
// runs in real time as well as under testing/synctest, and blocks carry the time at which they
// were due.
package evmtest
