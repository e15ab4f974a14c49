package storetest_test

import (
	"testing"

	"github.com/dltbatch/dltbatch/store/memory"
	"github.com/dltbatch/dltbatch/store/storetest"
)

// The whole suite in one test. The harness declares what this store lacks: nothing survives the
// process, and there are no transactions of the application.
func ExampleRun() { //nolint:testableexamples // it wants a test
	var t *testing.T // of func TestStore(t *testing.T)
	storetest.Run(t, func(*testing.T) storetest.Harness {
		st := memory.New() // yours: new, empty, of one test alone
		return storetest.Harness{Store: st, StepClock: st.StepClock, Volatile: true, NoTx: true, AddLate: st.AddLate}
	})
}
