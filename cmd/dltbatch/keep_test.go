package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
	"github.com/dltbatch/dltbatch/store/sqlite/sqliteopen"
)

func TestOrdersAndExport(t *testing.T) {
	inStores(t, func(s *testCommand) {
		s.add("s", "b1", "b2")
		s.add("other", "b3")
		keeper := s.st.(order.Store)
		require.NoError(s, keeper.AddOrders(s.Context(), order.Order{ID: "o1", Party: "p", Payload: []byte("x")}, order.Order{ID: "o2", Party: "q", Payload: []byte("x")}))
		list := runJSON[ordersAnswer](s, "orders", "--party", "p", "--state", "queued")
		require.Len(s, list.Orders, 1)
		assert.Equal(s, order.ID("o1"), list.Orders[0].ID)
		assert.Regexp(s, `(?m)^q +o2 +queued`, s.runOK("orders"))
		require.NoError(s, keeper.AddOrders(s.Context(), order.Order{ID: "o3", Party: "r", Key: "invoice 4711", Payload: []byte("x")}))
		assert.Regexp(s, `(?m)^q +o2 +- +queued.*\nr +o3 +invoice 4711 +queued`, s.runOK("orders"))
		assert.Empty(s, runJSON[ordersAnswer](s, "orders", "--batch", "b1").Orders)

		lines := strings.Split(strings.TrimSpace(s.runOK("export", "--service", "s")), "\n")
		require.Len(s, lines, 2)
		var rec batch.Record
		require.NoError(s, json.Unmarshal([]byte(lines[0]), &rec))
		assert.Equal(s, s.readRecord("b1"), rec)
		assert.Equal(s, 3, strings.Count(s.runOK("export"), "\n"))
		assert.Equal(s, 3, strings.Count(s.runOK("export", "--orders"), "\n"))
		assert.Empty(s, s.runOK("export", "--state", "committed"))
	})
}

func TestPrune(t *testing.T) {
	inStores(t, func(s *testCommand) {
		s.add("s", "b1")
		s.endAttempt("s", store.Refused)
		s.runFailing(exitUsage, "prune", "--yes")
		s.runFailing(exitRefused, "prune", "--older-than", "720h")
		assert.Zero(s, runJSON[pruneAnswer](s, "prune", "--older-than", "720h", "--yes").Batches)
		s.readRecord("b1")
	})
}

// prune keeps the ids of batches, because the command does not know whether a second submission
// would do harm.
func TestPruneKeepsIDs(t *testing.T) {
	type steps interface{ StepClock(d time.Duration) }
	s := &testCommand{T: t, st: memory.New()}
	s.add("s", "b1")
	s.endAttempt("s", store.Refused)
	s.st.(steps).StepClock(2 * time.Hour)
	assert.Equal(t, 1, runJSON[pruneAnswer](s, "prune", "--older-than", "1h", "--yes").Batches)
	shows := func() {
		got := runJSON[showAnswer](s, "show", "b1")
		assert.Equal(t, batch.Rejected, got.Batch.State)
		assert.False(t, got.Batch.PrunedAt.IsZero())
		assert.Empty(t, got.Attempts)
		assert.Empty(t, got.History)
		text := s.runOK("show", "--service", "s", "b1")
		assert.Regexp(t, `(?m)^removed .* by retention`, text)
		assert.Regexp(t, `(?m)^error +bad nonce`, text)
	}
	shows()
	for _, of := range [][]string{{"explain", "b1"}, {"history", "b1"}, {"requeue", "b1", "--reason", "r"}} {
		assert.Regexp(t, `retention removed batch s/b1 at .*, after it had ended as rejected`, s.runFailing(exitNotFound, of...))
	}
	b := batch.Batch{Service: "s", ID: "b1", Payload: []byte("payload of b1")}
	require.ErrorIs(t, s.st.Add(t.Context(), b), batch.ErrEnded, "how it ended is kept")
	shows()
}

func TestMigrate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "queue.db")
	s := &testCommand{T: t, dsn: "sqlite:" + path}
	s.runFailing(exitFailed, "migrate", "status")
	require.NoFileExists(t, path, "no read makes a file")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	got := s.runWithInput("", "migrate", "status")
	assert.Equal(t, exitSchema, got.code)
	assert.Contains(t, got.out, "at version 0")
	assert.Contains(t, s.runFailing(exitSchema, "list"), "are the DSN and --schema those of the application? Where they are, dltbatch migrate status")
	have := runJSON[schemaAnswer](s, "migrate", "up")
	assert.True(t, have.Current)
	assert.Equal(t, have.Want, have.Have)
	assert.Equal(t, have, runJSON[schemaAnswer](s, "migrate", "status"))
	assert.Empty(t, runJSON[batchesAnswer](s, "list").Batches)

	assert.Contains(t, s.runOK("migrate", "sql"), "-- 00001_tables.sql\n")
	// The schema is of a version from before the first release.
	path = filepath.Join(t.TempDir(), "old.db")
	db, err := sqliteopen.Open(path)
	require.NoError(t, err)
	_, err = db.Exec(`CREATE TABLE dltbatch_migrations AS SELECT 7 AS version_id`)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	s.dsn = path
	for _, command := range [][]string{{"migrate", "up"}, {"migrate", "status"}, {"list"}} {
		text := s.runFailing(exitSchema, command...)
		assert.Contains(t, text, "make a new one: it has the table dltbatch_migrations, at version 7")
		assert.NotContains(t, text, "migrate up")
	}
	assert.Contains(t, s.badFindings()["schema"].Do, "make a new database")
	s.dsn = "postgres://nobody@127.0.0.1:1/x"
	assert.Contains(t, s.runOK("migrate", "sql", "--schema", "mine", "--prefix", "q_"), `"mine"."q_batches"`)
	s.dsn = ""
	s.st = memory.New()
	s.runFailing(exitUsage, "migrate", "sql")
	s.runFailing(exitFailed, "migrate", "up")
}
