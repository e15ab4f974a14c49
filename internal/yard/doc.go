// Yard measures dltbatch against two others, in one run, on one machine: against the floor, a
// straight-line program without any library, and against River, a good job queue, on the same
// PostgreSQL and with the same fake ledger. docs/performance.md describes the measurements and has
// the figures; make bench measures them again.
//
// Each figure comes from a process of its own, started from this same program, so that no
// contender inherits another's heap. The processes take turns. The fake ledger is a process, too.
//
// Yard is a module of its own, so that users of the library never get its dependencies.
package main
