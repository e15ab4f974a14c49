package sawtooth_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"
)

// With Options.Receipts, a COMMITTED status has its receipts. Receipts that cannot be fetched are
// left out.
func TestReceipts(t *testing.T) {
	var missingID atomic.Value
	missingID.Store("")
	lookups := atomic.Int64{}
	n := sawtoothtest.Start(t, &sawtoothtest.Options{BlockInterval: 10 * time.Millisecond, Faults: &sawtoothtest.Faults{
		Request: func(p sawtoothtest.RequestPoint) sawtoothtest.Fault {
			if p.Operation != sawtoothtest.OpLookup {
				return sawtoothtest.Fault{}
			}
			lookups.Add(1)
			if id := missingID.Load().(string); id != "" && strings.HasPrefix(string(p.Batches[0]), id) {
				return sawtoothtest.Fault{Answer: sawtoothtest.AnswerError, Status: http.StatusNotFound, Code: 80}
			}
			return sawtoothtest.Fault{}
		},
	}})
	plain := newClient(t, n.URL(), nil)
	c := newClient(t, n.URL(), &sawtooth.Options{Receipts: true})

	first, a1 := sawtoothtest.Set("x", 1)
	second, a2 := sawtoothtest.Inc("x", 4)
	b, err := sawtooth.Build(mustKey(t, privateKey1), "", txOf("1", first, a1), txOf("2", second, a2))
	require.NoError(t, err)
	submitUntil(t, n, c, b, sawtoothtest.Committed)
	bad, address := sawtoothtest.Dec("x", 9) // the result is below zero
	invalid := batchOf(t, "bad", bad, address)
	submitUntil(t, n, c, invalid, sawtoothtest.Invalid)
	more := commitSetting(t, n, c, "y")

	ask := func(c *sawtooth.Client) map[batch.ID]batch.Status {
		statuses, err := c.BatchStatuses(context.Background(), "", attempts(b.ID, invalid.ID, more.ID, testID(1)))
		require.NoError(t, err)
		require.Len(t, statuses, 4)
		out := map[batch.ID]batch.Status{}
		for _, s := range statuses {
			out[s.ID] = s
		}
		return out
	}
	got := ask(plain)
	assert.Empty(t, got[b.ID].Receipts, "off by default")
	assert.Zero(t, lookups.Load())
	// The processor's message about an invalid transaction comes without any option.
	require.Len(t, got[invalid.ID].Receipts, 1)
	r := got[invalid.ID].Receipts[0]
	assert.Equal(t, invalid.Transactions[0].ID, r.TransactionID)
	assert.False(t, r.Valid)
	assert.Contains(t, r.Message, "it has 5")
	assert.Equal(t, []byte("5"), r.Data)

	got = ask(c)
	require.Len(t, got[b.ID].Receipts, 2)
	for i, r := range got[b.ID].Receipts {
		assert.Equal(t, b.Transactions[i].ID, r.TransactionID)
		assert.True(t, r.Valid)
		assert.Empty(t, r.Message)
		assert.JSONEq(t, `{"id":"`+r.TransactionID+`","data":[],"events":[],"state_changes":[{"address":"`+a1+`","type":"SET","value":"`+[]string{"oWF4AQ==", "oWF4BQ=="}[i]+`"}]}`, string(r.Data))
	}
	assert.Len(t, got[more.ID].Receipts, 1)
	assert.Len(t, got[invalid.ID].Receipts, 1)
	assert.EqualValues(t, 4, lookups.Load(), "two for each that is committed")

	missingID.Store(b.Transactions[0].ID)
	got = ask(c)
	assert.Equal(t, batch.Status{ID: b.ID, Reported: batch.ReportedCommitted}, got[b.ID], "committed, without receipts this time")
	assert.Len(t, got[more.ID].Receipts, 1, "the others have theirs")
	missingID.Store(string(b.ID))
	assert.Equal(t, batch.Status{ID: b.ID, Reported: batch.ReportedCommitted}, ask(c)[b.ID])
}

// The receipts of one answer are limited together. Receipts without room are left out, and a
// question about their batch alone returns them.
func TestReceiptsOfAnAnswerAreBounded(t *testing.T) {
	n := sawtoothtest.Start(t, &sawtoothtest.Options{BlockInterval: 10 * time.Millisecond})
	c := newClient(t, n.URL(), &sawtooth.Options{Receipts: true})
	ids := []batch.ID{commitSetting(t, n, c, "x").ID, commitSetting(t, n, c, "y").ID, commitSetting(t, n, c, "z").ID}
	one, err := c.BatchStatuses(t.Context(), "", attempts(ids[0]))
	require.NoError(t, err)
	require.Len(t, one[0].Receipts, 1)
	size := len(one[0].Receipts[0].TransactionID) + len(one[0].Receipts[0].Data)

	small := newClient(t, n.URL(), &sawtooth.Options{Receipts: true, MaxResponse: int64(2*size + size/2)})
	got, err := small.BatchStatuses(t.Context(), "", attempts(ids...))
	require.NoError(t, err)
	with := 0
	for _, s := range got {
		require.Equal(t, batch.ReportedCommitted, s.Reported)
		with += len(s.Receipts)
	}
	assert.Equal(t, 2, with)
	for _, id := range ids {
		alone, err := small.BatchStatuses(t.Context(), "", attempts(id))
		require.NoError(t, err)
		assert.Len(t, alone[0].Receipts, 1)
	}
}

// A node that hangs at the question for receipts does not change the verdict, and delays it only a
// little.
func TestReceiptsThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, err := sawtoothtest.Listen(&sawtoothtest.Options{InMemory: true, BlockInterval: time.Second, Faults: &sawtoothtest.Faults{
			Request: func(p sawtoothtest.RequestPoint) sawtoothtest.Fault {
				if p.Operation == sawtoothtest.OpLookup {
					return sawtoothtest.Fault{Answer: sawtoothtest.AnswerNever}
				}
				return sawtoothtest.Fault{}
			},
		}})
		require.NoError(t, err)
		defer n.Close()
		c := newClient(t, "http://node", &sawtooth.Options{Client: n.Client(), Receipts: true})
		b := settingBatch(t, "x")
		require.NoError(t, c.Submit(t.Context(), batch.Attempt{Key: b.Key(), Number: 1, Payload: b.Payload}))
		time.Sleep(5 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begin := time.Now()
		statuses, err := c.BatchStatuses(ctx, "", attempts(b.ID))
		require.NoError(t, err)
		assert.Equal(t, []batch.Status{{ID: b.ID, Reported: batch.ReportedCommitted}}, statuses)
		assert.Equal(t, 5*time.Second, time.Since(begin))
	})
}
