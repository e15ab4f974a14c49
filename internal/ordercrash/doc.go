// Package ordercrash is the kill -9 suite of auto-batching, for the tests of the
// databases. Two workers, which are processes of their own, share a database and a
// simulated Canton participant, which the parent serves over a socket; orders are
// added through the workers and beside them. Workers are killed in every window in
// which a crash could lose an order or pay it twice, and others take their places.
// Then the participant's books are held against what became of the orders.
package ordercrash
