package sqlite

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// A claim reads only a few columns of most rows. Its claims have the same values as a read of the
// whole row, with any history of the row.
func TestClaimReadsWhatMatters(t *testing.T) {
	s, _, _ := newTestStore(t)
	added, failed, refused := newBatch("a", 1), newBatch("b", 2), newBatch("c", 3)
	require.NoError(t, s.Add(t.Context(), added, failed, refused))
	rec, err := s.Get(t.Context(), refused.Key())
	require.NoError(t, err)
	rec, err = s.Cancel(t.Context(), rec, batch.By{Actor: "test", Reason: "why"})
	require.NoError(t, err)
	_, err = s.Requeue(t.Context(), rec, store.Requeue{}, batch.By{Actor: "test", Reason: "why"})
	require.NoError(t, err)
	c, err := s.Claim(t.Context(), claimQuery("b"), chooseSerially)
	require.NoError(t, err)
	require.Len(t, c.Runs, 1)
	was := c.Runs[0].Batches[0]
	_, err = s.Record(t.Context(), []store.Outcome{{
		Ref: was.Ref, Version: was.Version, Was: was.Was, Finding: store.Failed, By: batch.BySubmitter,
		Error: &batch.SubmissionError{Kind: "busy", Message: "try later"},
	}})
	require.NoError(t, err)
	c, err = s.Claim(t.Context(), claimQuery("a", "b", "c"), chooseSerially)
	require.NoError(t, err)
	require.Len(t, c.Runs, 3)
	for _, r := range c.Runs {
		claim := r.Batches[0]
		l, err := s.Look(t.Context(), claim.Key, 1)
		require.NoError(t, err)
		claim.Was.ResendUntil = claim.Was.ResendUntil.Truncate(time.Microsecond) // as the database stores it
		assert.Equal(t, l.Row, *claim.Was, claim.Key)
	}
}
