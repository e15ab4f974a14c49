package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/leak"
	"github.com/dltbatch/dltbatch/internal/relied"
	"github.com/dltbatch/dltbatch/internal/texts"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
	"github.com/dltbatch/dltbatch/store/sqlite"
	"github.com/dltbatch/dltbatch/store/sqlite/sqliteopen"
)

func TestMain(m *testing.M) { os.Exit(leak.Check(m)) }

// testCommand is a test with a store upon which it runs the command.
type testCommand struct {
	*testing.T
	st  store.Store
	dsn string // "" means that the store is in this process

	shards    []store.Store // stores of this process that replace st; nil if there are no shards
	downShard int           // number of the shard that cannot be reached; 0 if all can

	width int // columns of the terminal; 0 if there is none
}

// inStores runs a test on the memory store, and on a SQLite file that the command opens itself.
func inStores(t *testing.T, run func(s *testCommand)) {
	t.Run("memory", func(t *testing.T) { run(&testCommand{T: t, st: memory.New()}) })
	t.Run("sqlite", func(t *testing.T) { run(newFile(t)) })
}

func newFile(t *testing.T) *testCommand {
	path := filepath.Join(t.TempDir(), "queue.db")
	db, err := sqliteopen.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	st, err := sqlite.New(db, nil)
	require.NoError(t, err)
	require.NoError(t, st.Migrate(t.Context()))
	return &testCommand{T: t, st: st, dsn: path}
}

// commandOutput is the exit code of a command, and what it printed.
type commandOutput struct {
	code     int
	out, err string
}

// runWithInput runs the command with this input.
func (s *testCommand) runWithInput(input string, args ...string) commandOutput {
	s.Helper()
	var out, errs bytes.Buffer
	a := newApp()
	a.stdin, a.stdout, a.stderr, a.hasColour, a.width = strings.NewReader(input), &out, &errs, false, s.width
	a.getenv = func(name string) string {
		require.Equal(s, "DLTBATCH_DSN", name)
		return s.dsn
	}
	a.userName = func() (string, error) { return "ada", nil }
	if s.dsn == "" {
		a.openDatabase = s.open
	}
	code := a.run(s.Context(), args)
	return commandOutput{code, out.String(), errs.String()}
}

// open opens a store of this process. The schema of a target is the number of a shard.
func (s *testCommand) open(_ context.Context, t target) (*database, error) {
	if s.shards == nil {
		return newDatabase(s.st, func() {})
	}
	i, err := strconv.Atoi(t.schema)
	require.NoError(s, err)
	db, err := newDatabase(s.shards[i], func() {})
	require.NoError(s, err)
	db.shard = func(context.Context) (store.Shard, error) {
		if s.downShard > 0 && i == s.downShard {
			return store.Shard{}, errors.New("connection refused")
		}
		return store.Shard{Set: "pay", Number: i, Of: len(s.shards)}, nil
	}
	return db, nil
}

// runOK runs the command, requires success, and returns its output.
func (s *testCommand) runOK(args ...string) string {
	s.Helper()
	got := s.runWithInput("", args...)
	require.Equal(s, exitDone, got.code, "%v: %s", args, got.err)
	require.Empty(s, got.err)
	return got.out
}

// runFailing runs the command, requires this exit code, and returns its error output.
func (s *testCommand) runFailing(code int, args ...string) string {
	s.Helper()
	got := s.runWithInput("", args...)
	require.Equal(s, code, got.code, "%v: %s%s", args, got.out, got.err)
	return got.err
}

// runJSON runs the command with --json and decodes its output.
func runJSON[T any](s *testCommand, args ...string) (v T) {
	s.Helper()
	d := json.NewDecoder(strings.NewReader(s.runOK(append(args, "--json")...)))
	d.DisallowUnknownFields()
	require.NoError(s, d.Decode(&v))
	return v
}

func (s *testCommand) add(service batch.ServiceID, ids ...batch.ID) {
	s.Helper()
	for _, id := range ids {
		require.NoError(s, s.st.Add(s.Context(), batch.Batch{Service: service, ID: id, Payload: []byte("payload of " + id)}))
	}
}

func (s *testCommand) readRecord(id batch.ID) batch.Record {
	s.Helper()
	recs, _, err := s.st.Find(s.Context(), store.FindQuery{ID: id})
	require.NoError(s, err)
	require.Len(s, recs, 1)
	return recs[0]
}

// recordServing writes the record that a Runner serves the services.
func (s *testCommand) recordServing(services ...batch.ServiceID) {
	s.Helper()
	traits := dlt.Traits{Name: "ledger", ResendHarmlessFor: dlt.Forever}
	for _, service := range services {
		_, err := texts.Serve(s.Context(), s.st, []texts.Served{{Service: service, Ledger: "ledger"}})
		require.NoError(s, err)
	}
	text, err := relied.Record{Settings: relied.SettingsOf(services[0], traits, time.Minute, queuer.Serial())}.Text()
	require.NoError(s, err)
	_, err = texts.Put(s.Context(), s.st, store.Text{Kind: store.TextTraits, Name: "ledger", Body: text})
	require.NoError(s, err)
}

// endAttempt makes the attempt of the first batch of a lane end with a finding.
func (s *testCommand) endAttempt(service batch.ServiceID, f store.Finding) {
	s.Helper()
	q := store.ClaimQuery{Lanes: []batch.ServiceID{service}, Limit: 1, Window: 1, TTL: time.Minute, Instance: "one"}
	claimed, err := s.st.Claim(s.Context(), q, queuer.Choose(queuer.Serial(), nil, func(_ batch.ServiceID, err error) { require.NoError(s, err) }))
	require.NoError(s, err)
	require.Len(s, claimed.Runs, 1)
	c := claimed.Runs[0].Batches[0]
	applied, err := s.st.Record(s.Context(), []store.Outcome{{
		Ref: c.Ref, Version: c.Version, By: batch.BySubmitter, Finding: f, Attempt: c.Attempt, Back: c.From, Check: time.Second, Delay: time.Hour,
		Error: &batch.SubmissionError{Kind: batch.KindRejected, Message: "bad\nnonce"},
	}})
	require.NoError(s, err)
	require.Equal(s, store.Written, applied[0].Result)
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// An unknown subcommand is a usage error. It must not succeed like a request for help, because a
// script would continue.
func TestWrongCommandsAreWrongUse(t *testing.T) {
	s := &testCommand{T: t, st: memory.New()}
	for _, args := range [][]string{{"migrate", "upp"}, {"migrate"}, {"bulk", "prevew", "cancel"}, {"bulk"}, {"statsu"}} {
		require.Contains(t, s.runFailing(exitUsage, args...), "dltbatch --help", args)
		require.Contains(t, s.runFailing(exitUsage, append(args, "--json")...), `"code": 2`, args)
	}
	require.Contains(t, s.runOK("bulk", "--help"), "preview")
}

// Ctrl-C ends the command also while it waits for a confirmation.
func TestConfirmationEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		in, w := io.Pipe()
		var errs bytes.Buffer
		a := newApp()
		a.stdin, a.stderr = in, &errs
		c := &consent{app: a}
		require.ErrorIs(t, c.confirm(ctx, "cancel", "Really?", func(*page) {}), errUnconfirmed)
		require.Contains(t, errs.String(), "Type cancel")
		require.NoError(t, w.Close()) // the terminal closes when the process ends
	})
}
