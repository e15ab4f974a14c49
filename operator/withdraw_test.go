package operator_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
)

// makeUnderWay adds batches, claims them, and stores prepared bytes for each, as a client that
// prepares in order does.
func (o *testDesk) makeUnderWay(bs ...batch.Batch) {
	o.Helper()
	o.add(bs...)
	q := store.ClaimQuery{
		Lanes: []batch.ServiceID{bs[0].Service}, Limit: 9, Window: 9, TTL: time.Minute, Instance: "one",
		Resend: func(batch.ServiceID) store.Resend { return store.Resend{HarmlessFor: dlt.Forever} },
	}
	claimed, err := o.st.Claim(o.ctx(), q, func(l batch.Lane) []batch.Run {
		var run batch.Run
		for i := range l.Batches {
			run = append(run, i)
		}
		return []batch.Run{run}
	})
	require.NoError(o, err)
	require.Len(o, claimed.Runs, 1)
	for i, c := range claimed.Runs[0].Batches {
		did, err := o.st.KeepPrepared(o.ctx(), []store.Prepared{{Ref: c.Ref, Version: c.Version, Bytes: []byte{byte(i)}}})
		require.NoError(o, err)
		require.Equal(o, []bool{true}, did)
		o.recordEnds(store.Accepted, c)
	}
}

// A batch is withdrawn only if the record says that its ledger can do that. The record and the
// explanation then say that the batch is withdrawn, the history names the person, and a batch that
// can be withdrawn cannot be rejected by a ruling.
func TestWithdraw(t *testing.T) {
	inStores(t, func(o *testDesk) {
		a, b := newBatch("s", "a"), newBatch("s", "b")
		o.makeUnderWay(a, b)
		_, err := o.Withdraw(o.ctx(), o.readRecord(a), ada)
		require.ErrorIs(o, err, operator.ErrNotRecorded)
		o.recordServing(traits, queuer.Pipelined(2), "s")
		_, err = o.Withdraw(o.ctx(), o.readRecord(a), ada)
		require.ErrorIs(o, err, batch.ErrNotAllowed)
		require.ErrorContains(o, err, `the ledger "ledger" cannot keep a batch from taking effect`)
		can, err := o.CanWithdraw(o.ctx(), "s")
		require.NoError(o, err)
		assert.False(o, can)
		for _, x := range []batch.Batch{a, b} {
			o.recordAnswer(store.Undecidable, x.Key())
		}

		able := traits
		able.Withdraws, able.PreparesInOrder = true, true
		o.recordServing(able, queuer.Pipelined(2), "s")
		_, err = o.Decide(o.ctx(), o.readRecord(a), batch.NotExecutedReject, ada)
		require.ErrorIs(o, err, batch.ErrNotAllowed)
		require.ErrorContains(o, err, "others of its lane are under way (1): withdraw it")
		_, err = o.Withdraw(o.ctx(), o.readRecord(a), batch.By{})
		require.ErrorIs(o, err, batch.ErrInvalidInput)
		rec, err := o.Withdraw(o.ctx(), o.readRecord(a), ada)
		require.NoError(o, err)
		assert.True(o, rec.Withdrawn)
		assert.Empty(o, rec.Decision)
		e, err := o.Explain(o.ctx(), a.Key())
		require.NoError(o, err)
		assert.True(o, e.Withdrawn)
		assert.Contains(o, e.Text, "it is withdrawn: what takes effect first decides")
		acts, err := o.History(o.ctx(), a.Key())
		require.NoError(o, err)
		require.Len(o, acts, 1)
		assert.Equal(o, batch.ActionWithdraw, acts[0].Action)
		assert.Equal(o, ada, acts[0].By)

		// Once the ledger has been asked and cannot prevent the batch, a ruling may reject it; so
		// may a ruling on the last batch under way.
		o.recordAnswer(store.Undecidable, a.Key())
		rec, err = o.Decide(o.ctx(), o.readRecord(a), batch.NotExecutedReject, ada)
		require.NoError(o, err)
		assert.Equal(o, batch.KindGivenUp, rec.Error.Kind)
		_, err = o.Decide(o.ctx(), o.readRecord(b), batch.NotExecutedReject, ada)
		require.NoError(o, err)
	})
}
