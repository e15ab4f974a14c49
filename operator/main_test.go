package operator_test

import (
	"os"
	"testing"

	"github.com/dltbatch/dltbatch/internal/leak"
)

func TestMain(m *testing.M) {
	if is, code := bulkMain(); is {
		os.Exit(code)
	}
	os.Exit(leak.CheckBubbles(m))
}
