// Yard measures dltbatch against yardsticks, in one run, on one machine: against the
// floor, which is a straight-line program without any library, and against River, a
// good job queue, on the same PostgreSQL and the same fake ledger. docs/performance.md
// says what is measured and how, and holds the figures; make bench makes them anew.
//
// Each figure comes from a process of its own, started from this same program, so
// that nobody inherits another's heap. The processes take turns. The fake ledger is a
// process, too.
//
// It is a module of its own, so that what it needs never reaches those who import the
// library.
package main
