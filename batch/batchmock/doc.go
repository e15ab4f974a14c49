// Package batchmock holds a generated mock of the observer, for tests that
// prescribe which events are told.
package batchmock

import "github.com/dltbatch/dltbatch/batch"

var _ batch.Observer = (*MockObserver)(nil)
