package main

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/examples/internal/demotest"
	"github.com/dltbatch/dltbatch/internal/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Check(m)) }

// TestRun runs the whole program, in virtual time like the other tests.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		require.NoError(t, run(t.Context(), &out))
		demotest.RequireLines(t, out.String())
		require.Contains(t, out.String(), `GET  s-1: OK {"state":"confirmed"}`)
		require.Contains(t, out.String(), `GET  s-2: OK {"state":"refused"`)
		require.Contains(t, out.String(), `GET  s-3: OK {"state":"confirmed"}`)
		require.Contains(t, out.String(), `log of sea: ["s-1" "s-3"]`)
	})
}
