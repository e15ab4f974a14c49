// Package crash holds the kill -9 suite, which is tests only. A real child process with a
// Runner on a SQLite file is killed in every window in which a crash could lose a batch, swap
// two or send one twice; it is started again, and killed again. Then the suite compares the
// journals of the ledgers, which the parent serves over sockets, with the batches that the
// children had acknowledged. Package ordercrash kills workers with orders, two at a time.
package crash
