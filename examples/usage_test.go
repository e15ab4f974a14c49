// Package examples tests what all programs in the folders below have in common.
package examples

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/examples/internal/demotest"
	"github.com/dltbatch/dltbatch/internal/tier"
)

// With -h a program prints what it shows and how to start it, and exits without an error.
func TestUsage(t *testing.T) {
	tier.Long(t)
	mains, err := filepath.Glob("*/main.go")
	require.NoError(t, err)
	require.NotEmpty(t, mains)
	bin := t.TempDir()
	build := func(dir string) {
		cmd := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-w", "-o", bin+"/", "./...")
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	build(".")
	for _, main := range mains {
		name := filepath.Base(filepath.Dir(main))
		start := `\./examples/` + name
		if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil { // a folder with a module of its own
			build(name)
			start = `-C examples/` + name + ` \.`
		}
		out, err := exec.CommandContext(t.Context(), filepath.Join(bin, name), "-h").CombinedOutput()
		require.NoError(t, err, string(out))
		require.Regexp(t, `^[A-Z][^\n]+\n(?s:.*)\nusage: go run `+start, string(out))
		demotest.RequireLines(t, string(out))
		t.Logf("%s", out)
	}
}
