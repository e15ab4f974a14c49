package evm_test

import (
	"os"
	"testing"

	"github.com/dltbatch/dltbatch/internal/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }
