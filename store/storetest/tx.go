package storetest

import (
	"context"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func txTests() []test {
	none := func(h Harness) bool { return h.NoTx }
	return []test{
		{name: "a committed one stores and a rolled back one does not", run: testTxEnds, isInapplicable: none},
		{name: "an error leaves nothing, and the transaction goes on", run: testTxError, isInapplicable: none},
		{name: "the store knows its own", run: testTxOwn, isInapplicable: none},
		{name: "a store knows no other's", run: testTxForeign},
		{name: "an open one holds up other writers", run: testTxHoldsUp, isInapplicable: func(h Harness) bool { return !h.OneWriter }},
	}
}

// begin begins a transaction of the application, which the end of the test rolls back.
func (f *fixture) begin() (tx store.Tx, commit, rollback func() error) {
	f.Helper()
	tx, commit, rollback, err := f.harness.Begin(f.ctx)
	require.NoError(f, err, "Harness.Begin")
	f.Cleanup(func() { _ = rollback() }) // the transaction may have ended
	return tx, commit, rollback
}

// addTx adds batches in a transaction of its own.
func (f *fixture) addTx(bs ...batch.Batch) (commit, rollback func() error) {
	f.Helper()
	tx, commit, rollback := f.begin()
	require.NoError(f, tx.Add(f.ctx, bs...), "Add of a Tx")
	return commit, rollback
}

func testTxEnds(f *fixture) {
	commit, _ := f.addTx(newBatch("s", "a"), newBatch("s", "b"))
	now := f.now()
	require.NoError(f, commit())
	f.addToModel(now, newBatch("s", "a"), newBatch("s", "b"))
	_, rollback := f.addTx(newBatch("s", "c"))
	require.NoError(f, rollback())
	f.requireAbsent(newBatch("s", "c"))
	assert.Equal(f, []batch.ID{"a", "b"}, laneIDs(f.viewLane("s", 9)))
	f.add(newBatch("s", "c"))
}

// testTxError: a call that returns an error has no effect. An Add before it and an Add after it
// are stored with the commit.
func testTxError(f *fixture) {
	f.add(newBatch("s", "known"))
	other := newBatch("s", "known")
	other.Payload = []byte("other")
	tx, commit, _ := f.begin()
	now := f.now()
	require.NoError(f, tx.Add(f.ctx, newBatch("s", "a")))
	again := newBatch("s", "a")
	again.Payload = []byte("other")
	for _, bad := range []batch.Batch{other, again, {Service: "s", ID: "no payload"}} {
		require.Error(f, tx.Add(f.ctx, newBatch("s", "with it"), bad), "Add of a Tx took %s, which Add refuses", bad.Key())
	}
	require.NoError(f, tx.Add(f.ctx, newBatch("s", "known"), newBatch("s", "a"), newBatch("s", "b")), "again, and another one")
	require.NoError(f, tx.Add(f.ctx), "nothing to add")
	require.NoError(f, commit())
	f.addToModel(now, newBatch("s", "a"), newBatch("s", "b"))
	f.requireAbsent(newBatch("s", "with it"))
	assert.Equal(f, []batch.ID{"known", "a", "b"}, laneIDs(f.viewLane("s", 9)))
}

func testTxOwn(f *fixture) {
	tx, _, _ := f.begin()
	assert.True(f, f.store.Owns(tx), "Owns of the store says false to what the store's Tx made: Runner.AddTx would refuse it")
}

// foreignTx is a Tx that no store has made.
type foreignTx struct{ store.Tx }

func testTxForeign(f *fixture) {
	assert.False(f, f.store.Owns(nil), "Owns says true to nil")
	assert.False(f, f.store.Owns(foreignTx{}), "Owns says true to a Tx of another kind")
	if f.harness.NoTx {
		return
	}
	other := f.openAnother(f.T)
	tx, _, rollback, err := other.Begin(f.ctx)
	require.NoError(f, err, "Harness.Begin of another store")
	defer func() { require.NoError(f, rollback()) }()
	assert.False(f, f.store.Owns(tx), "Owns says true to the Tx of another store of the same kind: the batches would be stored where nobody looks for them")
}

// testTxHoldsUp checks that OneWriter is declared correctly: if another write succeeded while the
// transaction is open, a batch could become visible late.
func testTxHoldsUp(f *fixture) {
	commit, _ := f.addTx(newBatch("s", "a"))
	ctx, cancel := context.WithTimeout(f.ctx, 100*time.Millisecond)
	defer cancel()
	require.Error(f, f.store.Add(ctx, newBatch("s", "b")), "Add got through while a transaction was open: the store has more than one writer")
	require.NoError(f, commit())
	f.requireAbsent(newBatch("s", "b"))
}
