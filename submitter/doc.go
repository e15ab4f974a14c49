// Package submitter says what the result of an attempt means
// (docs/glossary.md#batch-submitter-2022).
package submitter
