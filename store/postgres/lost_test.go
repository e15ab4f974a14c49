package postgres

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
)

// If two claims find a loss at once, the second fails as the first did, although the first has
// reported the loss.
func TestClaimsThatFindALossTogether(t *testing.T) {
	s, _, err := Over(&scriptedServer{}, &Options{PauseOnLostCommits: true})
	require.NoError(t, err)
	s.commitMemory.keepProof([]string{"batch s/a is gone"}, time.Now(), true)
	found := s.commitMemory.unreportedLoss()
	s.commitMemory.noteLossReported()
	require.ErrorIs(t, s.reportLoss(t.Context(), found), ErrLostCommits)
}

// written is the witness of a write to the batch a.
func written(seq, version int64) witness {
	return witness{key: batch.Key{Service: "s", ID: "a"}, seq: seq, version: version}
}

// The witnesses are checked on each server other than the one that has them, however connections
// to two servers alternate. The witnesses that a server has stay remembered.
func TestWitnessesAreLookedAtOnEachServer(t *testing.T) {
	var w commitMemory
	_, due := w.unseenWitnesses("old")
	assert.False(t, due, "nothing was written")
	w.noteCommitted("old", []witness{written(1, 0), written(2, 0)})
	_, due = w.unseenWitnesses("old")
	assert.False(t, due)

	last, due := w.unseenWitnesses("new")
	require.True(t, due)
	require.Len(t, last, 2)
	_, due = w.unseenWitnesses("old")
	assert.False(t, due, "a connection that leads to the old server ends no read")
	again, due := w.unseenWitnesses("new")
	require.True(t, due)
	assert.Equal(t, last[1:], w.endCheck("new", last, last[1:]))
	assert.Empty(t, w.endCheck("new", again, again[1:]), "two looks report one loss")
	_, due = w.unseenWitnesses("new")
	assert.False(t, due)

	kept, due := w.unseenWitnesses("third")
	require.True(t, due)
	assert.Equal(t, last[:1], kept, "for the next failover")
	w.requireCheck()
	_, due = w.unseenWitnesses("new")
	assert.True(t, due, "the database may be another one on the same server")
}

// A transaction begins on the old server before the new server is checked, and is committed there
// after the check. Its write is then looked for on the new server, too.
func TestAWriteToTheOldServerIsLookedFor(t *testing.T) {
	var w commitMemory
	_, _ = w.unseenWitnesses("old")
	w.noteCommitted("old", []witness{written(1, 0)})
	looked, due := w.unseenWitnesses("new")
	require.True(t, due)
	w.noteCommitted("old", []witness{written(2, 0)}) // committed during the check
	assert.Empty(t, w.endCheck("new", looked, nil))
	looked, due = w.unseenWitnesses("new")
	require.True(t, due)
	assert.Len(t, looked, 2)
	assert.Empty(t, w.endCheck("new", looked, nil))
	_, due = w.unseenWitnesses("new")
	require.False(t, due)

	w.noteCommitted("old", []witness{written(3, 0)}) // committed after the check
	for i := range int64(40) {
		w.noteCommitted("new", []witness{written(10+i, 0)})
	}
	looked, due = w.unseenWitnesses("new")
	require.True(t, due)
	assert.Contains(t, looked, written(3, 0), "later writes have pushed it out")
}
