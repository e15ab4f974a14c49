package integration

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/store/postgres"
)

// A schema with tables that Citus distributes is refused at the first call, and another schema
// beside it is not. A table with the name of Citus' own stands for the extension.
func TestADistributedSchemaIsRefused(t *testing.T) {
	tier.Plain(t)
	t.Parallel()
	s := newSpace(t, pgx)
	plain, _ := s.store()
	require.NoError(t, plain.Add(t.Context(), newBatch("s", "first")))
	s.exec(`CREATE SCHEMA ` + s.schema + `_citus`)
	t.Cleanup(func() { s.exec(`DROP SCHEMA ` + s.schema + `_citus CASCADE`) })
	s.exec(`CREATE TABLE ` + s.schema + `_citus.pg_dist_partition (logicalrelid regclass, partmethod "char")`)
	dsn, err := url.Parse(s.baseDSN)
	require.NoError(t, err)
	q := dsn.Query()
	q.Set("search_path", s.schema+"_citus")
	dsn.RawQuery = q.Encode()
	open := func() *postgres.Store {
		st, err := postgres.New(openDSN(t, pgx, dsn.String()), &postgres.Options{Schema: s.schema})
		require.NoError(t, err)
		return st
	}
	s.exec(`INSERT INTO ` + s.schema + `_citus.pg_dist_partition VALUES ('pg_class', 'n')`)
	require.NoError(t, open().Add(t.Context(), newBatch("s", "beside it")))
	s.exec(`INSERT INTO ` + s.schema + `_citus.pg_dist_partition VALUES ('` + s.schema + `.batches', 'n')`)
	err = open().Add(t.Context(), newBatch("s", "second"))
	require.ErrorIs(t, err, postgres.ErrDistributed)
	assert.ErrorContains(t, err, "the table "+s.schema+".batches")
}
