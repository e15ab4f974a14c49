package memory_test

import (
	"testing"

	"github.com/dltbatch/dltbatch/store/memory"
	"github.com/dltbatch/dltbatch/store/ordertest"
)

func TestOrders(t *testing.T) {
	ordertest.Run(t, func(*testing.T) ordertest.Harness {
		s := memory.New()
		return ordertest.Harness{Store: s, StepClock: s.StepClock, Volatile: true, NoTx: true}
	})
}
