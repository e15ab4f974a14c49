package main

import (
	"bytes"
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/internal/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// program is this program, built, with a folder for its temporary files.
type program struct {
	*exec.Cmd
	temp string
	out  output
}

// output may be read while it is written.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

func newProgram(t *testing.T, args ...string) *program {
	binary := filepath.Join(t.TempDir(), "cluster")
	built, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput()
	require.NoError(t, err, string(built))
	temp, err := os.MkdirTemp("", "cluster-test-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(temp)) })
	require.NoError(t, os.Chmod(temp, 0o711)) // the server is another user's
	p := &program{Cmd: exec.CommandContext(t.Context(), binary, args...), temp: temp}
	p.Env = append(os.Environ(), "TMPDIR="+temp)
	p.Stdout, p.Stderr = &p.out, &p.out
	return p
}

var pids = regexp.MustCompile(`(?:pid|process) (\d+)`)

// requireClean wants no process and no file to be left of what ran.
func (p *program) requireClean(t *testing.T) {
	found := pids.FindAllStringSubmatch(p.out.String(), -1)
	require.NotEmpty(t, found)
	for _, f := range found {
		pid, err := strconv.Atoi(f[1])
		require.NoError(t, err)
		assert.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH, "worker %d is still there", pid)
	}
	left, err := os.ReadDir(p.temp)
	require.NoError(t, err)
	require.Empty(t, left)
}

// It ends with the proof and leaves nothing behind.
func TestRun(t *testing.T) {
	p := newProgram(t, "-install", "-batches", "240", "-lanes", "12", "-workers", "2", "-kills", "2")
	require.NoError(t, p.Run(), &p.out)
	out := p.out.String()
	t.Log(out)
	require.Equal(t, 2, strings.Count(out, "kill -9 of worker"))
	require.Contains(t, out, "committed  240 of 240\n")
	require.Contains(t, out, "PROVED: every batch exactly once, all 12 lanes in order, none lost\n")
	p.requireClean(t)
}

// interrupt starts it, lets it kill a worker, and sends it what Ctrl-C sends.
func interrupt(t *testing.T, args ...string) *program {
	p := newProgram(t, append(args, "-lanes", "12", "-kills", "20")...)
	require.NoError(t, p.Start())
	require.Eventually(t, func() bool { return strings.Contains(p.out.String(), "kill -9 of worker") },
		time.Minute, 20*time.Millisecond)
	require.NoError(t, p.Process.Signal(os.Interrupt))
	require.Error(t, p.Wait())
	require.Equal(t, 130, p.ProcessState.ExitCode(), &p.out)
	require.Contains(t, p.out.String(), "interrupted")
	p.requireClean(t)
	return p
}

// Ctrl-C ends the workers and the throwaway server, and removes its files.
func TestInterrupt(t *testing.T) { interrupt(t, "-install", "-batches", "500") }

// In somebody's own database nothing is left, even after Ctrl-C.
func TestInterruptDSN(t *testing.T) {
	dsn := pgtest.Start(t)
	db, err := sql.Open("postgres", dsn)
	require.NoError(t, err)
	defer db.Close()
	schemas := func() (n int) {
		require.NoError(t, db.QueryRow(`SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'dltbatch_cluster_%'`).Scan(&n))
		return n
	}
	before := schemas()
	p := interrupt(t, "-batches", "500", "-dsn", dsn)
	require.Contains(t, p.out.String(), "PostgreSQL  yours")
	require.Equal(t, before, schemas())
}

func TestWrongFlags(t *testing.T) {
	for _, c := range []config{{batches: 1, lanes: 1}, {batches: 1, workers: 1}, {lanes: 1, workers: 1}, {batches: 1, lanes: 1, workers: 1, kills: -1}} {
		require.Error(t, run(t.Context(), c, t.Output(), false), "%+v", c)
	}
}
