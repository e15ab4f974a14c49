package storetest_test

import (
	"context"
	"testing"

	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
	"github.com/dltbatch/dltbatch/store/storetest"
)

// The whole suite in one test. The harness declares what this store lacks: nothing survives the
// process.
func ExampleRun() { //nolint:testableexamples // it wants a test
	var t *testing.T // of func TestStore(t *testing.T)
	storetest.Run(t, func(*testing.T) storetest.Harness {
		st := memory.New() // yours: new, empty, of one test alone
		begin := func(context.Context) (tx store.Tx, commit, rollback func() error, err error) {
			t := st.Begin() // as an application begins a transaction
			return st.Tx(t), t.Commit, t.Rollback, nil
		}
		return storetest.Harness{Store: st, StepClock: st.StepClock, Volatile: true, Begin: begin}
	})
}
