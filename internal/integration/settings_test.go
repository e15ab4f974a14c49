package integration

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"testing"
	"time"

	driverpgx "github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres"
	"github.com/dltbatch/dltbatch/store/postgres/native"
)

// settingSession is a store whose connections have a setting that a role or a database may have.
type settingSession struct {
	batchAndOrderStore
	addTx func(b batch.Batch) error // adds in a transaction of the application
}

// openAsRole opens a store on connections of a role.
func (s *testSpace) openAsRole(role string) settingSession {
	s.t.Helper()
	u, err := url.Parse(s.dsn)
	require.NoError(s.t, err)
	u.User = url.User(role)
	o := &postgres.Options{Schema: s.schema}
	if s.driver.isPool {
		p, err := pgxpool.New(s.t.Context(), u.String())
		require.NoError(s.t, err)
		s.t.Cleanup(p.Close)
		st, err := native.New(p, o)
		require.NoError(s.t, err)
		return settingSession{st, func(b batch.Batch) error {
			tx, err := p.BeginTx(s.t.Context(), driverpgx.TxOptions{IsoLevel: driverpgx.ReadCommitted})
			if err != nil {
				return err
			}
			return errors.Join(st.Tx(tx).Add(s.t.Context(), b), tx.Commit(s.t.Context()))
		}}
	}
	db, err := sql.Open(s.driver.sqlName, u.String())
	require.NoError(s.t, err)
	s.t.Cleanup(func() { require.NoError(s.t, db.Close()) })
	st, err := postgres.New(db, o)
	require.NoError(s.t, err)
	return settingSession{st, func(b batch.Batch) error {
		tx, err := db.BeginTx(s.t.Context(), &sql.TxOptions{Isolation: sql.LevelReadCommitted})
		if err != nil {
			return err
		}
		return errors.Join(st.Tx(tx).Add(s.t.Context(), b), tx.Commit())
	}}
}

// oddBatch returns a batch with texts and bytes that a wrong setting would change.
func oddBatch(service, id string) batch.Batch {
	payload := make([]byte, 256)
	for i := range payload {
		payload[i] = byte(i)
	}
	return batch.Batch{
		Service: batch.ServiceID(service), ID: batch.ID(id), DataChangeID: `change \x41 '` + id, Payload: payload,
		Transactions: []batch.Transaction{{ID: id + "-1", FamilyName: "Übertrag €", FamilyVersion: "1"}},
	}
}

// addAndDeliver adds a batch, delivers it, and adds it again.
func (c settingSession) addAndDeliver(t *testing.T, b batch.Batch) error {
	t.Helper()
	if err := c.Add(t.Context(), b); err != nil {
		return err
	}
	got, err := c.Claim(t.Context(), store.ClaimQuery{Lanes: []batch.ServiceID{b.Service}, Limit: 9, Window: 9, TTL: time.Minute}, pickFront)
	if err != nil {
		return err
	}
	if len(got.Runs) != 1 || len(got.Runs[0].Batches) != 1 {
		return fmt.Errorf("claimed %+v", got)
	}
	claimed := got.Runs[0].Batches[0]
	payloads, err := c.Payloads(t.Context(), []store.Ref{claimed.Ref})
	if err != nil {
		return err
	}
	if claimed.Key != b.Key() || string(payloads[0]) != string(b.Payload) {
		return fmt.Errorf("claimed %q with %q", claimed.Key, payloads[0])
	}
	done, err := c.Record(t.Context(), []store.Outcome{{
		Ref: claimed.Ref, Version: claimed.Version, Was: claimed.Was, By: batch.BySubmitter, Finding: store.IsCommitted,
		Receipts: []batch.Receipt{{TransactionID: b.Transactions[0].ID, Valid: true, Message: "größer", Data: b.Payload}},
	}})
	if err != nil {
		return err
	}
	if done[0].Result != store.Written {
		return fmt.Errorf("recorded %+v", done[0])
	}
	return c.Add(t.Context(), b)
}

// Whatever settings a role, a database or a data source name has, a store either refuses the
// setting by its name, or stores what it was given, so that another process with the usual
// settings reads the same.
func TestSettingsChangeNothing(t *testing.T) {
	t.Parallel()
	const refused = true
	for _, d := range []driver{nativePool, libpq} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			s := newSpace(t, d)
			s.store()
			usual := s.open(&postgres.Options{Schema: s.schema})
			role := "role_" + s.schema
			s.exec(`CREATE ROLE ` + role + ` SUPERUSER LOGIN`)
			t.Cleanup(func() { s.exec(`DROP ROLE ` + role) })
			for i, c := range []struct {
				name, value string
				own, tx     bool // true if refused for the store, or for an application's transaction
			}{
				{"client_encoding", "LATIN1", false, d.sqlName == pgx.sqlName}, // lib/pq always sets UTF8
				{"client_encoding", "SQL_ASCII", false, d.sqlName == pgx.sqlName},
				{"client_encoding", "EUC_JP", false, d.sqlName == pgx.sqlName},
				{"standard_conforming_strings", "off", refused, refused},
				{"bytea_output", "escape", false, refused},
				{"session_replication_role", "replica", refused, refused},
				{"session_replication_role", "local", false, false},
				{"synchronous_commit", "off", refused, refused},
				{"synchronous_commit", "local", false, false}, // there are no synchronous standbys
				{"synchronous_commit", "remote_apply", false, false},
				{"DateStyle", "German, DMY", false, false},
				{"IntervalStyle", "sql_standard", false, false},
				{"TimeZone", "Asia/Kathmandu", false, false},
				{"extra_float_digits", "-15", false, false},
				{"default_transaction_isolation", "serializable", false, false},
				{"default_transaction_deferrable", "on", false, false},
				{"row_security", "off", false, false},
				{"array_nulls", "off", false, false},
				{"transform_null_equals", "on", false, false},
				{"backslash_quote", "off", false, false},
				{"quote_all_identifiers", "on", false, false},
				{"plan_cache_mode", "force_generic_plan", false, false},
				{"enable_indexscan", "off", false, false},
				{"default_tablespace", "pg_default", false, false},
				{"exit_on_error", "off", false, false},
				{"lock_timeout", "1500", false, false},
				{"jit_above_cost", "0", false, false},
				{"max_parallel_workers_per_gather", "0", false, false},
			} {
				name := c.name + " = " + c.value
				s.exec(fmt.Sprintf(`ALTER ROLE %s SET %s = '%s'`, role, c.name, c.value))
				st := s.openAsRole(role)
				service := fmt.Sprintf("Zürich-東京-€-%d", i)
				b := oddBatch(service, fmt.Sprintf("ïd-%d", i))
				check := func(err error, refuses bool, b batch.Batch, state batch.State) {
					t.Helper()
					var setting *postgres.SettingError
					if refuses {
						require.ErrorAs(t, err, &setting, name)
						assert.Equal(t, c.name, setting.Setting)
						assert.NotEmpty(t, setting.Do)
						return
					}
					require.NoError(t, err, name)
					rec, err := usual.Get(t.Context(), b.Key())
					require.NoError(t, err, name)
					assert.Equal(t, state, rec.State, name)
					again := b
					require.NoError(t, usual.Add(t.Context(), again), "%s: with the same bytes", name)
				}
				check(st.addAndDeliver(t, b), c.own, b, batch.Committed)
				other := oddBatch(service, fmt.Sprintf("ïd-tx-%d", i))
				check(st.addTx(other), c.tx, other, batch.Queued)
				s.exec(fmt.Sprintf(`ALTER ROLE %s RESET %s`, role, c.name))
			}
		})
	}
}
