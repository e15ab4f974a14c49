package memory_test

import (
	"testing"

	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/store/memory"
	"github.com/dltbatch/dltbatch/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		tier.Suite(t, "TestStore")
		s := memory.New()
		return storetest.Harness{Store: s, StepClock: s.StepClock, Volatile: true, NoTx: true, AddLate: s.AddLate}
	})
}
