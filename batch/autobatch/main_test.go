package autobatch_test

import (
	"os"
	"runtime"
	"testing"

	"github.com/dltbatch/dltbatch/internal/leak"
)

// TestMain runs all on one processor: with -race, two that find timers of one synctest
// bubble due at the same time use one context of the race detector (unlockAndRun in the
// runtime's time.go, as of Go 1.26), and it crashes. The simulation starts so many
// Runners that this was seen, once in ten runs.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	os.Exit(leak.Check(m))
}
