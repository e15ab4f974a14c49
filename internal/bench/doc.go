// Package bench measures the whole way of a batch: Runner and store in this process, the node
// in another. It is a module of its own, so that users of the library never get its
// dependencies.
package bench
