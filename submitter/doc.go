// Package submitter sends claimed batches (spec/003). One goroutine takes the
// runs, a bounded pool of hands posts them, and what became of each attempt is
// handed on to be recorded.
package submitter
