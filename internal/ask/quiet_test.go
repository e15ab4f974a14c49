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

// An answer about one row that nobody understands leaves that row alone for a while, and nothing
// else. A ledger that cannot be reached silences its whole group, however small the request was.
func TestQuietOfOneRow(t *testing.T) {
	of := func(ids ...batch.ID) *group {
		g := &group{key: "ledger"}
		for _, id := range ids {
			g.rows = append(g.rows, inhand.Question{Row: store.InFlight{Ref: store.Ref{Key: batch.Key{Service: "s", ID: id}}}})
		}
		return g
	}
	garbled, gone := errors.New("garbled"), &dlt.Error{Kind: dlt.ErrUnavailable}
	for name, c := range map[string]struct {
		asked              *group
		err                error
		same, other, whole bool // are left alone
	}{
		"one row, garbled":            {of("a"), garbled, true, false, false},
		"two rows, garbled":           {of("a", "b"), garbled, true, true, true},
		"one row, the ledger is gone": {of("a"), gone, true, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := &ledger{quiet: quiets{first: time.Second, by: map[string]*quiet{}}}
			assert.True(t, l.note(c.asked, c.err), "the first")
			assert.False(t, l.note(c.asked, c.err))
			assert.Equal(t, c.same, l.pause(of("a")) > 0)
			assert.Equal(t, c.other, l.pause(of("c")) > 0)
			assert.Equal(t, c.whole, l.pause(of("a", "c")) > 0)
			l.note(c.asked, nil)
			for _, g := range []*group{of("a"), of("c"), of("a", "c")} {
				assert.Zero(t, l.pause(g))
			}
		})
	}
}

// A group or row that nobody asks about any more is forgotten in the end.
func TestQuietsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := quiets{first: time.Millisecond, by: map[string]*quiet{}}
		for i := range 100 * minQuiets {
			q.note(fmt.Sprint(i), errors.New("down"))
			if i%minQuiets == 0 {
				time.Sleep(maxRetryAfter)
			}
		}
		assert.Less(t, len(q.by), 8*minQuiets)
		time.Sleep(time.Hour)
		q.note("live", errors.New("down"))
		assert.Positive(t, q.left("live"))
	})
}
