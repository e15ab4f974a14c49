// Package deaf lets all tests run while every hint between processes is lost: with the build tag
// dltbatch_deaf, which only make soak sets. The listeners believe all the same that they hear,
// which is the worst case.
package deaf
