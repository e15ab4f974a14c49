package sqlite

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// A claim brings payloads, but does not keep others from writing while it reads many
// large ones: those it leaves to Payloads.
func TestClaimBringsSomeBytes(t *testing.T) {
	for _, size := range []int{10, claimedBytes/claimedRows + 1} {
		s, _, _ := fresh(t)
		ctx := t.Context()
		want := map[batch.Key][]byte{}
		var in []batch.Batch
		q := query()
		for i := range 2 * claimedRows {
			b := newBatch(fmt.Sprint("lane", i), i)
			b.Payload = bytes.Repeat([]byte{byte(i)}, size)
			want[b.Key()] = b.Payload
			in, q.Lanes = append(in, b), append(q.Lanes, b.Service)
		}
		require.NoError(t, s.Add(ctx, in...))
		q.Limit = len(in)
		got, err := s.Claim(ctx, q, serial)
		require.NoError(t, err)
		var left []store.Ref
		for _, r := range got.Runs {
			c := r.Batches[0]
			if payload, has := got.Payloads[c.Row]; has {
				assert.Equal(t, want[c.Key], payload)
				delete(want, c.Key)
			} else {
				left = append(left, c.Ref)
			}
		}
		if size == 10 {
			require.Empty(t, left)
			continue
		}
		require.Len(t, left, claimedRows, "no more than it must")
		payloads, err := s.Payloads(ctx, left)
		require.NoError(t, err)
		for i, p := range payloads {
			assert.Equal(t, want[left[i].Key], p)
		}
	}
}
