package sqlite

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/store"
)

// A claim returns payloads with the claimed batches. It leaves large payloads to Payloads, so that
// it does not keep others from writing for long.
func TestClaimBringsSomeBytes(t *testing.T) {
	tier.Plain(t)
	for _, c := range []struct{ n, size, brought int }{
		{100, 10, 100}, {52, maxClaimedBytes/50 + 1, 50}, {4, maxClaimedBytes / 2, 2}, {4, 8 * maxClaimedBytes, 1},
	} {
		adder, clk, path := newTestStore(t)
		s := openStoreAgain(t, path, clk) // a second process, which has not added the batches
		ctx := t.Context()
		want := map[batch.Key][]byte{}
		var in []batch.Batch
		q := claimQuery()
		for i := range c.n {
			b := newBatch(fmt.Sprint("lane", i), i)
			b.Payload = bytes.Repeat([]byte{byte(i)}, c.size)
			want[b.Key()] = b.Payload
			in, q.Lanes = append(in, b), append(q.Lanes, b.Service)
		}
		require.NoError(t, adder.Add(ctx, in...))
		q.Limit = len(in)
		got, err := s.Claim(ctx, q, chooseSerially)
		require.NoError(t, err)
		var left []store.Ref
		for _, r := range got.Runs {
			claim := r.Batches[0]
			if payload, has := got.Payloads[claim.Row]; has {
				assert.True(t, bytes.Equal(want[claim.Key], payload), claim.Key)
			} else {
				left = append(left, claim.Ref)
			}
		}
		require.Equal(t, c.brought, c.n-len(left), "of %d bytes each", c.size)
		payloads, err := s.Payloads(ctx, left)
		require.NoError(t, err)
		for i, p := range payloads {
			assert.True(t, bytes.Equal(want[left[i].Key], p), left[i].Key)
		}
	}
}

// A claim that cannot write all rows that it has chosen claims nothing.
func TestAClaimWritesAllOrNothing(t *testing.T) {
	for _, n := range []int{manyRows - 1, manyRows} {
		s, _, _ := newTestStore(t)
		ctx := t.Context()
		var in []batch.Batch
		q := claimQuery()
		for i := range n {
			in = append(in, newBatch(fmt.Sprint("lane", i), i))
			q.Lanes = append(q.Lanes, in[i].Service)
		}
		require.NoError(t, s.Add(ctx, in...))
		_, err := s.db.Exec(`CREATE TRIGGER stays BEFORE UPDATE ON dltbatch_open_batches WHEN new.seq = 3 BEGIN SELECT RAISE (IGNORE); END`)
		require.NoError(t, err)
		_, err = s.Claim(ctx, q, chooseSerially)
		require.ErrorContains(t, err, "rows claimed, want")
		var claimed int
		require.NoError(t, s.db.QueryRow(`SELECT count(*) FROM dltbatch_open_batches WHERE attempt > 0`).Scan(&claimed))
		require.Zero(t, claimed)
		_, err = s.db.Exec(`DROP TRIGGER stays`)
		require.NoError(t, err)
		got, err := s.Claim(ctx, q, chooseSerially)
		require.NoError(t, err)
		require.Len(t, got.Runs, n)
		for _, r := range got.Runs {
			require.Equal(t, payloadOf(in, r.Batches[0].Key), string(got.Payloads[r.Batches[0].Row]))
		}
	}
}

func payloadOf(in []batch.Batch, key batch.Key) string {
	for _, b := range in {
		if b.Key() == key {
			return string(b.Payload)
		}
	}
	return ""
}
