package main

import (
	"database/sql"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/examples/internal/demotest"
	"github.com/dltbatch/dltbatch/internal/pgtest"
	"github.com/dltbatch/dltbatch/internal/tier"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// The program ends with the proof and leaves nothing behind.
func TestRun(t *testing.T) {
	tier.Server(t)
	p := demotest.NewBuilt(t, "-install", "-batches", "240", "-lanes", "12", "-workers", "2", "-kills", "2")
	require.NoError(t, p.Run(), &p.Out)
	out := p.Out.String()
	t.Log(out)
	require.Equal(t, 2, strings.Count(out, "kill -9 of worker"))
	require.Contains(t, out, "committed  240 of 240\n")
	require.Contains(t, out, "PROVED: every batch exactly once, all 12 lanes in order, none lost\n")
	require.Contains(t, out, "is back: process ")
	require.Regexp(t, `240 committed; by worker  1: \d+  2: \d+\n`, out)
	p.RequireClean(t)
}

// runAndInterrupt starts the program, lets it kill a worker, and sends it SIGINT, as Ctrl-C does.
func runAndInterrupt(t *testing.T, args ...string) *demotest.Program {
	p := demotest.NewBuilt(t, append(args, "-lanes", "12", "-kills", "20")...)
	require.NoError(t, p.Start())
	require.Eventually(t, func() bool { return strings.Contains(p.Out.String(), "kill -9 of worker") },
		time.Minute, 20*time.Millisecond)
	require.NoError(t, p.Process.Signal(os.Interrupt))
	require.Error(t, p.Wait())
	require.Equal(t, 130, p.ProcessState.ExitCode(), &p.Out)
	require.Contains(t, p.Out.String(), "interrupted")
	p.RequireClean(t)
	return p
}

// Ctrl-C ends the workers and the throwaway server, and removes its files.
func TestInterrupt(t *testing.T) {
	tier.Server(t)
	runAndInterrupt(t, "-install", "-batches", "500")
}

// The program leaves nothing behind in the database that -dsn names, even after Ctrl-C.
func TestInterruptDSN(t *testing.T) {
	tier.Server(t)
	dsn := pgtest.Start(t)
	db, err := sql.Open("postgres", dsn)
	require.NoError(t, err)
	defer db.Close()
	schemas := func() (n int) {
		require.NoError(t, db.QueryRow(`SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'dltbatch_cluster_%'`).Scan(&n))
		return n
	}
	before := schemas()
	p := runAndInterrupt(t, "-batches", "500", "-dsn", dsn)
	require.Contains(t, p.Out.String(), "PostgreSQL  yours")
	require.Equal(t, before, schemas())
}

func TestWrongFlags(t *testing.T) {
	tier.Server(t)
	for _, c := range []config{{batches: 1, lanes: 1}, {batches: 1, workers: 1}, {lanes: 1, workers: 1}, {batches: 1, lanes: 1, workers: 1, kills: -1}} {
		require.Error(t, run(t.Context(), c, t.Output(), false), "%+v", c)
	}
}
