package memory_test

import (
	"testing"

	"github.com/dltbatch/dltbatch/batch/autobatch/ordertest"
	"github.com/dltbatch/dltbatch/store/memory"
)

func TestOrders(t *testing.T) {
	ordertest.Run(t, func(*testing.T) ordertest.Harness {
		s := memory.New()
		return ordertest.Harness{Store: s, StepClock: s.StepClock, Volatile: true, NoTx: true}
	})
}
