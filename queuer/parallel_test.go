package queuer_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/queuer"
)

// readsWrites makes a footprint of words.
func readsWrites(reads, writes string) batch.Footprint {
	split := func(s string) (out []string) {
		for _, c := range s {
			out = append(out, string(c))
		}
		return out
	}
	return batch.Footprint{Reads: split(reads), Writes: split(writes)}
}

// laneOf makes a lane of waiting batches, all ready, with the ids "1", "2" and so on.
func laneOf(fs ...batch.Footprint) batch.Lane {
	l := batch.Lane{Service: "s"}
	for i, f := range fs {
		l.Batches = append(l.Batches, batch.LaneBatch{ID: batch.ID(fmt.Sprint(i + 1)), State: batch.Queued, Ready: true, Footprint: f})
	}
	return l
}

// roundsUntilEmpty calls a strategy until the lane is empty; the batches of an answer are final
// before the next call.
func roundsUntilEmpty(t *testing.T, s queuer.Strategy, l batch.Lane) (out [][]batch.ID) {
	t.Helper()
	for len(l.Batches) > 0 {
		runs := s.Select(l)
		require.NoError(t, l.Check(runs))
		require.NotEmpty(t, runs, "with nothing under way something leaves")
		var round []batch.ID
		for _, run := range runs {
			for _, p := range run {
				round = append(round, l.Batches[p].ID)
			}
		}
		out = append(out, round)
		l.Batches = slices.DeleteFunc(slices.Clone(l.Batches), func(b batch.LaneBatch) bool { return slices.Contains(round, b.ID) })
	}
	return out
}

func TestParallelGoldenRounds(t *testing.T) {
	seven := laneOf(
		readsWrites("BE", "F"), readsWrites("D", "E"), readsWrites("B", "A"), readsWrites("AC", "B"),
		readsWrites("D", "C"), readsWrites("D", "C"), readsWrites("", "D"),
	)
	assert.Equal(t, [][]batch.ID{{"1", "3"}, {"2", "4"}, {"5"}, {"6"}, {"7"}}, roundsUntilEmpty(t, queuer.Parallel(0), seven))
	assert.Len(t, roundsUntilEmpty(t, queuer.Serial(), seven), 7)

	var apart []batch.Footprint
	for _, c := range "ABCDEFG" {
		apart = append(apart, readsWrites(string(c), string(c)))
	}
	assert.Equal(t, [][]batch.ID{{"1", "2", "3", "4", "5", "6", "7"}}, roundsUntilEmpty(t, queuer.Parallel(0), laneOf(apart...)))
}

func TestParallelSelect(t *testing.T) {
	ns := func(s string) batch.Footprint { return batch.Footprint{Writes: []string{s}} }
	mark := batch.TransactionMark("a transaction")
	with := func(p int, s batch.State, ready bool, l batch.Lane) batch.Lane {
		l.Batches[p].State, l.Batches[p].Ready, l.Batches[p].Attempt = s, ready, 1
		return l
	}
	abc := func() batch.Lane { return laneOf(ns("a"), ns("b"), ns("ab"), ns("c")) }
	for name, c := range map[string]struct {
		lane batch.Lane
		want []batch.Run
	}{
		"an empty lane":                     {laneOf(), nil},
		"a conflict waits":                  {abc(), []batch.Run{{0}, {1}, {3}}},
		"while it is being submitted":       {with(0, batch.Submitting, false, abc()), []batch.Run{{1}, {3}}},
		"while it is pending":               {with(0, batch.Pending, false, abc()), []batch.Run{{1}, {3}}},
		"while it is valid":                 {with(0, batch.Valid, false, abc()), []batch.Run{{1}, {3}}},
		"while it is invalid, not settled":  {with(0, batch.Invalid, false, abc()), []batch.Run{{1}, {3}}},
		"while it is delayed":               {with(0, batch.Delayed, false, abc()), []batch.Run{{1}, {3}}},
		"delayed and ready again":           {with(0, batch.Delayed, true, abc()), []batch.Run{{0}, {1}, {3}}},
		"unknown and ready again":           {with(0, batch.Unknown, true, abc()), []batch.Run{{0}, {1}, {3}}},
		"one that went ahead is in the way": {with(2, batch.Pending, false, abc()), []batch.Run{{1}, {3}}},
		"a blocked one blocks in turn": {
			with(0, batch.Pending, false, laneOf(ns("a"), readsWrites("a", "b"), readsWrites("b", "c"), ns("c"), ns("d"))),
			[]batch.Run{{4}},
		},
		"no footprint at the front":  {laneOf(batch.Footprint{}, ns("a"), ns("b")), []batch.Run{{0}}},
		"no footprint in the middle": {laneOf(ns("a"), batch.Footprint{}, ns("b")), []batch.Run{{0}}},
		"no footprint under way":     {with(0, batch.Pending, false, laneOf(batch.Footprint{}, ns("a"))), nil},
		"no footprint anywhere":      {laneOf(batch.Footprint{}, batch.Footprint{}), []batch.Run{{0}}},
		"the whole state":            {laneOf(ns("a"), ns(""), ns("b")), []batch.Run{{0}}},
		"the whole state, read":      {laneOf(readsWrites("a", ""), batch.Footprint{Reads: []string{""}}, readsWrites("b", ""), ns("c")), []batch.Run{{0}, {1}, {2}}},
		"readers":                    {laneOf(readsWrites("a", "b"), readsWrites("a", "c"), ns("a")), []batch.Run{{0}, {1}}},
		"a dependency by name": {
			laneOf(batch.Footprint{Writes: []string{"a", mark}}, batch.Footprint{Reads: []string{mark}, Writes: []string{"b"}}, ns("c")),
			[]batch.Run{{0}, {2}},
		},
	} {
		got := queuer.Parallel(0).Select(c.lane)
		assert.Equal(t, c.want, got, name)
		assert.NoError(t, c.lane.Check(got), name)
	}
	assert.Equal(t, queuer.DefaultQueued, queuer.Parallel(0).Window)
	assert.Equal(t, queuer.DefaultQueued, queuer.Parallel(-1).Window)
	assert.Equal(t, 7, queuer.Parallel(7).Window)
}

// nestedAddresses returns addresses that are often prefixes of one another.
func nestedAddresses(r *rand.Rand, n int) (out []string) {
	for range r.IntN(n + 1) {
		b := make([]byte, 2*r.IntN(4))
		for i := range b {
			b[i] = "01"[r.IntN(2)]
		}
		out = append(out, string(b))
	}
	return out
}

// For any states of a lane's batches, the strategy agrees with a comparison of all pairs.
func TestParallelAgreesWithAllPairs(t *testing.T) {
	tier.Plain(t)
	s := queuer.Parallel(0)
	picked := 0
	for seed := range uint64(10_000) {
		r := rand.New(rand.NewPCG(seed, 1))
		var l batch.Lane
		for range r.IntN(9) {
			state := batch.States()[r.IntN(len(batch.States()))]
			w := batch.LaneBatch{
				State: state, Ready: state.Claimable() && r.IntN(4) > 0,
				Footprint: batch.Footprint{Reads: nestedAddresses(r, 2), Writes: nestedAddresses(r, 2)},
			}
			if r.IntN(3) > 0 {
				w.State, w.Ready = batch.Queued, true
			}
			l.Batches = append(l.Batches, w)
		}
		var want []batch.Run
		for p, b := range l.Batches {
			free := b.State.Claimable() && b.Ready
			for q, o := range l.Batches {
				if (q < p || q > p && !o.State.Claimable()) && o.Footprint.Conflicts(b.Footprint) {
					free = false
				}
			}
			if free {
				want = append(want, batch.Run{p})
			}
		}
		require.Equal(t, want, s.Select(l), "seed %d: %v", seed, l.Batches)
		picked += len(want)
	}
	assert.Greater(t, picked, 3_000)
}
