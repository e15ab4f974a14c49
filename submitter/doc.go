// Package submitter sends claimed batches (docs/glossary.md#batch-submitter-2022). One
// goroutine takes the runs, a bounded pool of hands posts them, and the outcome of each
// attempt is handed on to be recorded.
package submitter
