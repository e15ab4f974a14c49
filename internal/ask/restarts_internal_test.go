package ask

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/inhand"
	"github.com/dltbatch/dltbatch/store"
)

// TestANodeForgetsOnlyWhatItHasShown: a node that does not know a batch has lost its memory only
// if the same node has answered PENDING about this attempt. Another node may never have had the
// batch.
func TestANodeForgetsOnlyWhatItHasShown(t *testing.T) {
	var r restarts
	posted := time.Unix(1_000_000, 0)
	now := posted
	says := func(endpoint string, word batch.Reported) (forgotten bool) {
		now = now.Add(time.Second)
		row := store.InFlight{Ref: store.Ref{Key: batch.Key{Service: "s", ID: "b"}}, Attempt: 2, Resends: 1, PostedAgo: now.Sub(posted)}
		g := &group{traits: dlt.Traits{ResendQuiet: time.Hour}, rows: []inhand.Question{{Row: row}}}
		return r.noteAnswers(g, map[batch.ID]*batch.Status{"b": {ID: "b", Reported: word, Endpoint: endpoint}}, now, now)["b"]
	}
	assert.False(t, says("one", batch.ReportedPending))
	assert.False(t, says("other", batch.ReportedUnknown))
	assert.False(t, says("one", batch.ReportedPending))
	assert.True(t, says("one", batch.ReportedUnknown))
	assert.False(t, says("other", batch.ReportedUnknown))
}
