package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/examples/internal/demotest"
	"github.com/dltbatch/dltbatch/internal/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Check(m)) }

// TestRun runs the program and reads what it prints.
func TestRun(t *testing.T) {
	var out strings.Builder
	require.NoError(t, run(t.Context(), &out, 12, 3))
	demotest.RequireLines(t, out.String())
	require.Contains(t, out.String(), "store.CanPrune")
	require.Contains(t, out.String(), "in doubt")
	require.Contains(t, out.String(), "12 of 12 batches are committed")
	require.Error(t, run(t.Context(), &out, 0, 3))
}
