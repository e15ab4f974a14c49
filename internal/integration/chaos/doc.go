// Package chaos holds the suite, which is tests only, in which everything around the
// queue fails at once, by seed: workers that are processes of their own, with stores
// on one PostgreSQL, submit to a ledger in another process, while workers are killed
// and frozen, one in ten of their statements fails, the database crashes and recovers, the
// ledger forgets what it may forget, once or twice in a row, and connections are cut, slowed
// down, and swallow what they are given. Then
// the ledger's journal is held against what was acknowledged. Another test loses the
// database for good, and goes on with its synchronous standby.
package chaos
