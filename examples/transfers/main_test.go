package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

// The program ends with the proof, after the kill, and leaves behind only the file that -db names.
func TestRun(t *testing.T) {
	db := filepath.Join(t.TempDir(), "kept.db")
	p := demotest.New(t, "-n", "600", "-parties", "6", "-poison", "200", "-over", "1s", "-takes", "50ms", "-db", db)
	require.NoError(t, p.Run(), &p.Out)
	out := p.Out.String()
	t.Log(out)
	require.Equal(t, 1, strings.Count(out, "kill -9 of the worker"))
	require.Equal(t, 1, strings.Count(out, "the worker is back"))
	require.Contains(t, out, "THE BOOKS AGREE: 597 good transfers took effect, each exactly once, and none of 3 poisonous ones\n")
	p.RequireClean(t)
	require.FileExists(t, db)

	p = demotest.New(t, "-db", db)
	require.Error(t, p.Run())
	require.Equal(t, 1, p.ProcessState.ExitCode(), "what fails exits so")
	require.Contains(t, p.Out.String(), "does not exist yet")
}

// Ctrl-C ends the worker and removes the file.
func TestInterrupt(t *testing.T) {
	p := demotest.New(t, "-over", "1m", "-takes", "50ms")
	require.NoError(t, p.Start())
	require.Eventually(t, func() bool { return strings.Contains(p.Out.String(), "submissions\n") }, time.Minute, 20*time.Millisecond)
	require.NoError(t, p.Process.Signal(os.Interrupt))
	require.Error(t, p.Wait())
	require.Equal(t, 130, p.ProcessState.ExitCode(), &p.Out)
	require.Contains(t, p.Out.String(), "interrupted")
	p.RequireClean(t)
}

func TestWrongFlags(t *testing.T) {
	good := config{transfers: 1, parties: 2, completionTime: time.Millisecond}
	for name, bend := range map[string]func(*config){
		"no transfers":         func(c *config) { c.transfers = 0 },
		"nobody to pay":        func(c *config) { c.parties = 1 },
		"negative":             func(c *config) { c.poisonInterval = -1 },
		"no time at all":       func(c *config) { c.completionTime = 0 },
		"a folder that is not": func(c *config) { c.db = t.TempDir() + "/no/such/folder/x.db" },
	} {
		c := good
		bend(&c)
		require.Error(t, run(t.Context(), c, t.Output(), false), name)
	}
}
