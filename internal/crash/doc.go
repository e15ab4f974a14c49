// Package crash holds the kill -9 suite, which is tests only: a real child process
// with a Runner on a SQLite file is killed in every window in which a crash could
// lose a batch, swap two or send one twice, started again, and killed again; then
// the journals of the ledgers, which the parent serves over sockets, are held
// against what the children had acknowledged. Workers with orders, two at a time, are
// killed by package ordercrash.
package crash
