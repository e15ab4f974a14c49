package integration

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/pgtest"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres"
)

// AddTx refuses a transaction in another database that has the same tables, from the first call of
// a process on: that database would store the batch, and no Runner of the store would find it. The
// transaction can continue without the batch.
func TestATransactionInAnotherDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	for _, d := range []driver{nativePool, libpq} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			s := newSpace(t, d)
			s.app()
			name := s.schema + "_other"
			s.exec(`CREATE DATABASE ` + name)
			t.Cleanup(func() { s.exec(`DROP DATABASE ` + name + ` WITH (FORCE)`) })
			other := openApp(t, d, withParams(dsnOfDatabase(t, pgtest.Start(t), name), s.driver.params), &postgres.Options{Schema: s.schema})
			require.NoError(t, other.Migrate(t.Context()))
			st := s.open(&postgres.Options{Schema: s.schema, NotifyInTx: true})
			for range 2 {
				tx := other.mustBegin(t)
				var bad *batch.InputError
				require.ErrorAs(t, st.addTx(t.Context(), tx, newBatch("s", "astray")), &bad)
				assert.Contains(t, bad.Value, name)
				require.ErrorAs(t, st.addOrdersTx(t.Context(), tx, anOrder("p", "astray")), &bad)
				require.NoError(t, other.addTx(t.Context(), tx, newBatch("s", "its own")), "the transaction goes on")
				require.NoError(t, tx.commit())
			}
			_, err := other.Get(t.Context(), newBatch("s", "astray").Key())
			require.ErrorIs(t, err, batch.ErrNotFound)
			tx := st.mustBegin(t)
			require.NoError(t, st.addTx(t.Context(), tx, newBatch("s", "here")))
			require.NoError(t, tx.commit())
			_, err = st.Get(t.Context(), newBatch("s", "here").Key())
			require.NoError(t, err)
		})
	}
}

// AddTx works, and hardly waits, in a process whose transactions hold all connections.
func TestAddTxWhereNoConnectionIsLeft(t *testing.T) {
	t.Parallel()
	s := newSpace(t, libpq)
	s.app()
	for _, most := range []int{1, 2} {
		st := s.open(nil)
		st.db.SetMaxOpenConns(most)
		var open []*appTx
		for range most {
			open = append(open, st.mustBegin(t))
		}
		for i := range 3 {
			require.NoError(t, st.addTx(t.Context(), open[0], newBatch("s", 10*most+i)))
		}
		for _, tx := range open {
			require.NoError(t, tx.commit())
		}
	}
	st := s.open(nil)
	lanes, err := st.Lanes(t.Context(), store.LanesQuery{Start: true, Limit: 9})
	require.NoError(t, err)
	assert.Equal(t, []batch.ServiceID{"s"}, lanes)
	_, err = st.Get(t.Context(), newBatch("s", 22).Key())
	require.NoError(t, err)
}

// The rights that package postgres documents suffice for a role that only adds, also if AddTx is
// the first call of a process. In a schema that was never used such a role cannot add.
func TestARoleThatOnlyAdds(t *testing.T) {
	t.Parallel()
	s := newSpace(t, libpq)
	st := s.app()
	role := s.schema + "_adds"
	s.exec(`CREATE ROLE ` + role + ` LOGIN`)
	t.Cleanup(func() { s.exec(`DROP ROLE ` + role) })
	t.Cleanup(func() { s.exec(`DROP OWNED BY ` + role) })
	in := func(names ...string) string { return s.schema + "." + strings.Join(names, ", "+s.schema+".") }
	for _, grant := range []string{
		`USAGE ON SCHEMA ` + s.schema,
		`SELECT ON ` + in(postgres.MigrationsTable, "texts", "batches", "services", "orders", "tombstones", "clock"),
		`INSERT ON ` + in("batches", "waiting_batches", "transactions", "batch_tags"),
		`UPDATE ON ` + in("batches", "waiting_batches"),
		`USAGE ON SEQUENCE ` + in("batch_seq"),
	} {
		s.exec(`GRANT ` + grant + ` TO ` + role)
	}
	u, err := url.Parse(s.dsn)
	require.NoError(t, err)
	u.User = url.User(role)
	addTx := func(b batch.Batch) error {
		adder := openApp(t, s.driver, u.String(), &postgres.Options{Schema: s.schema})
		tx := adder.mustBegin(t)
		err := adder.addTx(t.Context(), tx, b)
		require.NoError(t, tx.commit())
		return err
	}
	b := newBatch("s", "theirs")
	b.Tags = map[string]string{"order": "1"}
	b.Transactions = []batch.Transaction{{ID: "t"}}
	require.ErrorContains(t, addTx(b), "texts", "nobody has added before")
	require.NoError(t, st.Add(t.Context(), newBatch("s", "first")))
	require.NoError(t, addTx(b))
	require.NoError(t, addTx(b), "again")
	_, err = st.Get(t.Context(), b.Key())
	require.NoError(t, err)
}
