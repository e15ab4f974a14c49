package integration

import (
	"database/sql"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/store/postgres"
)

// No error shows the password of a data source name, whatever is wrong with the name.
func TestDSNsAreNotShown(t *testing.T) {
	for _, d := range []driver{pgx, libpq} {
		for _, dsn := range []string{
			"postgres://ada:Hx4-secret@127.0.0.1:54x/db", "postgres://ada:Hx4%zz-secret@127.0.0.1:1/db", "postgres://ada:Hx4/secret@127.0.0.1:1/db",
			"postgres://ada:Hx4-secret@127.0.0.1:1/db?sslmode=disable", "postgres://127.0.0.1:1/db?password=Hx4-secret&sslmode=never",
			"host=127.0.0.1 port=x password=Hx4-secret", "host=127.0.0.1 password='Hx4-secret", "host=127.0.0.1 port=1 password=Hx4-secret sslmode=never",
		} {
			db, err := sql.Open(d.sqlName, dsn)
			require.NoError(t, err)
			st, err := postgres.New(db, nil)
			require.NoError(t, err)
			for _, err := range []error{st.Migrate(t.Context()), st.Add(t.Context(), newBatch("a", 1))} {
				require.Error(t, err)
				for ; err != nil; err = errors.Unwrap(err) {
					assert.NotContains(t, err.Error(), "Hx4", "%s: %s", d.name, dsn)
				}
			}
			require.NoError(t, db.Close())
		}
	}
}
