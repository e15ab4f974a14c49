package hints_test

import (
	"os"
	"testing"

	"github.com/dltbatch/dltbatch/internal/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.CheckBubbles(m)) }
