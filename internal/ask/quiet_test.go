package ask

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/inhand"
	"github.com/dltbatch/dltbatch/store"
)

// An unclear answer about one row pauses the questions about that row, and about nothing else. A
// ledger that cannot be reached pauses the whole group, however small the request was.
func TestAskPauseOfOneRow(t *testing.T) {
	of := func(ids ...batch.ID) *group {
		g := &group{key: "ledger"}
		for _, id := range ids {
			g.rows = append(g.rows, inhand.Question{Row: store.InFlight{Ref: store.Ref{Key: batch.Key{Service: "s", ID: id}}}})
		}
		return g
	}
	garbled, gone := errors.New("garbled"), &dlt.Error{Kind: dlt.ErrUnavailable}
	for name, c := range map[string]struct {
		asked                                      *group
		err                                        error
		pausesSameRow, pausesOtherRow, pausesGroup bool // true if the same row, another row, the whole group is left alone
	}{
		"one row, garbled":            {of("a"), garbled, true, false, false},
		"two rows, garbled":           {of("a", "b"), garbled, true, true, true},
		"one row, the ledger is gone": {of("a"), gone, true, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := &ledger{pauses: askPauses{firstPause: time.Second, byKey: map[string]*askPause{}}}
			assert.True(t, l.noteResult(c.asked, c.err), "the first")
			assert.False(t, l.noteResult(c.asked, c.err))
			assert.Equal(t, c.pausesSameRow, l.pauseLeft(of("a")) > 0)
			assert.Equal(t, c.pausesOtherRow, l.pauseLeft(of("c")) > 0)
			assert.Equal(t, c.pausesGroup, l.pauseLeft(of("a", "c")) > 0)
			l.noteResult(c.asked, nil)
			for _, g := range []*group{of("a"), of("c"), of("a", "c")} {
				assert.Zero(t, l.pauseLeft(g))
			}
		})
	}
}

// A group or row that is no longer asked about is forgotten at last.
func TestAskPausesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := askPauses{firstPause: time.Millisecond, byKey: map[string]*askPause{}}
		for i := range 100 * minAskPauses {
			q.noteResult(fmt.Sprint(i), errors.New("down"))
			if i%minAskPauses == 0 {
				time.Sleep(maxRetryAfter)
			}
		}
		assert.Less(t, len(q.byKey), 8*minAskPauses)
		time.Sleep(time.Hour)
		q.noteResult("live", errors.New("down"))
		assert.Positive(t, q.remaining("live"))
	})
}
