package sawtooth_test

import (
	"io"
	"log"
	"os"
	"testing"

	"github.com/dltbatch/dltbatch/internal/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Check(m)) }

// quiet is the log of servers whose errors are expected.
var quiet = log.New(io.Discard, "", 0)
