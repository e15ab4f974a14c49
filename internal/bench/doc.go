// Package bench measures the whole road: Runner and store in this process, the node
// in another. It is a module of its own, so that what it needs never reaches those
// who import the library.
package bench
