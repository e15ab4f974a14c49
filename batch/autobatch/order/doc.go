// Package order has auto-batching's contract about orders (docs/orders.md): an [Order] and its
// states, the [Builder] that makes a batch of orders, and the [Store] that keeps them.
//
// The application adds each Order, package batch/autobatch runs the loops, and the drivers in
// the folder store implement the Store. A stored order has two parts: the Order itself never
// changes, its [Row] does. A driver loads a Row, asks this package for the next one, and writes
// that by compare-and-set on the version; so all drivers behave the same.
// batch/autobatch/ordertest checks every driver.
package order
