package sqlite

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// In calls of many batches, some are known and some conflict with others. As in the store in
// memory, all or none of a call are stored, in the order of the calls.
func TestAddOfMany(t *testing.T) {
	tier.Plain(t)
	for seed := range uint64(15) {
		r := rand.New(rand.NewPCG(seed, 3))
		s, clk, _ := newTestStore(t)
		if seed%3 == 0 {
			clk.freeze()
		}
		model := memory.New()
		ctx := t.Context()
		lanes := []batch.ServiceID{"a", "b", "c"}
		pool := 200
		refused, stored := 0, 0
		for range 40 {
			var in []batch.Batch
			for range 1 + r.IntN(4*maxAddedTogether) {
				n := r.IntN(pool)
				b := newBatch(string(lanes[n%3]), n)
				switch k := r.IntN(150); {
				case k == 0:
					b.Payload = []byte("other")
				case k == 1:
					b.Service = lanes[(n+1)%3]
				case n%20 == 0:
					b.DataChangeID = fmt.Sprint("change", n%40)
				}
				in = append(in, b)
			}
			err, want := s.Add(ctx, in...), model.Add(ctx, in...)
			if want == nil {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, want, batch.ErrConflict)
				require.ErrorIs(t, err, batch.ErrConflict)
				refused++
			}
			if step := time.Duration(r.IntN(5)-2) * time.Millisecond; r.IntN(3) == 0 {
				clk.step(step)
				model.StepClock(step)
			}
		}
		for _, lane := range lanes {
			ids := func(l store.Store) (ids []batch.ID) {
				records, _, err := l.List(ctx, store.ListQuery{Service: &lane, Limit: 1000})
				require.NoError(t, err)
				for _, rec := range records {
					ids = append(ids, rec.ID)
				}
				return ids
			}
			want := ids(model)
			require.Equal(t, want, ids(s))
			stored += len(want)
		}
		require.Greater(t, refused, 2)
		require.Greater(t, stored, 50)
		for _, table := range []string{"dltbatch_batch_payloads", "dltbatch_open_batches", "dltbatch_transactions", "dltbatch_batches"} {
			var n int
			require.NoError(t, s.db.QueryRow(`SELECT count(*) FROM `+table).Scan(&n))
			require.Equal(t, stored, n, table)
		}
	}
}

// Batches that could not be stored together leave nothing, and remove no other batch: not one
// whose number would be assigned again, after somebody has reset the database's counter, and not
// one of the same lane.
func TestAddTogetherGoesBack(t *testing.T) {
	s, _, _ := newTestStore(t)
	ctx := t.Context()
	var first, second []batch.Batch
	for i := range 2 * maxAddedTogether {
		first, second = append(first, newBatch("a", i)), append(second, newBatch("a", 100+i))
	}
	require.NoError(t, s.Add(ctx, first...))
	_, err := s.db.Exec(`UPDATE sqlite_sequence SET seq = 3 WHERE name = 'dltbatch_batches'`)
	require.NoError(t, err)
	require.NoError(t, s.Add(ctx, second[:maxAddedTogether]...), "numbers that are taken are passed over")
	_, err = s.db.Exec(`UPDATE sqlite_sequence SET seq = 16 WHERE name = 'dltbatch_batches'`)
	require.NoError(t, err)
	require.NoError(t, s.Add(ctx, append(second[maxAddedTogether:], first[3])...))
	claims, payloads := claimAll(t, s, "a")
	require.Len(t, claims, len(first)+len(second))
	for i, b := range append(first, second...) {
		require.Equal(t, b.ID, claims[i].Key.ID)
		require.Equal(t, string(b.Payload), payloads[b.ID])
	}
}
