// Package crash is the kill -9 suite, which consists of tests only. A real child process with a
// Runner on a SQLite file is killed in every window in which a crash could lose a batch, swap two
// or send one twice. Then it is started again, and killed again. At the end the suite compares the
// journals of the ledgers, which the parent serves over sockets, with the batches that the
// children had acknowledged. Package ordercrash kills workers with orders, two at a time.
package crash
