// Package demotest helps to test the examples: it runs them as processes. Only tests import it.
package demotest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/internal/leak"
)

// asProgram is set where a test's binary is to be the program itself, or its worker.
const asProgram = "DLTBATCH_TEST_EXAMPLE"

// Main runs the program where [New] has started this binary, or else the tests of m.
func Main(m *testing.M, program func()) {
	if os.Getenv(asProgram) != "" {
		program()
		return
	}
	os.Exit(leak.Check(m))
}

// Output may be read while it is written.
type Output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

// String returns all that was written.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// Program is a program with a folder for its temporary files.
type Program struct {
	*exec.Cmd
	Out Output

	temp string
}

// New is this test's own binary as the program: [Main] runs that.
func New(t *testing.T, args ...string) *Program {
	t.Helper()
	p := program(t, os.Args[0], t.TempDir(), args...)
	p.Env = append(p.Env, asProgram+"=1")
	return p
}

// Built is this folder's program, built. Other users may look into its folder for temporary files:
// a PostgreSQL server that root has started is another user's.
func Built(t *testing.T, args ...string) *Program {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "program")
	built, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-w", "-o", binary, ".").CombinedOutput()
	require.NoError(t, err, string(built))
	temp, err := os.MkdirTemp("", "example-") //nolint:usetesting // t.TempDir lies in a folder that only its owner may look into
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(temp)) })
	require.NoError(t, os.Chmod(temp, 0o711))
	return program(t, binary, temp, args...)
}

func program(t *testing.T, binary, temp string, args ...string) *Program {
	p := &Program{Cmd: exec.CommandContext(t.Context(), binary, args...), temp: temp}
	p.Env = append(os.Environ(), "TMPDIR="+temp)
	p.Stdout, p.Stderr = &p.Out, &p.Out
	return p
}

// RequireLines wants lines that fit a screen of 100 columns, and no carriage returns, as in a pipe
// or a log.
func RequireLines(t *testing.T, out string) {
	t.Helper()
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		assert.NotContains(t, line, "\r", "the output is no terminal")
		assert.LessOrEqual(t, utf8.RuneCountInString(line), 100, line)
	}
}

var pids = regexp.MustCompile(`(?:pid|process) (\d+)`)

// RequireClean wants lines as [RequireLines] does, and no process that the output names, and no
// file, to be left when the program has ended.
func (p *Program) RequireClean(t *testing.T) {
	t.Helper()
	RequireLines(t, p.Out.String())
	for _, f := range pids.FindAllStringSubmatch(p.Out.String(), -1) {
		pid, err := strconv.Atoi(f[1])
		require.NoError(t, err)
		assert.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH, "worker %d is still there", pid)
	}
	left, err := os.ReadDir(p.temp)
	require.NoError(t, err)
	assert.Empty(t, left)
}
