package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/pgtest"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres"
	"github.com/dltbatch/dltbatch/store/postgres/native"
)

// commandRunner runs the command dltbatch for a schema.
type commandRunner struct {
	*testing.T
	program, dsn, schema string
}

func newTerminal(t *testing.T, s *testSpace) commandRunner {
	return commandRunner{t, buildCommand(t), s.dsn, s.schema}
}

// buildCommand builds the command, and returns its path.
func buildCommand(t *testing.T) string {
	program := filepath.Join(t.TempDir(), "dltbatch")
	build := exec.Command("go", "build", "-C", filepath.Join("..", ".."), "-ldflags=-w", "-o", program, "./cmd/dltbatch")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}

// runCommand runs the command and requires this exit code.
func (c commandRunner) runCommand(code int, args ...string) (out, errs string) {
	c.Helper()
	out, errs, have := c.output(args...)
	require.Equal(c, code, have, "%v: %s%s", args, out, errs)
	return out, errs
}

// output runs the command, and returns its exit code.
func (c commandRunner) output(args ...string) (out, errs string, code int) {
	c.Helper()
	var outText, errText bytes.Buffer
	cmd := exec.CommandContext(c.Context(), c.program, append(args, "--schema", c.schema)...)
	cmd.Env = append(os.Environ(), "DLTBATCH_DSN="+c.dsn)
	cmd.Stdout, cmd.Stderr = &outText, &errText
	err := cmd.Run()
	if exit, is := errors.AsType[*exec.ExitError](err); is {
		code = exit.ExitCode()
	} else {
		require.NoError(c, err)
	}
	assert.NotContains(c, outText.String()+errText.String(), c.dsn)
	return outText.String(), errText.String(), code
}

// badFindings returns the bad findings of doctor.
func (c commandRunner) badFindings() map[string]string {
	c.Helper()
	out, _ := c.runCommand(6, "doctor", "--json")
	var d struct {
		Findings []struct {
			Check, Found string
			OK           bool
		}
	}
	require.NoError(c, json.Unmarshal([]byte(out), &d))
	found := map[string]string{}
	for _, f := range d.Findings {
		if !f.OK {
			found[f.Check] = f.Found
		}
	}
	return found
}

// With one of the shards on a server that is down, the command shows and changes the others.
func TestCommandOverShards(t *testing.T) {
	t.Parallel()
	const n = 3
	dsn := pgtest.Start(t)
	pool := shardPool(t, dsn)
	c := commandRunner{t, buildCommand(t), dsn + "\n" + dsn + "\npostgres://127.0.0.1:1/none", "down"}
	var lanes []string
	for i := range n - 1 {
		schema := shardSchema(t, pool, fmt.Sprint("c", i))
		st, err := native.New(pool, &postgres.Options{Schema: schema, Shard: store.Shard{Set: "test", Number: i, Of: n}})
		require.NoError(t, err)
		require.NoError(t, st.Migrate(t.Context()))
		require.NoError(t, st.Add(t.Context(), newBatch(string(laneOf(i, n)), fmt.Sprint("batch ", i))))
		lanes = append(lanes, "--schema="+schema)
	}
	const down = "dltbatch: shard 2: the database was not reached"
	for _, args := range [][]string{{"list"}, {"search", "batch"}, {"causes"}, {"status", "--refresh"}} {
		out, errs := c.runCommand(1, append(args, lanes...)...)
		assert.True(t, strings.HasPrefix(errs, down), errs)
		if args[0] == "list" || args[0] == "search" {
			assert.Contains(t, out, "batch 0", args)
			assert.Contains(t, out, "batch 1", args)
		}
	}
	out, _ := c.runCommand(6, append([]string{"doctor"}, lanes...)...)
	assert.Contains(t, out, "shards 0 and 1")
	_, errs := c.runCommand(1, append([]string{"cancel", "batch 1", "--yes", "--reason=r", "--actor=ada"}, lanes...)...)
	assert.Contains(t, errs, "--service")
	c.runCommand(0, append([]string{"cancel", "batch 1", "--service=" + string(laneOf(1, n)), "--yes", "--reason=r", "--actor=ada"}, lanes...)...)
	_, errs = c.runCommand(2, append([]string{"list"}, lanes[1], lanes[0])...)
	assert.Contains(t, errs, "in the order of their numbers")
}

// The command creates a schema, shows the batches in it that do not move, and acts.
func TestCommand(t *testing.T) {
	s := newSpace(t, nativePool)
	c := newTerminal(t, s)
	c.runCommand(7, "migrate", "status")
	c.runCommand(7, "list")
	assert.Contains(t, c.badFindings(), "schema")
	c.runCommand(0, "migrate", "up")
	c.runCommand(0, "migrate", "status")

	st, err := postgres.New(s.admin, &postgres.Options{Schema: s.schema})
	require.NoError(t, err)
	require.NoError(t, st.Add(t.Context(), batch.Batch{Service: "s", ID: "b1", Payload: []byte("x")}))
	c.runCommand(0, "pause", "s", "--reason", "ticket 9", "--actor", "ada")
	out, _ := c.runCommand(0, "causes")
	assert.Contains(t, out, "was paused by ada (ticket 9)")
	out, _ = c.runCommand(0, "status", "--refresh")
	assert.Contains(t, out, "1 in 1 lane")
	c.runCommand(4, "cancel", "b1", "--reason", "r")
	c.runCommand(0, "cancel", "b1", "--reason", "r", "--yes")
	c.runCommand(0, "resume", "s", "--reason", "r")
	out, _ = c.runCommand(0, "show", "b1")
	assert.Contains(t, out, "rejected, final")
	c.runCommand(0, "prune", "--older-than", "1h", "--yes")

	found := c.badFindings()
	assert.Equal(t, "No instance runs.", found["no_instance"])
	assert.NotContains(t, found, "schema")
	assert.NotContains(t, found, "clock")
	assert.NotContains(t, found, "held snapshot")
	assert.NotContains(t, found, "pooler")

	// The schema's clock is an hour ahead, so an open transaction appears to be an hour old. The
	// extra half minute keeps the text the same however exactly the clock is read.
	tx, err := s.admin.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = tx.Exec(`SELECT pg_current_xact_id()`)
	require.NoError(t, err)
	s.exec(`UPDATE ` + s.schema + `.clock SET ahead = '1 hour 30 seconds'`)
	found = c.badFindings()
	assert.Contains(t, found["clock"], "1h0m")
	assert.Contains(t, found["held snapshot"], "1h")
	require.NoError(t, tx.Rollback())

	// doctor finds all faults even if one of them is a setting with which the store refuses to
	// work.
	u, err := url.Parse(c.dsn)
	require.NoError(t, err)
	asynchronous := *u
	q := asynchronous.Query()
	q.Set("synchronous_commit", "off")
	asynchronous.RawQuery = q.Encode()
	careless := c
	careless.dsn = asynchronous.String()
	found = careless.badFindings()
	assert.Contains(t, found["synchronous_commit"], "off")
	assert.Contains(t, found["instances"], "cannot be looked at")
	assert.Contains(t, found["clock"], "1h0m")

	require.NoError(t, err)
	u.User, u.Path = url.UserPassword("nobody", "hunter2-Zq"), "/missing"
	c.dsn = u.String()
	_, errs := c.runCommand(1, "status")
	assert.NotContains(t, errs, "hunter2-Zq")
}

// doctor recognizes PgBouncer, and says which parameters the data source name needs.
func TestCommandThroughPgBouncer(t *testing.T) {
	s := newSpace(t, pooledBouncer)
	c := newTerminal(t, s)
	c.runCommand(0, "migrate", "up")
	assert.NotContains(t, c.badFindings(), "pooler")
	c.dsn = withParams(s.baseDSN, "default_query_exec_mode=describe_exec")
	assert.Contains(t, c.badFindings()["pooler"], "describe exec")
}
