package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/splinter/splintertest"
	"github.com/dltbatch/dltbatch/internal/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Check(m)) }

// The program ends with its proof, after both restarts.
func TestRun(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var out strings.Builder
	require.NoError(t, run(t.Context(), &out, false, config{store: "sqlite", batches: 30}), &out)
	assert.NotContains(t, out.String(), "\r", "the output is no terminal")
	t.Log(out.String())
	for _, want := range []string{
		"30 signed batches of 3 services are stored", "a node was restarted", "the Runner was stopped", "30 of 30 final",
		"the nodes' journal: all 30 executed once, every service in order",
	} {
		assert.Contains(t, out.String(), want)
	}
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestRunRefuses(t *testing.T) {
	for _, c := range []config{{store: "sqlite"}, {store: "paper", batches: 1}, {store: "sqlite", batches: 1, db: t.TempDir() + "/no/such/folder/queue.db"}} {
		assert.Error(t, run(t.Context(), new(strings.Builder), false, c), "%+v", c)
	}
}

// prove finds a batch that was executed twice, too early, or never.
func TestProve(t *testing.T) {
	network, err := splintertest.Listen(&splintertest.Options{Circuits: circuits, CommitInterval: time.Millisecond})
	require.NoError(t, err)
	defer network.Close()
	key, err := sawtooth.GeneratePrivateKey()
	require.NoError(t, err)
	ledger, err := newClient(network, key, nil)
	require.NoError(t, err)
	defer ledger.CloseIdleConnections()
	batches, err := build(key, 2*len(lanes))
	require.NoError(t, err)
	post := func(b batch.Batch) {
		t.Helper()
		before := len(network.Executions(b.Service))
		require.NoError(t, ledger.Submit(t.Context(), batch.Attempt{Key: b.Key(), Number: 1, Payload: b.Payload}))
		require.Eventually(t, func() bool { return len(network.Executions(b.Service)) > before }, 30*time.Second, time.Millisecond)
	}
	for _, b := range batches[:len(batches)-1] {
		post(b)
	}
	require.ErrorContains(t, prove(network, batches), "never executed")
	post(batches[len(batches)-1])
	require.NoError(t, prove(network, batches))

	swapped := append([]batch.Batch{batches[len(lanes)]}, batches...)
	require.ErrorContains(t, prove(network, append(swapped[:len(lanes)+1:len(lanes)+1], swapped[len(lanes)+2:]...)), "after")
	post(batches[0])
	require.ErrorContains(t, prove(network, batches), "twice")
}
