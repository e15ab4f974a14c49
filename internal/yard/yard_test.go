package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/internal/pgtest"
)

func TestMain(m *testing.M) {
	if runAsChild() {
		return
	}
	os.Exit(pgtest.Main(m))
}

// Every contender delivers each of its batches once; otherwise it ends with an error.
func TestModes(t *testing.T) {
	t.Setenv(pgtest.Variable, pgtest.Start(t)) // the test measures nothing, so durability does not matter
	var out strings.Builder
	o := options{modes: "all", batches: 3, rounds: 1, runTimeout: 2 * time.Minute, steadyTime: 500 * time.Millisecond, batchesPerSecond: 200}
	require.NoError(t, measure(t.Context(), o, &out), "%s", &out)
	for _, name := range modeNames() {
		require.Contains(t, out.String(), "\n"+name+": ")
	}
}
