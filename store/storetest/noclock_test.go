package storetest_test

import (
	"os"
	"testing"

	"github.com/dltbatch/dltbatch/internal/leak"
	"github.com/dltbatch/dltbatch/store/memory"
	"github.com/dltbatch/dltbatch/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(leak.CheckBubbles(m)) }

// A store whose clock cannot be moved passes the suite, too. The tests wait in bubbles of
// synctest: in real time they would take ten minutes one after the other, and some would fail on a
// busy machine.
func TestWithoutAClock(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Harness {
		s := memory.New()
		return storetest.Harness{Store: s, NoClock: true, Bubble: true, Volatile: true, Begin: beginTx(s)}
	})
}
