package store_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/store"
)

func TestKeepPrepared(t *testing.T) {
	assert.Equal(t, dlt.MaxPrepared, store.MaxPrepared)
	for name, r := range rowsByStanding(t) {
		for _, v := range []int64{r.Version - 1, r.Version, r.Version + 1} {
			next, ok := r.KeepPrepared(store.Prepared{Version: v, Bytes: []byte("kept")})
			assert.Equal(t, v == r.Version && r.State == batch.Submitting, ok, name)
			want := r
			if ok {
				want.Prepared = []byte("kept")
				for bytes, did := range map[string]bool{"kept": true, "another": false, "kept, and more": false} {
					again, ok := next.KeepPrepared(store.Prepared{Version: v, Bytes: []byte(bytes)})
					assert.Equal(t, did, ok, bytes)
					assert.Equal(t, next, again)
				}
				more := store.Prepared{Version: v, Was: []byte("kept"), Bytes: []byte("kept, and more")}
				for range 2 {
					grown, ok := next.KeepPrepared(more)
					require.True(t, ok)
					assert.Equal(t, "kept, and more", string(grown.Prepared))
					next = grown
				}
				_, ok := next.KeepPrepared(store.Prepared{Version: v, Was: []byte("kept"), Bytes: []byte("kept, and less")})
				assert.False(t, ok)
				next.Prepared = []byte("kept")
			}
			assert.Equal(t, want, next, "%s: nothing else changes", name)
		}
	}
	for _, n := range []int{0, 1, store.MaxPrepared, store.MaxPrepared + 1} {
		err := store.Prepared{Bytes: []byte(strings.Repeat("x", n))}.Validate()
		assert.Equal(t, n == 0 || n > store.MaxPrepared, err != nil, n)
		if err != nil {
			assert.ErrorIs(t, err, batch.ErrInvalidInput)
		}
	}
}

func TestWhatIsKeptOnlyGrows(t *testing.T) {
	for _, was := range []string{"k", "kept"} {
		assert.NoError(t, store.Prepared{Was: []byte(was), Bytes: []byte("kept")}.Validate())
	}
	for _, was := range []string{"K", "kept, and more", "ept"} {
		var inputErr *batch.InputError
		require.ErrorAs(t, store.Prepared{Was: []byte(was), Bytes: []byte("kept")}.Validate(), &inputErr, was)
		assert.Equal(t, "Prepared.Bytes", inputErr.Field)
	}
}

// A void applies only while the row keeps the bytes that the ledger was asked about.
func TestVoid(t *testing.T) {
	for name, r := range rowsByStanding(t) {
		if !r.Monitored(testStart.Add(time.Second)) || r.State == batch.Invalid {
			continue
		}
		for _, kept := range []string{"", "kept"} {
			if kept != "" {
				r.Prepared = []byte(kept)
			}
			for _, named := range []string{"", "kept", "kept, and more"} {
				o := monitorOutcome(r, store.IsVoid)
				o.Prepared = []byte(named)
				next, a := r.Apply(o, testStart.Add(time.Second))
				if named != kept {
					assert.Equal(t, store.Fenced, a.Result, "%s, %q of %q", name, named, kept)
					assert.Equal(t, r, next)
					continue
				}
				require.Equal(t, store.Written, a.Result, "%s: %v", name, a.Err)
				assert.Nil(t, next.Prepared)
				assert.Zero(t, next.DoubtAttempt)
				assert.Equal(t, r.Refused, next.State == batch.Rejected, name)
			}
		}
	}
}

func TestPreparedEndsWithTheRow(t *testing.T) {
	r, _ := store.NewRow().Claim(testStart, ttl, hourResend).KeepPrepared(store.Prepared{Version: 2, Bytes: []byte("kept")})
	for _, f := range []store.Finding{store.Accepted, store.Doubtful, store.Unposted, store.Failed} {
		o := submitterOutcome(r, f)
		o.Back = batch.Queued
		assert.Equal(t, "kept", string(mustApply(t, r, o, testStart).Prepared), f.String())
	}
	assert.Nil(t, mustApply(t, r, submitterOutcome(r, store.Refused), testStart).Prepared)
	assert.Nil(t, mustApply(t, r, monitorOutcome(r, store.IsCommitted), testStart.Add(2*ttl)).Prepared)
}
