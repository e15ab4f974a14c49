package main

import (
	"testing"

	"github.com/dltbatch/dltbatch/store/storetest"
)

// TestStore runs the whole suite. It logs the abilities that the store lacks, and skips the tests
// that need them.
func TestStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Harness {
		s := New()
		return storetest.Harness{Store: s, StepClock: s.StepClock, Volatile: true, NoTx: true}
	})
}
