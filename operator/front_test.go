package operator_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
)

func (o *office) front(service batch.ServiceID, n int) operator.Front {
	o.Helper()
	f, err := o.Front(o.ctx(), service, n)
	require.NoError(o, err)
	return f
}

func TestFront(t *testing.T) {
	inStores(t, func(o *office) {
		o.serves(traits, queuer.Serial(), "s", "none")
		bs := o.lane("s", 7)
		o.record(store.Doubtful, o.claim(queuer.Serial(), "s")...)
		o.found(store.Undecidable, bs[0].Key())
		f := o.front("s", 3)
		require.Len(o, f.Rows, 4)
		assert.Equal(o, 3, f.More)
		assert.Equal(o, "needs a person", f.Rows[0].Word)
		assert.Equal(o, operator.TonePerson, f.Rows[0].Tone)
		for i, r := range f.Rows {
			assert.Equal(o, bs[i].Key(), r.Key)
			if i > 0 {
				assert.Equal(o, 0, r.Blocked)
				assert.Equal(o, "waits", r.Word)
			}
		}
		assert.Equal(o, "From the front: 1 needs a person, 3 wait; 3 more stand behind. 3 of these wait for batch "+string(bs[0].ID)+".", f.Text)
		assert.Empty(o, o.front("none", 3).Rows)
		assert.Equal(o, "No batch of the lane is open.", o.front("none", 3).Text)
	})
}

// A front says of lanes at random what Explain says of each batch.
func TestAFrontIsAsExplained(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inStores(t, func(o *office) {
				o.atRandom(rand.New(rand.NewPCG(seed, 38)))
				lanes, err := o.Lanes(o.ctx(), store.CountsQuery{Start: true})
				require.NoError(o, err)
				for _, l := range lanes {
					for i, r := range o.front(l.Service, 100).Rows {
						e, err := o.Explain(o.ctx(), r.Key)
						if r.Cause == operator.CauseUnknown {
							require.ErrorIs(o, err, operator.ErrNotRecorded)
							continue
						}
						require.NoError(o, err)
						assert.Equal(o, e.Cause, r.Cause, r.Key)
						assert.Equal(o, e.Blocker, r.Blocker, r.Key)
						assert.Equal(o, e.Version, r.Version)
						if r.Blocked >= 0 {
							assert.NotEqual(o, i, r.Blocked)
						}
					}
				}
			})
		})
	}
}
