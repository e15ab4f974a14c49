package flaky

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// CheckErrorPromises checks that a SQL store keeps the promises of Claim and Pending after an
// error. f makes statements of the store fail.
func CheckErrorPromises(t *testing.T, s store.Store, f *Faults) {
	claim := func(service batch.ServiceID, salt uint32) ([]store.ClaimedRun, error) {
		got, err := s.Claim(t.Context(), store.ClaimQuery{
			Lanes: []batch.ServiceID{service}, Limit: 9, Window: 9, TTL: time.Minute, Salt: salt, Instance: "same",
		}, func(l batch.Lane) []batch.Run {
			var run batch.Run
			for i, b := range l.Batches {
				if b.Ready {
					run = append(run, i)
				}
			}
			return []batch.Run{run}
		})
		return got.Runs, err
	}
	back := func(c store.Claim) store.Result {
		done, err := s.Record(t.Context(), []store.Outcome{{
			Ref: c.Ref, Version: c.Version, Was: c.Was, By: batch.BySubmitter, Finding: store.Unposted, Back: c.From,
		}})
		require.NoError(t, err)
		return done[0].Result
	}
	get := func(service batch.ServiceID) batch.Record {
		rec, err := s.Get(t.Context(), batch.Key{Service: service, ID: batch.ID("of " + service)})
		require.NoError(t, err)
		return rec
	}
	// add adds a batch to a lane from which a claim was made before, so that the lane has its row.
	add := func(service batch.ServiceID) {
		require.NoError(t, s.Add(t.Context(), batch.Batch{ID: batch.ID("before " + service), Service: service, Payload: []byte("x")}))
		_, err := claim(service, 1)
		require.NoError(t, err)
		require.NoError(t, s.Add(t.Context(), batch.Batch{ID: batch.ID("of " + service), Service: service, Payload: []byte("x")}))
	}
	t.Run("a commit that fails", func(t *testing.T) {
		add("s")
		f.FailNext("COMMIT", false)
		runs, err := claim("s", 1000)
		require.ErrorIs(t, err, ErrBefore)
		require.Len(t, runs, 1, "it is not known, and so it is named")
		lost := runs[0].Batches[0]
		assert.Equal(t, batch.Queued, get("s").State)
		assert.Zero(t, get("s").Attempt)
		assert.Equal(t, store.Fenced, back(lost))
		runs, err = claim("s", 2000) // a claim of any process, perhaps at the same instant
		require.NoError(t, err)
		assert.Equal(t, store.Fenced, back(lost), "the claim that was made is another")
		assert.Equal(t, batch.Submitting, get("s").State)
		assert.Equal(t, store.Written, back(runs[0].Batches[0]))
	})
	t.Run("the answer to a commit is lost", func(t *testing.T) {
		add("t")
		f.FailNext("COMMIT", true)
		runs, err := claim("t", 1000)
		require.ErrorIs(t, err, ErrAfter)
		require.Len(t, runs, 1)
		lost := runs[0].Batches[0]
		assert.Equal(t, batch.Submitting, get("t").State)
		assert.Equal(t, lost.Version, get("t").Version)
		assert.Equal(t, store.Written, back(lost))
		assert.Equal(t, store.Fenced, back(lost))
		assert.Equal(t, batch.Queued, get("t").State)
		assert.Zero(t, get("t").DoubtSince)
		runs, err = claim("t", 3000)
		require.NoError(t, err)
		assert.Equal(t, 2, runs[0].Batches[0].Attempt)
	})
	t.Run("a statement before it fails", func(t *testing.T) {
		add("u")
		f.FailNext("SELECT", true)
		runs, err := claim("u", 1000)
		require.ErrorIs(t, err, ErrAfter)
		assert.Empty(t, runs, "certainly not claimed")
		assert.Equal(t, batch.Queued, get("u").State)
	})
	t.Run("what may be leased is named", func(t *testing.T) {
		add("v")
		runs, err := claim("v", 1)
		require.NoError(t, err)
		c := runs[0].Batches[0]
		_, err = s.Record(t.Context(), []store.Outcome{{Ref: c.Ref, Version: c.Version, By: batch.BySubmitter, Finding: store.Accepted}})
		require.NoError(t, err)
		q := store.PendingQuery{Limit: 9, Lease: time.Minute}
		f.FailNext("COMMIT", true)
		rows, err := s.Pending(t.Context(), q)
		require.ErrorIs(t, err, ErrAfter)
		require.Len(t, rows, 1)
		assert.Equal(t, c.Key, rows[0].Key)
		rows, err = s.Pending(t.Context(), q)
		require.NoError(t, err)
		assert.Empty(t, rows, "it was leased")
	})
}
