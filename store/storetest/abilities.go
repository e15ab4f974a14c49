package storetest

import (
	"cmp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/whole"
	"github.com/dltbatch/dltbatch/store"
)

// The names of the optional interfaces, as [store.Abilities] has them.
const (
	finalReader    = "store.FinalReader"
	lister         = "store.Lister"
	counter        = "store.Counter"
	pruner         = "store.Pruner"
	preparedKeeper = "store.PreparedKeeper"
	witnessReader  = "store.WitnessReader"
	ledgers        = "store.Ledgers"
	operator       = "store.Operator"
	controls       = "store.Controls"
	inspector      = "store.Inspector"
	statsKeeper    = "store.StatsKeeper"
	surveyor       = "store.Surveyor"
	bulkKeeper     = "store.BulkKeeper"
	actLister      = "store.ActLister"
	summaryKeeper  = "store.SummaryKeeper"
	journal        = "store.Journal"
)

// absent returns the optional interfaces that a store lacks, each with the loss.
func absent(s store.Store) map[string]string {
	lost := map[string]string{}
	for _, a := range store.Abilities(s) {
		if !a.Has {
			lost[a.Interface] = a.Loss
		}
	}
	return lost
}

// missing returns the first of these interfaces that is absent, "" where none is.
func missing(absent map[string]string, needs ...string) string {
	for _, n := range needs {
		if _, is := absent[n]; is {
			return n
		}
	}
	return ""
}

// skipping returns s with all methods: a method of an ability in lacks skips the test that calls
// it.
func skipping(t *testing.T, s store.Store, lacks map[string]string) store.Full {
	return whole.Of(s, func(method, ability string) error {
		if _, is := lacks[ability]; !is {
			t.Fatalf("the store was a %s, and is none any more", ability)
		}
		t.Skipf("absent: the rest of this test needs %s, and the store is no %s", method, ability)
		return store.ErrUnsupported
	})
}

// has reports whether the store has an ability.
func (f *fixture) has(needs ...string) bool { return missing(f.lacks, needs...) == "" }

// reopen opens the data that the store left behind.
func (f *fixture) reopen() {
	f.Helper()
	f.st = skipping(f.T, f.h.Reopen(f.T), f.lacks)
}

// stored returns the ids of all batches by order key: as List finds them, or, without a List,
// as claims see the open batches.
func (f *fixture) stored() []batch.ID {
	f.Helper()
	var all []batch.Record
	if f.has(lister) {
		for q := (store.ListQuery{Limit: 1000}); ; {
			rs, next := must2(f.st.List(f.ctx, q))(f)
			all = append(all, rs...)
			if next == "" {
				break
			}
			require.Less(f, len(all), 100_000, "the list has no end")
			q.After = next
		}
	} else {
		for _, s := range f.lanes(store.LanesQuery{Start: true, Limit: 1000}) {
			_, err := f.st.Claim(f.ctx, store.ClaimQuery{Lanes: []batch.ServiceID{s}, Limit: 1, Window: 100_000, TTL: f.u(1.5)}, func(l batch.Lane) []batch.Run {
				for _, id := range laneIDs(l) {
					all = append(all, batch.Record{Key: batch.Key{Service: s, ID: id}})
				}
				return nil
			})
			require.NoError(f, err)
		}
		for i, r := range all {
			var err error
			all[i], err = f.st.Get(f.ctx, r.Key)
			require.NoError(f, err)
		}
		slices.SortFunc(all, func(a, b batch.Record) int { return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID)) })
	}
	for _, r := range all {
		if s := f.rows[r.ID]; s != nil {
			f.sameRecord(s, r)
		}
	}
	return recordIDs(all)
}
