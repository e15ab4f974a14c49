package main

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// It serves at the address it prints, until its standard input is closed.
func TestProcess(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "nodeproc")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput()
	require.NoError(t, err, string(out))

	cmd := exec.CommandContext(t.Context(), binary, "-block", "10ms", "-skip-verify")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	url := strings.TrimSpace(line)

	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/status", nil)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusOK, res.StatusCode)

	require.NoError(t, stdin.Close())
	require.NoError(t, cmd.Wait())
}

// Either ledger serves, and prints its journal at the end.
func TestLedgers(t *testing.T) {
	for _, name := range []string{"sawtooth", "splinter"} {
		var out strings.Builder
		require.NoError(t, run([]string{"-ledger", name, "-journal"}, strings.NewReader(""), &out, io.Discard))
		require.Regexp(t, `^http://127\.0\.0\.1:\d+\n$`, out.String(), "nothing has happened")
	}
}

func TestWrongFlags(t *testing.T) {
	require.Error(t, run([]string{"-ledger", "nonsense"}, strings.NewReader(""), io.Discard, io.Discard))
	require.Error(t, run([]string{"-nonsense"}, strings.NewReader(""), io.Discard, io.Discard))
	require.Error(t, run([]string{"-block", "-1s"}, strings.NewReader(""), io.Discard, io.Discard))
}
