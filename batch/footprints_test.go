package batch_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
)

// randomPrefix returns a short word of few letters, so that many words are equal or prefixes of
// one another. Some letters are not hex digits.
func randomPrefix(r *rand.Rand) string {
	const letters = "0aZ~\xff"
	b := make([]byte, r.IntN(6))
	for i := range b {
		b[i] = letters[r.IntN(len(letters))]
	}
	return string(b)
}

func randomFootprint(r *rand.Rand) (f batch.Footprint) {
	for range r.IntN(3) {
		f.Reads = append(f.Reads, randomPrefix(r))
	}
	for range r.IntN(3) {
		f.Writes = append(f.Writes, randomPrefix(r))
	}
	return f
}

// Footprints agrees with a comparison of all pairs.
func TestFootprintsAgreeWithConflicts(t *testing.T) {
	var x batch.Footprints // one for all rounds: Reset forgets everything
	conflicts := 0
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		x.Reset()
		var before []batch.Footprint
		for range 1 + r.IntN(20) {
			f := randomFootprint(r)
			want := slices.ContainsFunc(before, f.Conflicts)
			before = append(before, f)
			require.Equal(t, want, x.Add(f), "seed %d: %q", seed, before)
			if want {
				conflicts++
			}
		}
	}
	assert.Positive(t, conflicts)
}

func TestFootprintsOddBytes(t *testing.T) {
	var x batch.Footprints
	all := make([]string, 256)
	for i := range all {
		all[i] = "ab" + string([]byte{byte(i)}) + "cd"
		require.False(t, x.Add(writesFootprint(all[i])), i)
	}
	for _, p := range all {
		require.True(t, x.Add(readsFootprint(p)), p)
	}
	assert.True(t, x.Add(readsFootprint("a")))
	assert.False(t, x.Add(readsFootprint("ac")))
	assert.True(t, x.Add(batch.Footprint{}), "nothing declared")
	assert.True(t, x.Add(readsFootprint("ad")), "behind one that declares nothing")
}

func TestCompact(t *testing.T) {
	for _, c := range []struct{ in, want batch.Footprint }{
		{batch.Footprint{}, batch.Footprint{}},
		{batch.Footprint{Reads: []string{}}, batch.Footprint{}},
		{readsFootprint("b", "a", "b"), readsFootprint("a", "b")},
		{writesFootprint("ab", "a", "b", "abc"), writesFootprint("a", "b")},
		{writesFootprint("x", ""), writesFootprint("")},
		{batch.Footprint{Reads: []string{"a", "b"}, Writes: []string{"b", "a"}}, writesFootprint("a", "b")},
		{batch.Footprint{Reads: []string{"ab", "c"}, Writes: []string{"a"}}, batch.Footprint{Reads: []string{"c"}, Writes: []string{"a"}}},
		{batch.Footprint{Reads: []string{"a"}, Writes: []string{"ab"}}, batch.Footprint{Reads: []string{"a"}, Writes: []string{"ab"}}},
	} {
		in := batch.Footprint{Reads: slices.Clone(c.in.Reads), Writes: slices.Clone(c.in.Writes)}
		assert.Equal(t, c.want, c.in.Compact(), "%v", c.in)
		assert.Equal(t, in, c.in, "what was given is as it was")
	}
}

// A compact footprint conflicts with the same footprints as the long one.
func TestCompactKeepsConflicts(t *testing.T) {
	for seed := range uint64(20_000) {
		r := rand.New(rand.NewPCG(seed, 2))
		f, g := randomFootprint(r), randomFootprint(r)
		c := f.Compact()
		require.Equal(t, f.Conflicts(g), c.Conflicts(g), "seed %d: %q %q", seed, f, g)
		require.Equal(t, f.Empty(), c.Empty(), "seed %d", seed)
		require.Equal(t, c, c.Compact(), "seed %d", seed)
	}
}

func TestTransactionMark(t *testing.T) {
	a, b := batch.TransactionMark("a"), batch.TransactionMark(strings.Repeat("f", 128))
	assert.Equal(t, "tx:ca978112ca1bbdca", a, "stored with batches: it must not change")
	assert.NotEqual(t, a, b)
	assert.Len(t, b, len(a), "none is a prefix of another")
	assert.True(t, batch.IsTransactionMark(a))
	assert.False(t, batch.IsTransactionMark("1cf126"))
	assert.False(t, batch.IsTransactionMark(""))
	assert.True(t, writesFootprint(a).Conflicts(readsFootprint(a)))
	assert.False(t, writesFootprint(a, "00").Conflicts(writesFootprint(b, "11")))
}

// checkAllPairs is the order rule of [batch.Lane.Check] in its simplest form: a comparison of all
// pairs.
func checkAllPairs(l batch.Lane, runs []batch.Run) string {
	run := map[int]int{}
	for r, ps := range runs {
		for _, p := range ps {
			run[p] = 1 + r
		}
	}
	for p := range l.Batches {
		for q, b := range l.Batches {
			if run[p] != 0 && (q < p && run[q] != run[p] || !b.State.Claimable()) && b.Footprint.Conflicts(l.Batches[p].Footprint) {
				return fmt.Sprintf("position %d passes %d, ", p, q)
			}
		}
	}
	return ""
}

func TestLaneCheckAgreesWithAllPairs(t *testing.T) {
	good, bad := 0, 0
	for seed := range uint64(20_000) {
		r := rand.New(rand.NewPCG(seed, 3))
		l := batch.Lane{Service: "s", Batches: make([]batch.LaneBatch, r.IntN(7))}
		runs := make([]batch.Run, 1+r.IntN(3))
		for i := range l.Batches {
			w := batch.LaneBatch{State: batch.Queued, Ready: true, Footprint: batch.Footprint{Writes: []string{randomPrefix(r)}}}
			if r.IntN(2) == 0 {
				w.Footprint = randomFootprint(r)
			}
			switch k := r.IntN(10); {
			case k == 0:
				w.State, w.Ready = batch.Submitting, false
			case k == 1:
				w.State, w.Ready = batch.Pending, false
			case k < 7:
				to := r.IntN(len(runs))
				runs[to] = append(runs[to], i)
			}
			l.Batches[i] = w
		}
		err := l.Check(runs)
		if want := checkAllPairs(l, runs); want != "" {
			require.ErrorContains(t, err, want, "seed %d: %v of %v", seed, runs, l.Batches)
			bad++
			continue
		}
		require.NoError(t, err, "seed %d: %v of %v", seed, runs, l.Batches)
		good++
	}
	assert.Greater(t, good, 1000)
	assert.Greater(t, bad, 1000)
}

// Reset frees the memory of a set that was large, and keeps that of a set of usual size.
func TestFootprintsLetGo(t *testing.T) {
	var x batch.Footprints
	few := writesFootprint("ab", "cd", "ef")
	x.Add(few)
	assert.Zero(t, testing.AllocsPerRun(5, func() { x.Reset(); x.Add(few) }))
	much := make([]string, 100_000)
	for i := range much {
		much[i] = fmt.Sprintf("%08x", i)
	}
	var before, after runtime.MemStats
	x.Add(writesFootprint(much...))
	runtime.GC()
	runtime.ReadMemStats(&before)
	x.Reset()
	runtime.GC()
	runtime.ReadMemStats(&after)
	assert.Less(t, after.HeapAlloc+4<<20, before.HeapAlloc, "megabytes")
	assert.False(t, x.Add(few))
	assert.False(t, x.Add(writesFootprint("a0")))
}
