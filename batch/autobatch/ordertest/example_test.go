package ordertest_test

import (
	"testing"

	"github.com/dltbatch/dltbatch/batch/autobatch/ordertest"
	"github.com/dltbatch/dltbatch/store/memory"
)

// The whole suite in one test. The harness declares what this store lacks: nothing is kept after
// the process ends, and there are no transactions of the application.
func ExampleRun() { //nolint:testableexamples // it wants a test
	var t *testing.T // of func TestOrders(t *testing.T)
	ordertest.Run(t, func(*testing.T) ordertest.Harness {
		st := memory.New() // yours: new, empty, of one test alone
		return ordertest.Harness{Store: st, StepClock: st.StepClock, Volatile: true, NoTx: true}
	})
}
