package operator_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/texts"
	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
)

// Once no live instance serves a lane, the survey and the explanation of each of its batches say
// so, with the reason. This also holds for a batch behind others, and for a lane whose batches no
// instance has taken.
func TestALaneThatNoInstanceServes(t *testing.T) {
	inStores(t, func(o *testDesk) {
		o.recordServing(traits, queuer.Serial(), "held", "other", "paused")
		o.addLane("held", 3)
		o.addLane("other", 1)
		o.addLane("paused", 1)
		o.addLane("unmet", 2)
		_, err := o.Pause(o.ctx(), batch.Only("paused"), ada)
		require.NoError(o, err)
		var first, second texts.Presence
		refuses := []store.Unserved{{Service: "held", Why: "no route", For: time.Hour}, {Service: "paused", Why: "no route"}, {Service: "unmet", Why: "no name"}}
		shows := func(p *texts.Presence, id string, all []store.Unserved) {
			o.Helper()
			require.NoError(o, p.Show(o.ctx(), o.st, store.Instance{ID: id, Name: id, Unserved: all}))
		}
		unserved := func() int {
			o.Helper()
			n := 0
			for _, g := range o.causes().Groups {
				if g.Cause == batch.CauseUnserved {
					assert.Contains(o, g.Example.Text, "its service is held: ")
					assert.Empty(o, g.Root)
					n += g.Batches
				}
			}
			return n
		}
		shows(&first, "one", refuses)
		assert.Equal(o, 5, unserved())
		e, err := o.Explain(o.ctx(), batch.Key{Service: "held", ID: "held00001"})
		require.NoError(o, err)
		assert.Equal(o, batch.RemedyLedger, e.Remedy)
		assert.Regexp(o, `^queued: its service is held: instance one has not served it since 2[0-9: -]+Z: no route$`, e.Text)
		e, err = o.Explain(o.ctx(), batch.Key{Service: "unmet", ID: "unmet00000"})
		require.NoError(o, err)
		assert.Contains(o, e.Text, "no name")
		e, err = o.Explain(o.ctx(), batch.Key{Service: "paused", ID: "paused00000"})
		require.NoError(o, err)
		assert.Equal(o, batch.CausePaused, e.Cause, "a person moves that first")
		now, err := o.Situation(o.ctx(), operator.CausesQuery{})
		require.NoError(o, err)
		i := onlyIncident(o.T, now.Facts, operator.IncidentUnserved)
		assert.Equal(o, "No instance takes batches of 2 lanes.", i.Text)
		assert.True(o, strings.HasPrefix(i.Command, "dltbatch explain "), i.Command)

		shows(&second, "two", refuses[:1])
		assert.Equal(o, 3, unserved(), "the second has not met the others yet")
		e, err = o.Explain(o.ctx(), batch.Key{Service: "held", ID: "held00000"})
		require.NoError(o, err)
		assert.Contains(o, e.Text, "none of 2 instances has served it since ")
		shows(&second, "two", nil)
		assert.Zero(o, unserved())
	})
}

func TestAnInstanceOfTooManyUnservedLanes(t *testing.T) {
	i := store.Instance{ID: "i", Unserved: make([]store.Unserved, store.MaxUnserved)}
	require.NoError(t, i.Validate())
	i.Unserved = append(i.Unserved, store.Unserved{})
	require.ErrorIs(t, i.Validate(), batch.ErrInvalidInput)
	i.Unserved = []store.Unserved{{Why: strings.Repeat("x", 2000)}}
	require.ErrorIs(t, i.Validate(), batch.ErrInvalidInput)
}
