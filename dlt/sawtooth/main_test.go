package sawtooth_test

import (
	"io"
	"log"
	"os"
	"testing"

	"github.com/dltbatch/dltbatch/internal/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Check(m)) }

// discardLog is the log of servers whose errors are expected.
var discardLog = log.New(io.Discard, "", 0)
