package operator_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
)

func (o *testDesk) front(service batch.ServiceID, n int) operator.Front {
	o.Helper()
	f, err := o.Front(o.ctx(), service, n)
	require.NoError(o, err)
	return f
}

func TestFront(t *testing.T) {
	inStores(t, func(o *testDesk) {
		o.recordServing(traits, queuer.Serial(), "s", "none")
		bs := o.addLane("s", 7)
		o.recordEnds(store.Doubtful, o.claim(queuer.Serial(), "s")...)
		o.recordAnswer(store.Undecidable, bs[0].Key())
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

// For random lanes, Front says of each batch what Explain says.
func TestAFrontIsAsExplained(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inStores(t, func(o *testDesk) {
				o.fillAtRandom(rand.New(rand.NewPCG(seed, 38)))
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

// On a ledger whose prepared bytes have numbers, batches that keep prepared bytes go first, in the
// order of their numbers. Explain, Causes and Front show this order, which claims use, and not the
// order of the order keys.
func TestTheOrderOfNumbers(t *testing.T) {
	inStores(t, func(o *testDesk) {
		o.recordServing(dlt.Traits{Name: "chain", ResendHarmlessFor: dlt.Forever, Prepares: true, PreparesInOrder: true}, queuer.Serial(), "s")
		bs := o.addLane("s", 3)
		q := store.ClaimQuery{Lanes: []batch.ServiceID{"s"}, Limit: 1, Window: 3, TTL: time.Minute, Instance: "one"}
		for number, b := range []batch.Batch{bs[1], bs[0]} { // the first batch became visible late, and has the later number
			claimed, err := o.st.Claim(o.ctx(), q, func(l batch.Lane) []batch.Run {
				return []batch.Run{{slices.IndexFunc(l.Batches, func(w batch.LaneBatch) bool { return w.ID == b.ID })}}
			})
			require.NoError(o, err)
			c := claimed.Runs[0].Batches[0]
			kept, err := o.st.KeepPrepared(o.ctx(), []store.Prepared{{Ref: c.Ref, Version: c.Version, Bytes: []byte{byte(number + 1)}}})
			require.NoError(o, err)
			require.Equal(o, []bool{true}, kept)
			o.recordEndsDelayed(store.Failed, 0, c)
		}
		e, err := o.Explain(o.ctx(), bs[1].Key())
		require.NoError(o, err)
		assert.Equal(o, batch.CauseReady, e.Cause, e.Text)
		for _, b := range []batch.Batch{bs[0], bs[2]} {
			e, err = o.Explain(o.ctx(), b.Key())
			require.NoError(o, err)
			assert.Equal(o, bs[1].Key(), e.Blocker, e.Text)
		}
		var order []batch.ID
		for _, r := range o.front("s", 9).Rows {
			order = append(order, r.ID)
		}
		assert.Equal(o, []batch.ID{bs[1].ID, bs[0].ID, bs[2].ID}, order)
		c, err := o.Causes(o.ctx(), operator.CausesQuery{})
		require.NoError(o, err)
		for _, g := range c.Groups {
			if g.Cause == batch.CauseReady {
				assert.Equal(o, bs[1].Key(), g.Example.Key)
			}
		}
		q.Numbered = func(batch.ServiceID) bool { return true }
		claimed, err := o.st.Claim(o.ctx(), q, queuer.Choose(queuer.Serial(), nil, func(batch.ServiceID, error) {}))
		require.NoError(o, err)
		assert.Equal(o, bs[1].ID, claimed.Runs[0].Batches[0].Key.ID, "as a claim does")
	})
}
