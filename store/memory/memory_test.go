package memory_test

import (
	"context"
	"testing"

	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
	"github.com/dltbatch/dltbatch/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		tier.MarkSuite(t, "TestStore")
		s := memory.New()
		begin := func(context.Context) (tx store.Tx, commit, rollback func() error, err error) {
			t := s.Begin()
			return s.Tx(t), t.Commit, t.Rollback, nil
		}
		return storetest.Harness{Store: s, StepClock: s.StepClock, Volatile: true, Begin: begin}
	})
}
