package sqlstore_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
)

func freshBatch(n, size int) *batch.Batch {
	b := &batch.Batch{
		ID: batch.ID(fmt.Sprint("b", n)), Payload: bytes.Repeat([]byte{byte(n)}, size),
		Budget: batch.Budget{Attempts: n % 5, EveryTry: n%2 == 0},
	}
	if n%3 == 0 {
		b.Footprint = batch.Footprint{Reads: []string{"a"}, Writes: []string{fmt.Sprint(n)}}
	}
	return b
}

// Of and Take return the batch that was put under the number and the order key, or nothing, in any
// order of calls. The entries take no more memory than they may.
func TestFreshHoldsWhatWasPut(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		most := []int{0, 3_000, 30_000, 1 << 20}[seed%4]
		f := sqlstore.NewFresh(most)
		type place struct{ seq, created int64 }
		put := map[place]*batch.Batch{} // the batches that Fresh may have
		for n := range 2_000 {
			at := place{r.Int64N(40), r.Int64N(3)}
			switch want := put[at]; r.IntN(4) {
			case 0, 1:
				b := freshBatch(n, 1+r.IntN(900))
				f.Put(at.seq, at.created, b)
				for created := range int64(3) { // a number has only one entry
					delete(put, place{at.seq, created})
				}
				put[at] = freshBatch(n, len(b.Payload))
				clear(b.Payload) // the payload belongs to the caller
			case 2:
				if got, ok := f.Of(at.seq, at.created); ok {
					require.NotNil(t, want)
					footprint, err := sqlstore.DecodeFootprint(got.Footprint)
					require.NoError(t, err)
					require.Equal(t, *want, batch.Batch{ID: got.ID, Budget: got.Budget, Footprint: footprint, Payload: want.Payload})
				}
			case 3:
				if payload, ok := f.Take(at.seq, at.created); ok {
					require.NotNil(t, want)
					require.Equal(t, want.Payload, payload)
					delete(put, at)
					_, ok = f.Of(at.seq, at.created)
					require.False(t, ok, "what is claimed is held no more")
				}
			}
			bytes := 0
			for at, b := range put {
				if _, ok := f.Of(at.seq, at.created); ok {
					bytes += len(b.Payload)
				}
			}
			require.LessOrEqual(t, bytes, most)
		}
		if most == 1<<20 {
			for at := range put {
				_, ok := f.Of(at.seq, at.created)
				require.True(t, ok, "there is room for all")
			}
		}
	}
}

// If many batches wait, Fresh keeps the first of them, since these are claimed first. Entries that
// nobody claims are removed in the end.
func TestFreshKeepsTheFirst(t *testing.T) {
	const room = 100
	f := sqlstore.NewFresh(room * 1_300)
	held := func(from, n int) (held int) {
		for i := from; i < from+n; i++ {
			if _, ok := f.Of(int64(i), 1); ok {
				held++
			}
		}
		return held
	}
	for i := range 3 * room {
		f.Put(int64(i), 1, freshBatch(i, 1_000))
	}
	assert.Greater(t, held(0, room), room/2)
	assert.GreaterOrEqual(t, held(0, 3*room), room-1)
	for i := 3 * room; i < 60*room; i++ {
		f.Put(int64(i), 1, freshBatch(i, 1_000))
	}
	assert.Less(t, held(0, room), room/10)
}

// The methods of Fresh may run at the same time, and each payload is taken once.
func TestFreshAtOnce(t *testing.T) {
	const n = 2_000
	f := sqlstore.NewFresh(n * 100)
	var taken [n]int
	var mu sync.Mutex
	var calls sync.WaitGroup
	for i := range 4 {
		calls.Go(func() {
			for seq := i; seq < n; seq += 4 {
				f.Put(int64(seq), 1, freshBatch(seq, 50))
			}
		})
		calls.Go(func() {
			for seq := range n {
				if b, ok := f.Of(int64(seq), 1); ok {
					assert.Equal(t, batch.ID(fmt.Sprint("b", seq)), b.ID)
				}
				if payload, ok := f.Take(int64(seq), 1); ok {
					assert.Equal(t, freshBatch(seq, 50).Payload, payload)
					mu.Lock()
					taken[seq]++
					mu.Unlock()
				}
			}
		})
	}
	calls.Wait()
	for seq, times := range taken {
		assert.LessOrEqual(t, times, 1, seq)
	}
}
