package store_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/store"
)

func TestKeepPrepared(t *testing.T) {
	assert.Equal(t, dlt.MaxPrepared, store.MaxPrepared)
	for name, r := range standings(t) {
		for _, v := range []int64{r.Version - 1, r.Version, r.Version + 1} {
			next, ok := r.KeepPrepared(v, []byte("kept"))
			assert.Equal(t, v == r.Version && r.State == batch.Submitting, ok, name)
			want := r
			if ok {
				want.Prepared = []byte("kept")
				again, ok := next.KeepPrepared(v, []byte("another"))
				assert.True(t, ok, "something is kept")
				assert.Equal(t, next, again)
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

func TestPreparedEndsWithTheRow(t *testing.T) {
	r, _ := store.NewRow().Claim(start, ttl, hour).KeepPrepared(2, []byte("kept"))
	for _, f := range []store.Finding{store.Accepted, store.Doubtful, store.Unposted, store.Failed} {
		o := submitted(r, f)
		o.Back = batch.Queued
		assert.Equal(t, "kept", string(must(t, r, o, start).Prepared), f.String())
	}
	assert.Nil(t, must(t, r, submitted(r, store.Refused), start).Prepared)
	assert.Nil(t, must(t, r, monitored(r, store.IsCommitted), start.Add(2*ttl)).Prepared)
}
