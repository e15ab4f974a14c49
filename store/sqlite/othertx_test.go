package sqlite

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store"
)

// AddTx refuses a transaction of another file with the same tables, because no Runner of this
// store would find the batch there. It accepts transactions of the same file, however the file's
// path is written.
func TestATransactionOfAnotherFileIsRefused(t *testing.T) { testOtherFile(t, mattnDriver) }

func testOtherFile(t *testing.T, d testDriver) {
	t.Helper()
	s, _, path := d.fresh(t)
	other, _, otherPath := d.fresh(t)
	link := filepath.Join(t.TempDir(), "link.db")
	require.NoError(t, os.Symlink(path, link))
	add := func(db *sql.DB, id int) error {
		tx, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		err = s.Tx(tx).Add(t.Context(), newBatch("a", id))
		orders := s.AddOrdersTx(t.Context(), tx, order.Order{ID: order.ID(newBatch("a", id).ID), Party: "p", Payload: []byte("x")})
		assert.Equal(t, err == nil, orders == nil, orders)
		require.NoError(t, tx.Commit(), "the transaction goes on")
		return err
	}
	var bad *batch.InputError
	require.ErrorAs(t, add(other.db, 1), &bad)
	assert.Contains(t, bad.Value, otherPath)
	assert.Contains(t, bad.Want, path)
	lanes, err := other.Lanes(t.Context(), store.LanesQuery{Start: true, Limit: 9})
	require.NoError(t, err)
	assert.Empty(t, lanes)
	require.NoError(t, add(s.db, 2))
	require.NoError(t, add(d.open(t, link, &clock{}), 3))
	require.NoError(t, add(d.open(t, filepath.Join(filepath.Dir(path), "x", "..", "q.db"), &clock{}), 4))
}
