package storetest_test

import (
	"context"
	"testing"

	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
	"github.com/dltbatch/dltbatch/store/storetest"
)

// The whole suite is one test. The harness declares what this store lacks: nothing outlasts the
// process.
func ExampleRun() { //nolint:testableexamples // it needs a *testing.T
	var t *testing.T // the argument of func TestStore(t *testing.T)
	storetest.Run(t, func(*testing.T) storetest.Harness {
		st := memory.New() // your own store, new and empty, for one test
		begin := func(context.Context) (tx store.Tx, commit, rollback func() error, err error) {
			t := st.Begin() // as an application begins a transaction
			return st.Tx(t), t.Commit, t.Rollback, nil
		}
		return storetest.Harness{Store: st, StepClock: st.StepClock, Volatile: true, Begin: begin}
	})
}
