// Package chaos holds a suite, which is tests only, in which everything around the queue
// fails at once, by seed. Workers are processes of their own, with stores on one PostgreSQL,
// and submit to a ledger in another process. Meanwhile the suite kills and freezes workers,
// fails one in ten of their statements, crashes the database and lets it recover, makes the
// ledger forget as much as it may forget, once or twice in a row, and makes connections
// break, slow down, and swallow their bytes. Then it compares the ledger's journal with the
// acknowledged batches. On an EVM node, anvil or geth, it replaces blocks, too, sends other
// transactions with the same keys, and lets prices leap and accounts run dry; the journal is the
// chain, and a batch that stands first in its lane for more than three blocks and a poll must have
// a reason that Explain says. Another test loses the database for good, and goes on with its
// synchronous standby.
package chaos
