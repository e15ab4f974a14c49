package storetest_test

import (
	"os"
	"testing"

	"github.com/dltbatch/dltbatch/internal/leak"
	"github.com/dltbatch/dltbatch/store/memory"
	"github.com/dltbatch/dltbatch/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(leak.CheckBubbles(m)) }

// A store whose clock cannot be moved passes the suite, too. It waits in bubbles: in real time
// these tests take ten minutes one by one, and a busy machine is late for some.
func TestWithoutAClock(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Harness {
		s := memory.New()
		return storetest.Harness{Store: s, NoClock: true, Bubble: true, Volatile: true, Begin: begin(s)}
	})
}
