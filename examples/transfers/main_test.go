package main

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
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/internal/leak"
)

// asProgram is set where this test's binary is to be the program itself, or its worker.
const asProgram = "DLTBATCH_TEST_TRANSFERS"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(leak.Check(m))
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

// program is this program with a folder for its temporary files.
type program struct {
	*exec.Cmd
	temp string
	out  output
}

func newProgram(t *testing.T, args ...string) *program {
	t.Helper()
	p := &program{Cmd: exec.CommandContext(t.Context(), os.Args[0], args...), temp: t.TempDir()}
	p.Env = append(os.Environ(), "TMPDIR="+p.temp, asProgram+"=1")
	p.Stdout, p.Stderr = &p.out, &p.out
	return p
}

var pids = regexp.MustCompile(`process (\d+)`)

// requireClean wants no process and no file to be left of what ran.
func (p *program) requireClean(t *testing.T) {
	t.Helper()
	found := pids.FindAllStringSubmatch(p.out.String(), -1)
	require.NotEmpty(t, found)
	for _, f := range found {
		pid, err := strconv.Atoi(f[1])
		require.NoError(t, err)
		assert.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH, "worker %d is still there", pid)
	}
	left, err := os.ReadDir(p.temp)
	require.NoError(t, err)
	assert.Empty(t, left)
}

// It ends with the proof, after the kill, and leaves nothing behind but what was asked for.
func TestRun(t *testing.T) {
	db := filepath.Join(t.TempDir(), "kept.db")
	p := newProgram(t, "-n", "600", "-parties", "6", "-poison", "200", "-over", "1s", "-takes", "50ms", "-db", db)
	require.NoError(t, p.Run(), &p.out)
	out := p.out.String()
	t.Log(out)
	require.Equal(t, 1, strings.Count(out, "kill -9 of the worker"))
	require.Equal(t, 1, strings.Count(out, "the worker is back"))
	require.Contains(t, out, "THE BOOKS AGREE: 597 good transfers took effect, each exactly once, and none of 3 poisonous ones\n")
	p.requireClean(t)
	require.FileExists(t, db)

	p = newProgram(t, "-db", db)
	require.Error(t, p.Run())
	require.Equal(t, 1, p.ProcessState.ExitCode(), "what fails exits so")
	require.Contains(t, p.out.String(), "does not exist yet")
}

// In memory it is the participant that crashes.
func TestRunMemory(t *testing.T) {
	var out output
	require.NoError(t, run(t.Context(), config{store: memoryStore, transfers: 400, parties: 8, poison: 200, over: time.Second, takes: 50 * time.Millisecond}, &out, true))
	t.Log(strings.ReplaceAll(out.String(), "\r", "\n"))
	require.Contains(t, out.String(), "the participant crashed")
	require.Contains(t, out.String(), "THE BOOKS AGREE: 398 good transfers")
}

// Ctrl-C ends the worker and removes the file.
func TestInterrupt(t *testing.T) {
	p := newProgram(t, "-over", "1m", "-takes", "50ms")
	require.NoError(t, p.Start())
	require.Eventually(t, func() bool { return strings.Contains(p.out.String(), "submissions\n") }, time.Minute, 20*time.Millisecond)
	require.NoError(t, p.Process.Signal(os.Interrupt))
	require.Error(t, p.Wait())
	require.Equal(t, 130, p.ProcessState.ExitCode(), &p.out)
	require.Contains(t, p.out.String(), "interrupted")
	p.requireClean(t)
}

func TestWrongFlags(t *testing.T) {
	good := config{store: memoryStore, transfers: 1, parties: 2, takes: time.Millisecond}
	for name, bend := range map[string]func(*config){
		"no transfers":         func(c *config) { c.transfers = 0 },
		"nobody to pay":        func(c *config) { c.parties = 1 },
		"negative":             func(c *config) { c.poison = -1 },
		"no time at all":       func(c *config) { c.takes = 0 },
		"a store of paper":     func(c *config) { c.store = "paper" },
		"a file of memory":     func(c *config) { c.db = "x.db" },
		"a folder that is not": func(c *config) { c.store, c.db = sqliteStore, t.TempDir()+"/no/such/folder/x.db" },
	} {
		c := good
		bend(&c)
		require.Error(t, run(t.Context(), c, t.Output(), false), name)
	}
}
