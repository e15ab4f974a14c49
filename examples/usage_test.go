// Package examples tests what all programs in the folders below have in common.
package examples

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// -h says what a program shows and how to start it, and is no error.
func TestUsage(t *testing.T) {
	mains, err := filepath.Glob("*/main.go")
	require.NoError(t, err)
	require.NotEmpty(t, mains)
	bin := t.TempDir()
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin+"/", "./...").CombinedOutput()
	require.NoError(t, err, string(out))
	for _, main := range mains {
		name := filepath.Base(filepath.Dir(main))
		out, err := exec.CommandContext(t.Context(), filepath.Join(bin, name), "-h").CombinedOutput()
		require.NoError(t, err, string(out))
		require.Regexp(t, `^[A-Z][^\n]+\n(?s:.*)\nusage: go run \./examples/`+name+`\b`, string(out))
		t.Logf("%s", out)
	}
}
