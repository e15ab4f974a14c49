// Package ordercrash is the kill -9 suite of auto-batching, for the tests of the databases. Two
// workers, which are separate processes, share a database and a simulated Canton participant,
// which the parent serves over a socket. The suite adds orders through the workers and directly.
// It kills workers in every window in which a crash could lose an order or pay it twice, and
// starts others in their places. Then it compares the participant's books with the outcomes of the
// orders.
package ordercrash
