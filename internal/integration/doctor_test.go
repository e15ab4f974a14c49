package integration

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/pgtest"
	"github.com/dltbatch/dltbatch/internal/relied"
	"github.com/dltbatch/dltbatch/internal/texts"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres"
)

// doctorFinding is a finding of doctor.
type doctorFinding struct{ Check, Found, Do string }

// findings returns the bad findings of doctor.
func (c commandRunner) findings() (all []doctorFinding) {
	c.Helper()
	out, errs, code := c.output("doctor", "--json")
	var d struct {
		Findings []struct {
			doctorFinding
			OK bool
		}
	}
	require.NoError(c, json.Unmarshal([]byte(out), &d), errs)
	for _, f := range d.Findings {
		if !f.OK {
			all = append(all, f.doctorFinding)
		}
	}
	require.Equal(c, map[bool]int{true: 0, false: 6}[len(all) == 0], code)
	return all
}

// findingsOf returns the findings of one check.
func findingsOf(check string, all []doctorFinding) []doctorFinding {
	return slices.DeleteFunc(all, func(f doctorFinding) bool { return f.Check != check })
}

// varyingTexts lists the parts of findings that differ between runs, each with the text that the
// documentation has instead.
var varyingTexts = []struct {
	pattern     *regexp.Regexp
	replacement string
}{
	{regexp.MustCompile(`measured to \S+`), "measured to 1ms"},
	{regexp.MustCompile(`are (1m|59\.9)\S+ apart`), "are 1m0s apart"},
	{regexp.MustCompile(`process \d+`), "process 4711"},
	{regexp.MustCompile(`open for 1h\S*`), "open for 1h"},
	{regexp.MustCompile(`this program knows \d+`), "this program knows N"},
}

// doctor says what is wrong with each of these set-ups, and what to do. The documentation quotes
// this (docs/operations.md#what-doctor-says).
func TestDoctorOnBrokenSetUps(t *testing.T) {
	cluster := pgtest.NewCluster(t)
	dsn := cluster.DSN("")
	db, err := sql.Open("pgx", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	exec := func(statements ...string) {
		t.Helper()
		for _, s := range statements {
			_, err := db.ExecContext(t.Context(), s)
			require.NoError(t, err, s)
		}
	}
	st, err := postgres.New(db, &postgres.Options{Schema: "doctor"})
	require.NoError(t, err)
	c := newTerminal(t, &testSpace{dsn: dsn, schema: "doctor"})
	with := func(params string) commandRunner {
		other := c
		other.dsn += map[bool]string{true: "&", false: "?"}[strings.Contains(dsn, "?")] + params
		return other
	}
	var table strings.Builder
	table.WriteString("| set-up | check | `dltbatch doctor` says | and what to do |\n|---|---|---|---|\n")
	says := func(setUp string, all []doctorFinding, checks ...string) {
		t.Helper()
		var named []string
		for _, f := range all {
			named = append(named, f.Check)
			text := f.Found
			for _, v := range varyingTexts {
				text = v.pattern.ReplaceAllString(text, v.replacement)
			}
			fmt.Fprintf(&table, "| %s | %s | %s | %s |\n", setUp, f.Check, text, f.Do)
		}
		assert.Equal(t, checks, named, setUp)
	}
	says("the schema was never migrated", c.findings(), "schema")
	exec(`CREATE SCHEMA doctor`, `CREATE TABLE doctor.dltbatch_migrations (version_id bigint)`, `INSERT INTO doctor.dltbatch_migrations VALUES (8)`)
	says("a version from before the first release made the database", c.findings(), "schema")
	exec(`DROP SCHEMA doctor CASCADE`)

	require.NoError(t, st.Migrate(t.Context()))
	require.NoError(t, new(texts.Presence).Show(t.Context(), st, store.Instance{ID: "1", Name: "host-7", Version: "v0.1.0", Ledger: "ledger"}))
	recordSettings(t, &testApp{Store: st}, "s")
	require.NoError(t, st.Add(t.Context(), batch.Batch{Service: "s", ID: "b1", Payload: []byte("x")}))
	require.Empty(t, c.findings(), "nothing is wrong")

	says("`synchronous_commit` is off for this role", with("synchronous_commit=off").findings(),
		"synchronous_commit", "incidents", "instances", "settings")

	says("`synchronous_commit` is local for this role", with("synchronous_commit=local").findings(), "synchronous_commit")
	says("`synchronous_commit` is remote_write for this role", with("synchronous_commit=remote_write").findings(), "synchronous_commit")
	t.Run("standby", func(t *testing.T) { // the standby ends with the subtest
		cluster.Standby(t, "")
		require.Eventually(t, func() bool { return len(c.findings()) > 0 }, time.Minute, 10*time.Millisecond)
		says("a standby follows, and no commit waits for it", c.findings(), "synchronous_standby_names")
	})
	require.Eventually(t, func() bool { return len(c.findings()) == 0 }, time.Minute, 10*time.Millisecond)

	exec(`ALTER SYSTEM SET autovacuum = off`, `SELECT pg_reload_conf()`)
	require.Eventually(t, func() bool { return len(c.findings()) > 0 }, time.Minute, 10*time.Millisecond)
	says("autovacuum is off", c.findings(), "autovacuum")
	exec(`ALTER SYSTEM RESET autovacuum`, `SELECT pg_reload_conf()`)
	require.Eventually(t, func() bool { return len(c.findings()) == 0 }, time.Minute, 10*time.Millisecond)

	says("an old client's encoding is the role's default", with("client_encoding=LATIN1").findings(), "client_encoding")
	says("a provider has made the database read-only", with("default_transaction_read_only=on").findings(), "default_transaction_read_only")

	exec(`CREATE SCHEMA minute`, `CREATE FUNCTION minute.clock_timestamp() RETURNS timestamptz LANGUAGE sql
		AS 'SELECT pg_catalog.clock_timestamp() + interval ''1 minute'''`)
	// The instance wrote its row with a correct clock, so by the schema's clock it seems to have
	// gone.
	says("a clock is a minute off", findingsOf("clock", with("search_path=minute,pg_catalog").findings()), "clock")

	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = tx.ExecContext(t.Context(), `SELECT pg_current_xact_id()`)
	require.NoError(t, err)
	exec(`CREATE SCHEMA hour`, `CREATE FUNCTION hour.clock_timestamp() RETURNS timestamptz LANGUAGE sql
		AS 'SELECT pg_catalog.clock_timestamp() + interval ''1 hour'''`)
	// The clock is an hour ahead so that the transaction is an hour old, which gives a second
	// finding.
	says("a transaction was forgotten", findingsOf("held snapshot", with("search_path=hour,pg_catalog").findings()), "held snapshot")
	require.NoError(t, tx.Rollback())

	require.NoError(t, new(texts.Presence).Show(t.Context(), st, store.Instance{ID: "2", Name: "host-8", Version: "v0.2.0", Ledger: "ledger"}))
	of := func(quiet time.Duration) relied.Settings {
		return relied.SettingsOf("s", dlt.Traits{Name: "ledger", ResendQuiet: quiet}, time.Minute, queuer.Serial())
	}
	text, err := relied.Record{Settings: of(0)}.Replace(of(time.Hour)).Text()
	require.NoError(t, err)
	_, err = texts.Put(t.Context(), st, store.Text{Kind: store.TextTraits, Name: "ledger", Body: text})
	require.NoError(t, err)
	says("instances differ", c.findings(), "versions", "settings of instances")

	s := newSpace(t, pooledBouncer)
	bounced := c
	bounced.dsn, bounced.schema = s.baseDSN+map[bool]string{true: "&", false: "?"}[strings.Contains(s.baseDSN, "?")]+"default_query_exec_mode=cache_statement", "none"
	// PgBouncer leads to another server, which runs without fsync.
	says("PgBouncer in transaction mode, and prepared statements", findingsOf("pooler", bounced.findings()), "pooler")

	docs, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))
	require.NoError(t, err)
	if !strings.Contains(string(docs), table.String()) {
		assert.Fail(t, "docs/operations.md has another table below the heading What doctor says", "%s", &table)
	}
}
