package main

import (
	"testing"

	"github.com/dltbatch/dltbatch/store/storetest"
)

// TestStore is the whole suite. It logs the abilities that are absent, and does not run what
// needs them.
func TestStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Harness {
		s := New()
		return storetest.Harness{Store: s, StepClock: s.StepClock, Volatile: true, NoTx: true}
	})
}
