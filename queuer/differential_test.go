package queuer_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/queuer"
)

// ledgerState is a ledger's contents, by address.
type ledgerState map[string]string

// program is a batch that does what it declares: it reads every address that it may read, and
// writes the result to every address that it may write. Some programs are invalid for some input,
// and then write nothing.
type program struct {
	id           string
	footprint    batch.Footprint
	canBeInvalid bool
}

// allAddresses of the model: every word of two letters.
func allAddresses() (out []string) {
	for _, a := range "abc" {
		for _, b := range "abc" {
			out = append(out, string(a)+string(b))
		}
	}
	return out
}

// execute executes p, and reports whether it was valid.
func (p program) execute(s ledgerState) bool {
	seen := ""
	under := func(prefixes []string, a string) bool {
		return slices.ContainsFunc(prefixes, func(x string) bool { return strings.HasPrefix(a, x) })
	}
	for _, a := range allAddresses() {
		if under(p.footprint.Reads, a) {
			seen += a + "=" + s[a] + ";"
		}
	}
	sum := 0
	for _, c := range seen {
		sum = sum*31 + int(c)
	}
	if p.canBeInvalid && sum%3 == 0 {
		return false
	}
	for _, a := range allAddresses() {
		if under(p.footprint.Writes, a) {
			s[a] = fmt.Sprintf("%s:%x", p.id, uint16(sum)) // depends on all reads, and on the last writer of each
		}
	}
	return true
}

// validity has, for each batch, whether a ledger found it valid.
type validity map[string]bool

// executeInOrder executes the programs one after the other.
func executeInOrder(ps []program) (ledgerState, validity) {
	s, f := ledgerState{}, validity{}
	for _, p := range ps {
		f[p.id] = p.execute(s)
	}
	return s, f
}

// executeInAnyOrder lets a strategy choose the batches for a ledger that executes accepted batches
// in any order and at any time. Some POSTs fail, and are repeated later.
func executeInAnyOrder(t *testing.T, r *rand.Rand, choose func(batch.Lane) []batch.Run, ps []program) (ledgerState, validity) {
	t.Helper()
	s, f := ledgerState{}, validity{}
	var open []batch.LaneBatch
	byID := map[batch.ID]program{}
	for _, p := range ps {
		id := batch.ID(p.id)
		byID[id] = p
		open = append(open, batch.LaneBatch{ID: id, State: batch.Queued, Ready: true, Footprint: p.footprint})
	}
	for steps := 0; len(open) > 0; steps++ {
		require.Less(t, steps, 10_000, "it goes on for ever: %v", open)
		if r.IntN(2) == 0 {
			for _, run := range choose(batch.Lane{Service: "s", Batches: open}) {
				for _, p := range run {
					open[p].Attempt++
					if open[p].State = batch.Pending; r.IntN(6) == 0 {
						open[p].State, open[p].Ready = batch.Delayed, false
					}
				}
			}
		}
		switch i := r.IntN(len(open)); open[i].State {
		case batch.Pending:
			f[string(open[i].ID)] = byID[open[i].ID].execute(s)
			open = slices.Delete(open, i, i+1)
		case batch.Delayed:
			open[i].Ready = true
		}
		// The lane is as a store shows it: attempted batches, then waiting ones.
		slices.SortStableFunc(open, func(a, b batch.LaneBatch) int { return min(b.Attempt, 1) - min(a.Attempt, 1) })
		if split := slices.IndexFunc(open, func(b batch.LaneBatch) bool { return b.Attempt == 0 }); split > 0 {
			slices.SortFunc(open[:split], func(a, b batch.LaneBatch) int { return strings.Compare(string(a.ID), string(b.ID)) })
		}
	}
	return s, f
}

func workload(r *rand.Rand) []program {
	ps := make([]program, 2+r.IntN(7))
	for i := range ps {
		word := func() (out []string) {
			for range r.IntN(3) {
				b := ""
				for range r.IntN(10) / 3 { // most addresses are whole
					b += string("abc"[r.IntN(3)])
				}
				out = append(out, b[:min(len(b), 2)])
			}
			return out
		}
		ps[i] = program{fmt.Sprint(i), batch.Footprint{Reads: word(), Writes: word()}, r.IntN(3) == 0}
	}
	return ps
}

// Ten thousand random workloads end in the same state as if they had been executed one by one.
func TestParallelEndsAsSerialExecution(t *testing.T) {
	tier.Plain(t)
	choose := queuer.Choose(queuer.Parallel(0), nil, func(_ batch.ServiceID, err error) { t.Error(err) })
	const workloads = 10_000
	shared := 0 // number of workloads in which the order mattered
	for seed := range uint64(workloads) {
		r := rand.New(rand.NewPCG(seed, 11))
		ps := workload(r)
		wantState, wantFate := executeInOrder(ps)
		gotState, gotFate := executeInAnyOrder(t, r, choose, ps)
		require.Equal(t, wantState, gotState, "seed %d: %v", seed, ps)
		require.Equal(t, wantFate, gotFate, "seed %d: %v", seed, ps)
		back := slices.Clone(ps)
		slices.Reverse(back)
		if s, _ := executeInOrder(back); !maps.Equal(s, wantState) {
			shared++
		}
	}
	assert.Greater(t, shared, workloads/4, "workloads whose order matters")
}

// The model ledger shows the difference if a strategy lets conflicting batches pass, so
// TestParallelEndsAsSerialExecution can fail.
func TestModelLedgerDistinguishesOrder(t *testing.T) {
	all := func(l batch.Lane) (runs []batch.Run) {
		for p, b := range l.Batches {
			if b.Ready && b.State.Claimable() {
				runs = append(runs, batch.Run{p})
			}
		}
		return runs
	}
	differ := 0
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 11))
		ps := workload(r)
		want, _ := executeInOrder(ps)
		if got, _ := executeInAnyOrder(t, r, all, ps); !maps.Equal(want, got) {
			differ++
		}
	}
	assert.Greater(t, differ, 50)
}
