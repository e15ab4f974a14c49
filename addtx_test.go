package dltbatch_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/internal/hooked"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
	"github.com/dltbatch/dltbatch/store/postgres"
	"github.com/dltbatch/dltbatch/store/sqlite"
	"github.com/dltbatch/dltbatch/store/sqlite/sqliteopen"
)

// inTx runs do in its own transaction, and commits it also after an error of do.
func inTx(t *testing.T, db *sql.DB, do func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	err = do(tx)
	require.NoError(t, tx.Commit())
	return err
}

// A corrupt batch is refused before anything of its call is stored.
func TestAddTxStoresNothingThatTheLocalCheckRefuses(t *testing.T) {
	db, err := sqliteopen.Open(filepath.Join(t.TempDir(), "queue.db"))
	require.NoError(t, err)
	defer db.Close()
	st, err := sqlite.New(db, nil)
	require.NoError(t, err)
	require.NoError(t, st.Migrate(t.Context()))
	client, err := sawtooth.New("http://127.0.0.1:1", nil)
	require.NoError(t, err)
	r := newRunner(t, st, client, nil)
	key, err := sawtooth.ParsePrivateKey(secretKey)
	require.NoError(t, err)
	good, err := sawtooth.Build(key, "s", sawtooth.Transaction{FamilyName: "intkey", FamilyVersion: "1.0", Nonce: "1", Payload: []byte("x")})
	require.NoError(t, err)
	corrupt, err := sawtooth.Build(key, "s", sawtooth.Transaction{FamilyName: "intkey", FamilyVersion: "1.0", Nonce: "2", Payload: []byte("y")})
	require.NoError(t, err)
	corrupt.Payload[len(corrupt.Payload)/2] ^= 1

	err = inTx(t, db, func(tx *sql.Tx) error { return r.AddTx(t.Context(), st.Tx(tx), good, corrupt) })
	require.ErrorIs(t, err, batch.ErrInvalidInput)
	stored, _, err := st.List(t.Context(), store.ListQuery{})
	require.NoError(t, err)
	assert.Empty(t, stored)
	require.NoError(t, inTx(t, db, func(tx *sql.Tx) error { return r.AddTx(t.Context(), st.Tx(tx), good) }))
	_, err = r.Get(t.Context(), good.Key())
	require.NoError(t, err)
	require.ErrorIs(t, r.AddTx(t.Context(), st.Tx(nil), good), batch.ErrInvalidInput)
	pg, err := postgres.New(db, nil)
	require.NoError(t, err)
	require.ErrorIs(t, r.AddTx(t.Context(), pg.Tx(nil), good), batch.ErrInvalidInput)
}

// ownTx is a transaction of a kind that only its store knows.
type ownTx struct{ added []batch.Batch }

func (tx *ownTx) Add(_ context.Context, bs ...batch.Batch) error {
	tx.added = append(tx.added, bs...)
	return nil
}

// A transaction of any store gets what Add would store; a missing one is an error.
func TestAddTxOfAnyKind(t *testing.T) {
	corrupt := errors.New("corrupt")
	client := checking{ledgermem.New(nil), func(b batch.Batch) error {
		if b.ID == "corrupt" {
			return corrupt
		}
		return nil
	}}
	r := newRunner(t, memory.New(), client, nil)
	tx := &ownTx{}
	require.ErrorIs(t, r.AddTx(t.Context(), tx, one("s", "a"), one("s", "corrupt")), corrupt)
	require.Empty(t, tx.added)
	require.NoError(t, r.AddTx(t.Context(), tx, one("s", "a"), one("s", "b")))
	assert.Len(t, tx.added, 2)
	require.ErrorIs(t, r.AddTx(t.Context(), nil, one("s", "c")), batch.ErrInvalidInput)
	require.ErrorIs(t, r.AddTx(t.Context(), (*ownTx)(nil), one("s", "c")), batch.ErrInvalidInput)
}

func TestCheckOfALedgerThatHasNone(t *testing.T) {
	r := newRunner(t, memory.New(), ledgermem.New(nil), nil)
	require.NoError(t, r.Check(batch.Batch{}))
	off := hooked.Wrap(checking{ledgermem.New(nil), func(batch.Batch) error { return errors.New("never called") }}, hooked.Hooks{
		Traits: func(batch.ServiceID, func(batch.ServiceID) dlt.Traits) dlt.Traits { return dlt.Traits{Name: "off"} },
	})
	r, err := dltbatch.New(memory.New(), off, nil)
	require.NoError(t, err)
	require.NoError(t, r.Check(one("s", "a")), "what the traits deny is never called")
}
