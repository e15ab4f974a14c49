package promtool

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/internal/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Check(m)) }

// The variable comes first, and what it names has to be there.
func TestVariable(t *testing.T) {
	t.Setenv(Variable, "/nowhere/promtool")
	_, err := Find()
	require.ErrorIs(t, err, os.ErrNotExist)
	t.Setenv(Variable, os.Args[0])
	found, err := Find()
	require.NoError(t, err)
	require.Equal(t, os.Args[0], found)
}

// What is found is promtool, and it says what is wrong.
func TestRun(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(rules, []byte("groups: [{name: g, rules: [{alert: A, expr: 'up == 0'}]}]"), 0o600))
	out, err := Run(t, "check", "rules", rules)
	require.NoError(t, err, out)
	require.NoError(t, os.WriteFile(rules, []byte("groups: [{name: g, rules: [{alert: A, expr: 'up = 0'}]}]"), 0o600))
	out, err = Run(t, "check", "rules", rules)
	require.Error(t, err)
	require.Contains(t, out, "parse error")
}
