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
	require.NoError(t, run(t.Context(), &out))
	demotest.RequireLines(t, out.String())
	require.Contains(t, out.String(), `the book of alice: ["a house is sold" "a boat is sold" "a field is let"]`)
	require.Contains(t, out.String(), `the book of bob: ["a debt is paid"]`)
	require.Regexp(t, `bob/deed-2 +invalid +1 invalid: the text says so`, out.String())
	require.Regexp(t, `bob/deed-4 +rejected`, out.String())
}
