// Package deaf lets all tests run while every hint between processes is lost, by the build tag
// dltbatch_deaf, which only make soak sets. The listeners still report that they hear hints, which
// is the worst case.
package deaf
