// Package demotest helps to test the examples by running them as processes. Only tests import it.
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

// programVariable is the environment variable that makes a test's binary run as the program
// itself, or as its worker.
const programVariable = "DLTBATCH_TEST_EXAMPLE"

// Main runs the program if [New] has started this binary, and otherwise the tests of m.
func Main(m *testing.M, program func()) {
	if os.Getenv(programVariable) != "" {
		program()
		return
	}
	os.Exit(leak.Check(m))
}

// Output is a buffer that may be read while it is written.
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

	tempFolder string
}

// New returns this test's own binary as a program, which [Main] then runs.
func New(t *testing.T, args ...string) *Program {
	t.Helper()
	p := newProgram(t, os.Args[0], t.TempDir(), args...)
	p.Env = append(p.Env, programVariable+"=1")
	return p
}

// NewBuilt builds the program of this folder. Other users may read its folder for temporary files,
// because a PostgreSQL server that root starts runs as another user.
func NewBuilt(t *testing.T, args ...string) *Program {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "program")
	built, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-w", "-o", binary, ".").CombinedOutput()
	require.NoError(t, err, string(built))
	temp, err := os.MkdirTemp("", "example-") //nolint:usetesting // only its owner may read the parent of t.TempDir
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(temp)) })
	require.NoError(t, os.Chmod(temp, 0o711))
	return newProgram(t, binary, temp, args...)
}

func newProgram(t *testing.T, binary, temp string, args ...string) *Program {
	p := &Program{Cmd: exec.CommandContext(t.Context(), binary, args...), tempFolder: temp}
	p.Env = append(os.Environ(), "TMPDIR="+temp)
	p.Stdout, p.Stderr = &p.Out, &p.Out
	return p
}

// RequireLines requires lines of at most 100 columns without carriage returns, as is right for a
// pipe or a log.
func RequireLines(t *testing.T, out string) {
	t.Helper()
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		assert.NotContains(t, line, "\r", "the output is no terminal")
		assert.LessOrEqual(t, utf8.RuneCountInString(line), 100, line)
	}
}

var pidPattern = regexp.MustCompile(`(?:pid|process) (\d+)`)

// RequireClean requires lines as [RequireLines] does, and that after the program's end no process
// that the output names is left, and no file.
func (p *Program) RequireClean(t *testing.T) {
	t.Helper()
	RequireLines(t, p.Out.String())
	for _, f := range pidPattern.FindAllStringSubmatch(p.Out.String(), -1) {
		pid, err := strconv.Atoi(f[1])
		require.NoError(t, err)
		assert.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH, "worker %d is still there", pid)
	}
	left, err := os.ReadDir(p.tempFolder)
	require.NoError(t, err)
	assert.Empty(t, left)
}
