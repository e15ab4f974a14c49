// Package chaos is a test suite in which everything around the queue fails at once, in an order
// that a seed decides. Workers are processes of their own, with stores on one PostgreSQL, and
// submit to a ledger in another process. Meanwhile the suite kills and freezes workers, fails one
// in ten of their statements, crashes the database and lets it recover, and makes the ledger
// forget as much as it may forget, once or twice in a row. It also breaks connections, slows them
// down, and swallows their bytes. Then it compares the ledger's journal with the acknowledged
// batches. On an EVM node, anvil or geth, it also replaces blocks, sends other transactions with
// the same keys, changes prices by a large factor and empties accounts. There the journal is the
// chain, and a batch that is first in its lane for more than three blocks and a poll must have a
// reason that Explain gives. Another test loses the database for good, and continues with its
// synchronous standby.
package chaos
