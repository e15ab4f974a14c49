package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// And keeps only the common part of the spans of two reads of one stream.
func TestStreamAnd(t *testing.T) {
	at := func(s int) time.Time { return testStart.Add(time.Duration(s) * time.Second) }
	span := func(since, until int) store.Stream { return store.Stream{Since: at(since), Until: at(until)} }
	for name, c := range map[string]struct{ first, later, want store.Stream }{
		"it went on":        {span(1, 5), span(1, 8), span(1, 5)},
		"it was pruned":     {span(1, 5), span(3, 5), span(3, 5)},
		"it began anew":     {span(1, 5), span(8, 9), span(8, 5)},
		"there was none":    {store.Stream{}, span(1, 5), store.Stream{Until: at(5)}},
		"the clock went":    {span(5, 8), span(1, 2), span(5, 2)},
		"there is none now": {span(1, 5), store.Stream{}, store.Stream{}},
	} {
		got := c.first.And(c.later)
		assert.Equal(t, c.want, got, name)
		assert.Equal(t, !c.want.Since.IsZero() && !c.want.Until.Before(c.want.Since), got.Found(at(99)).Covered, name)
	}
}

func TestStreamFound(t *testing.T) {
	s := store.Stream{Since: testStart, Until: testStart.Add(time.Minute), Cursor: "c"}
	assert.Equal(t, batch.StreamFound{Covered: true, Since: 2 * time.Minute, Until: time.Minute, Cursor: "c"}, s.Found(testStart.Add(2*time.Minute)))
	assert.Equal(t, batch.StreamFound{Cursor: "c"}, s.Found(testStart.Add(59*time.Second)), "told until a time that is still to come")
}

func TestStreamLease(t *testing.T) {
	s, held := store.Stream{}.Lease(testStart, "a", time.Minute)
	require.True(t, held)
	require.Equal(t, store.Stream{Holder: "a", Epoch: 1, LeaseExpires: testStart.Add(time.Minute)}, s)
	same, held := s.Lease(testStart.Add(time.Second), "b", time.Minute)
	assert.False(t, held)
	assert.Equal(t, s, same)
	over, held := s.Lease(testStart.Add(time.Minute), "b", time.Minute)
	assert.True(t, held, "a lease is over when its time is")
	assert.Equal(t, int64(2), over.Epoch)
	_, held = s.Append(testStart.Add(time.Minute), batch.StreamEntry{Epoch: 1})
	assert.False(t, held, "to the writer, too")
}

// A lease that was taken while the clock was ahead does not block the stream after the clock is
// put right.
func TestStreamLeaseAfterAStepBack(t *testing.T) {
	ahead, held := store.Stream{}.Lease(testStart.Add(24*time.Hour), "dead", time.Minute)
	require.True(t, held)
	next, held := ahead.Lease(testStart, "alive", time.Minute)
	require.True(t, held)
	assert.Equal(t, store.Stream{Holder: "alive", Epoch: 2, LeaseExpires: testStart.Add(time.Minute)}, next)
	_, held = next.Append(testStart, batch.StreamEntry{Epoch: 1})
	assert.False(t, held, "the holder before may live, and writes no more")
	again, held := ahead.Lease(testStart, "dead", time.Minute)
	assert.True(t, held)
	assert.Equal(t, int64(2), again.Epoch, "another holder may have written in between")

	s, _ := store.Stream{}.Lease(testStart, "a", 2*time.Minute)
	_, held = s.Lease(testStart, "b", time.Minute)
	assert.False(t, held, "processes may have different settings")
	_, held = s.Lease(testStart, "b", 1<<62)
	assert.False(t, held)
	_, held = s.Lease(testStart.Add(-time.Microsecond), "b", time.Minute)
	assert.True(t, held)
}

func TestTwins(t *testing.T) {
	b := func(service batch.ServiceID, id batch.ID, change, payload string) batch.Batch {
		return batch.Batch{Service: service, ID: id, DataChangeID: change, Payload: []byte(payload)}
	}
	twins, err := store.Twins([]batch.Batch{b("s", "1", "k", "p"), b("s", "2", "", "p"), b("s", "3", "k", "p"), b("t", "4", "k", "q"), b("s", "5", "", "p")})
	require.NoError(t, err)
	assert.Equal(t, []bool{false, false, true, false, false}, twins)
	twins, err = store.Twins([]batch.Batch{b("s", "1", "k", "p"), b("s", "2", "k", "p"), b("s", "1", "", "p"), b("s", "2", "", "p")})
	require.NoError(t, err)
	assert.Equal(t, []bool{false, true, false, true}, twins, "with the id of a twin")
	_, err = store.Twins([]batch.Batch{b("s", "1", "k", "p"), b("s", "2", "k", "p"), b("s", "2", "", "q")})
	require.ErrorIs(t, err, batch.ErrConflict)
	_, err = store.Twins([]batch.Batch{b("s", "1", "k", "p"), b("s", "2", "k", "q")})
	require.ErrorIs(t, err, batch.ErrConflict)
	assert.ErrorContains(t, err, "DataChangeID")
}
