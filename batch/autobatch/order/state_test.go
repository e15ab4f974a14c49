package order_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
)

// All states become text and JSON and are read back, and no other value does.
func TestStateWords(t *testing.T) {
	words := []string{"", "queued", "dequeued", "confirmed", "failed", "quarantined"}
	var in *batch.InputError
	for n := range 256 {
		s := order.State(n)
		text, err := s.MarshalText()
		if n >= len(words) {
			require.ErrorAs(t, err, &in)
			assert.Equal(t, "OrderState", in.Field)
			assert.Equal(t, s.String(), in.Value)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, words[n], string(text))
		assert.Equal(t, n > 0, s.String() == words[n], "one word for one thing")
		assert.Equal(t, n >= 3, s.Final())
		back := order.State(200)
		require.NoError(t, back.UnmarshalText(text))
		assert.Equal(t, s, back)
		inJSON, err := json.Marshal(s)
		require.NoError(t, err)
		assert.JSONEq(t, fmt.Sprintf("%q", words[n]), string(inJSON))
	}
	for _, other := range []string{"Queued", "queued ", "0", "1", "order state(77)", "none", "\x00"} {
		s := order.State(200)
		require.ErrorAs(t, s.UnmarshalText([]byte(other)), &in, other)
		assert.Equal(t, batch.Excerpt(other, 64), in.Value)
		assert.Equal(t, "one of queued, dequeued, confirmed, failed, quarantined", in.Want)
		assert.Equal(t, order.State(200), s, "it stays as it was")
	}
}

// A record is the same after it was written to JSON and read.
func TestRecordInJSON(t *testing.T) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 6000, time.UTC)
	rec := order.Record{ID: "o", Party: "p", State: order.Dequeued, Version: 2, CreatedAt: at, Batch: "b1", Batches: 1}
	text, err := json.Marshal(rec)
	require.NoError(t, err)
	assert.JSONEq(t, `{"id": "o", "party": "p", "state": "dequeued", "version": 2,
		"created_at": "2030-01-02T03:04:05.000006Z", "batch": "b1", "batches": 1}`, string(text))
	var back order.Record
	require.NoError(t, json.Unmarshal(text, &back))
	assert.Equal(t, rec, back)
}
