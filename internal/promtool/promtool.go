// Package promtool finds promtool, the program that checks and tests Prometheus's rules, for tests, or
// takes it out of Debian's package, which is not installed: no server starts.
package promtool

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/dltbatch/dltbatch/internal/debian"
	"github.com/dltbatch/dltbatch/internal/tier"
)

// Variable is the environment variable that names a promtool to use instead.
const Variable = "PROMTOOL"

// Find finds promtool: as [Variable] says, on the PATH, or where an earlier call has put it. Where it is
// missing, Find takes it out of Debian's package and keeps it in the user's cache.
func Find() (string, error) {
	if name := os.Getenv(Variable); name != "" {
		return exec.LookPath(name)
	}
	if found, err := exec.LookPath("promtool"); err == nil {
		return found, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	bin := filepath.Join(cache, "dltbatch", "promtool")
	if found, err := exec.LookPath(bin); err == nil {
		return found, nil
	}
	if err := debian.Extract("prometheus", "usr/bin/promtool", bin); err != nil {
		return "", fmt.Errorf("promtool is not installed (%s names one): %w", Variable, err)
	}
	return bin, nil
}

// Run runs promtool with these arguments and returns its output. Without promtool the test fails.
func Run(t testing.TB, args ...string) (out string, err error) {
	t.Helper()
	tier.Server(t)
	tier.Plain(t)
	bin, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	text, err := exec.CommandContext(t.Context(), bin, args...).CombinedOutput()
	return string(text), err
}
