package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// The store finds a batch by a hash of its id. If two ids have the same hash, it does not confuse
// them, and refuses the second at once, whether the first is stored or was removed. No two such
// ids are known, so the test writes the hash into the database.
func TestHashOfAnotherID(t *testing.T) {
	t.Parallel()
	for _, d := range []driver{nativePool, libpq} {
		t.Run(d.name, func(t *testing.T) {
			s := newSpace(t, d)
			st := s.app()
			stored, other := newBatch("s", "stored"), newBatch("s", "other")
			other.Payload = stored.Payload // so that only their ids differ
			refused := func() {
				for i := range 3 { // for the first call the batch is new
					err := st.Add(t.Context(), newBatch("s", fmt.Sprint("new", i)), other)
					require.ErrorIs(t, err, batch.ErrConflict)
					assert.ErrorContains(t, err, "batch "+other.Key().String()+": its id has the hash of batch "+string(stored.ID))
				}
				tx := st.mustBegin(t)
				require.ErrorIs(t, st.addTx(t.Context(), tx, other, newBatch("s", "new")), batch.ErrConflict)
				require.NoError(t, tx.commit())
			}
			require.NoError(t, st.Add(t.Context(), stored))
			_, err := st.Cancel(t.Context(), batch.Record{Key: stored.Key(), Version: 1}, batch.By{Actor: "test"})
			require.NoError(t, err)
			hash := sqlstore.IDHash(other.ID)
			s.exec(fmt.Sprintf(`UPDATE %s.batches SET id_hash = '%x'`, s.schema, hash))
			refused()
			all, _, err := st.List(t.Context(), store.ListQuery{})
			require.NoError(t, err)
			assert.Len(t, all, 1, "nothing of such a call is stored")

			_, err = st.Get(t.Context(), other.Key())
			require.ErrorIs(t, err, batch.ErrNotFound)
			_, err = st.Look(t.Context(), other.Key(), 1)
			require.ErrorIs(t, err, batch.ErrNotFound)
			final, missing, err := st.Finals(t.Context(), []batch.Key{other.Key()})
			require.NoError(t, err)
			assert.Empty(t, final)
			assert.Equal(t, []batch.Key{other.Key()}, missing)
			payloads, err := st.Payloads(t.Context(), []store.Ref{{Key: other.Key()}})
			require.NoError(t, err)
			assert.Equal(t, [][]byte{nil}, payloads)
			_, err = st.Cancel(t.Context(), batch.Record{Key: other.Key(), Version: 1}, batch.By{Actor: "test"})
			require.ErrorIs(t, err, batch.ErrNotFound)

			s.stepClock(time.Second)
			p, err := st.Prune(t.Context(), store.PruneQuery{Tombstone: func(batch.ServiceID, string) bool { return true }})
			require.NoError(t, err)
			require.Equal(t, 1, p.Batches)
			refused()
			all, _, err = st.List(t.Context(), store.ListQuery{})
			require.NoError(t, err)
			assert.Empty(t, all)
			s.exec(`DELETE FROM ` + s.schema + `.tombstones`)
			require.NoError(t, st.Add(t.Context(), other), "nothing else was in its way")
		})
	}
}
