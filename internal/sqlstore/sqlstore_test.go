package sqlstore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

func TestFootprintRoundTrip(t *testing.T) {
	long := strings.Repeat("f", batch.MaxIDLen)
	for _, f := range []batch.Footprint{
		{}, {Reads: []string{"a"}}, {Writes: []string{"b"}}, {Reads: []string{"", long}, Writes: []string{long, "x", ""}},
	} {
		b := sqlstore.EncodeFootprint(f)
		got, err := sqlstore.DecodeFootprint(b)
		require.NoError(t, err)
		assert.Equal(t, f, got)
		for cut := 1; cut < len(b); cut++ {
			if got, err := sqlstore.DecodeFootprint(b[:cut]); err == nil {
				assert.Less(t, len(got.Writes), len(f.Writes), "a cut footprint is an error or shorter, and never panics")
			}
		}
	}
	assert.Nil(t, sqlstore.EncodeFootprint(batch.Footprint{}))
}

// A row is due exactly if the rules give it to the monitor.
func TestDueAt(t *testing.T) {
	now := time.UnixMicro(1_000_000_000).UTC()
	for _, s := range batch.States() {
		for _, claim := range []time.Time{{}, now.Add(-time.Second), now.Add(time.Second)} {
			for _, final := range []time.Time{{}, now} {
				r := store.Row{State: s, ClaimExpires: claim, NextCheck: now.Add(-2 * time.Second), FinalAt: final}
				due := sqlstore.DueAt(r) <= now.UnixMicro()
				assert.Equal(t, r.Monitored(now), due, "%s, claim %s, final %s", s, claim, final)
			}
		}
	}
}

func TestTimes(t *testing.T) {
	assert.Zero(t, sqlstore.ToMicro(time.Time{}))
	assert.True(t, sqlstore.FromMicro(0).IsZero())
	at := time.Date(2300, 1, 2, 3, 4, 5, 6000, time.UTC)
	assert.Equal(t, at, sqlstore.FromMicro(sqlstore.ToMicro(at)))
}

func TestWant(t *testing.T) {
	a, other, never := batch.Key{Service: "s", ID: "a"}, batch.Key{Service: "t", ID: "a"}, batch.Key{Service: "s", ID: "\x00"}
	ask, w := sqlstore.Want([]batch.Key{a, never, other, a, never}, func(k batch.Key) bool { return k.Validate() == nil })
	assert.Equal(t, []batch.Key{a, other}, ask)
	assert.True(t, w.Take(a))
	assert.False(t, w.Take(a))
	assert.False(t, w.Take(batch.Key{Service: "u", ID: "a"}))
	assert.ElementsMatch(t, []batch.Key{never, other}, w.Missing())
}

func TestServices(t *testing.T) {
	assert.Equal(t, []batch.ServiceID{"s", ""}, sqlstore.Services([]batch.ServiceID{"s", "\xff", "", "s", "\x00"}))
}

// IDHash gives the hashes that databases already have, so its result may never change.
func TestIDHash(t *testing.T) {
	assert.Equal(t, "616263000000ba7816bf8f01cfea4141", fmt.Sprintf("%x", sqlstore.IDHash("abc")))
	err := sqlstore.HashConflict(batch.Key{Service: "s", ID: "a"}, "b")
	require.ErrorIs(t, err, batch.ErrConflict)
	assert.ErrorContains(t, err, "batch s/a: its id has the hash of batch b")
}
