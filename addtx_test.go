package dltbatch_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/internal/hooked"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
	"github.com/dltbatch/dltbatch/store/postgres"
	"github.com/dltbatch/dltbatch/store/sqlite"
	"github.com/dltbatch/dltbatch/store/sqlite/sqliteopen"
)

// inTx runs do in a transaction of its own, and commits it even after an error of do.
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

// The commit of a transaction of the memory store stores all that was added in the transaction.
func TestAddTxInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		corrupt := errors.New("corrupt")
		ledger := ledgermem.New(nil)
		client := checkingLedger{ledger, func(b batch.Batch) error {
			if b.ID == "corrupt" {
				return corrupt
			}
			return nil
		}}
		st := memory.New()
		r := newRunner(t, st, client, nil)
		tx := st.Begin()
		require.ErrorIs(t, r.AddTx(t.Context(), st.Tx(tx), newBatch("s", "a"), newBatch("s", "corrupt")), corrupt)
		require.NoError(t, r.AddTx(t.Context(), st.Tx(tx), newBatch("s", "b"), newBatch("s", "c")))
		_, err := r.Get(t.Context(), newBatch("s", "b").Key())
		require.ErrorIs(t, err, batch.ErrNotFound, "before the commit")
		require.NoError(t, tx.Commit())
		require.Error(t, tx.Rollback(), "it has ended")
		require.ErrorContains(t, r.AddTx(t.Context(), st.Tx(tx), newBatch("s", "d")), "ended already")
		r.Wake("s")
		stop := startRun(t, r)
		waitIdle(t, r)
		require.NoError(t, stop())
		assert.Equal(t, []batch.ID{"b", "c"}, ledger.Log("s"))
	})
}

// An application adds batches in its transaction and calls no Wake. The batches need not wait for
// the end of the Runner's Rest: one second after AddTx a Runner looks at the lane, whether the
// Runner is in this process or in another one.
func TestAddTxWithoutWake(t *testing.T) {
	for _, by := range []string{"this process", "another process"} {
		t.Run(by, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, ledger := memory.New(), ledgermem.New(nil)
				delivers := newStartedRunner(t, st, ledger, nil)
				adds := delivers
				if by == "another process" {
					tier.Hints(t)
					adds = newRunner(t, st, ledger, nil)
				}
				time.Sleep(time.Hour)
				tx := st.Begin()
				require.NoError(t, adds.AddTx(t.Context(), st.Tx(tx), newBatch("s", "b")))
				time.Sleep(100 * time.Millisecond)
				require.NoError(t, tx.Commit())
				begun := time.Now()
				awaitFinal(t, delivers, newBatch("s", "b"))
				assert.Less(t, time.Since(begun), 1100*time.Millisecond)
			})
		})
	}
}

// AddTx refuses the transaction of another store, because no Runner would look there for the
// batch. The error says what to do, and nothing is added.
func TestAddTxOfAnotherStore(t *testing.T) {
	ours, theirs := memory.New(), memory.New()
	db, err := sql.Open("sqlite3", ":memory:")
	require.NoError(t, err)
	defer db.Close()
	db.SetMaxOpenConns(1)
	lite, err := sqlite.New(db, nil)
	require.NoError(t, err)
	tx := theirs.Begin()
	for name, other := range map[string]store.Tx{
		"of another kind": lite.Tx(new(sql.Tx)), "of the same kind": theirs.Tx(tx), "none": nil, "none of its kind": (*foreignTx)(nil), "of no store": &foreignTx{}, "a store": ours,
	} {
		for kind, st := range map[string]store.Store{"store": ours, "wrapped": struct{ store.Store }{ours}, "without a Tx": struct{ bareStore }{bareStore{Delivery: ours}}} {
			r := newRunner(t, st, ledgermem.New(nil), nil)
			err := r.AddTx(t.Context(), other, newBatch("s", "a"))
			require.ErrorIs(t, err, batch.ErrInvalidInput, "%s, %s", name, kind)
			require.ErrorContains(t, err, "st.Tx(tx)")
			require.ErrorContains(t, err, "pgx.Tx")
		}
	}
	require.NoError(t, tx.Commit())
	stored, _, err := theirs.List(t.Context(), store.ListQuery{})
	require.NoError(t, err)
	assert.Empty(t, stored)

	mine := ours.Begin()
	r := newRunner(t, struct{ store.Store }{ours}, ledgermem.New(nil), nil)
	require.NoError(t, r.AddTx(t.Context(), ours.Tx(mine), newBatch("s", "a")), "a wrapped store knows the Tx of the store inside")
	require.ErrorIs(t, r.AddTx(t.Context(), ours.Tx(nil), newBatch("s", "b")), batch.ErrInvalidInput)
	require.ErrorIs(t, r.AddTx(t.Context(), ours.Tx(theirs.Begin()), newBatch("s", "b")), batch.ErrInvalidInput)
}

// foreignTx is a Tx that no store made.
type foreignTx struct{}

func (*foreignTx) Add(context.Context, ...batch.Batch) error { panic("added") }

func TestCheckOfALedgerThatHasNone(t *testing.T) {
	r := newRunner(t, memory.New(), ledgermem.New(nil), nil)
	require.NoError(t, r.Check(batch.Batch{}))
	off := hooked.Wrap(checkingLedger{ledgermem.New(nil), func(batch.Batch) error { return errors.New("never called") }}, hooked.Hooks{
		Traits: func(batch.ServiceID, func(batch.ServiceID) dlt.Traits) dlt.Traits { return dlt.Traits{Name: "off"} },
	})
	r, err := dltbatch.New(memory.New(), off, nil)
	require.NoError(t, err)
	require.NoError(t, r.Check(newBatch("s", "a")), "what the traits deny is never called")
}
