package storetest

import (
	"errors"
	"reflect"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// withNearTimesOf returns got with those times and durations of want that differ only by the
// difference of the clocks, so that the two values can be compared as a whole.
func withNearTimesOf[T any](f *fixture, want, got T) T {
	w, g := reflect.ValueOf(&want).Elem(), reflect.ValueOf(&got).Elem()
	for i := range w.NumField() {
		switch v := w.Field(i).Interface().(type) {
		case time.Time:
			if at := g.Field(i).Interface().(time.Time); f.isNear(v, at) && at.Location() == time.UTC {
				g.Field(i).Set(w.Field(i))
			}
		case time.Duration:
			if f.areNear(v, g.Field(i).Interface().(time.Duration)) {
				g.Field(i).Set(w.Field(i))
			}
		case []batch.Receipt: // empty and nil are equal
			if rs := g.Field(i).Interface().([]batch.Receipt); areReceiptsEqual(v, rs) {
				g.Field(i).Set(w.Field(i))
			}
		}
	}
	return got
}

func areReceiptsEqual(a, b []batch.Receipt) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].TransactionID != b[i].TransactionID || a[i].Valid != b[i].Valid || a[i].Message != b[i].Message ||
			string(a[i].Data) != string(b[i].Data) {
			return false
		}
	}
	return true
}

func (f *fixture) requireSameRecord(s *modelBatch, got batch.Record) {
	f.Helper()
	want := s.record()
	require.True(f, s.created.Equal(got.CreatedAt), "CreatedAt of %s never changes", s.batch.Key())
	require.Equal(f, want, withNearTimesOf(f, want, got), "record of %s", s.batch.Key())
}

// record returns the application's view of the model's batch.
func (s *modelBatch) record() batch.Record {
	r := s.row.Record(s.batch.Key())
	r.Budget, r.DataChangeID, r.CreatedAt, r.TraceParent = s.batch.Budget, s.batch.DataChangeID, s.created, s.batch.TraceParent
	r.Tags = s.batch.Tags
	return r
}

// requireSameRow compares the part of a batch that changes. In Prepared it takes empty and nil as
// equal.
func (f *fixture) requireSameRow(want, got store.Row) {
	f.Helper()
	if len(want.Prepared) == 0 && len(got.Prepared) == 0 {
		got.Prepared = want.Prepared
	}
	require.Equal(f, want, withNearTimesOf(f, want, got))
}

func (f *fixture) requireSameActs(want, got []batch.Act) {
	f.Helper()
	require.Len(f, got, len(want), "acts")
	for i, w := range want {
		require.Equal(f, w, withNearTimesOf(f, w, got[i]), "act %d", i)
	}
}

func (f *fixture) requireSameApplied(want, got store.Applied, o store.Outcome) {
	f.Helper()
	require.Equal(f, o.Key, got.Key)
	f.requireSameError(want.Err, got.Err)
	require.Equal(f, want.Result, got.Result, "result of %s about %s", o.Finding, o.Key)
	require.Equal(f, want.Breach, got.Breach, "breach by %s about %s", o.Finding, o.Key)
	require.Equal(f, want.From, got.From, "state before %s about %s", o.Finding, o.Key)
	require.Equal(f, want.Row, withNearTimesOf(f, want.Row, got.Row), "row after %s about %s", o.Finding, o.Key)
	if want.Result != store.Gone {
		require.Equal(f, f.batches[o.Key.ID].created, got.Created, "order key of %s", o.Key)
		require.Equal(f, f.batches[o.Key.ID].batch.TraceParent, got.TraceParent, "trace context of %s", o.Key)
		require.True(f, f.isNear(want.At, got.At), "%s about %s was written at %s, want %s", o.Finding, o.Key, got.At, want.At)
	}
}

// requireSameError compares errors by the sentinels of package batch.
func (f *fixture) requireSameError(want, got error) {
	f.Helper()
	if want == nil {
		require.NoError(f, got)
		return
	}
	require.Error(f, got, "the store allows what the rule refuses: %v", want)
	for _, s := range []error{batch.ErrInvalidInput, batch.ErrConflict, batch.ErrNotFound, batch.ErrInDoubt, batch.ErrNotAllowed, batch.ErrMovedOn} {
		require.Equal(f, errors.Is(want, s), errors.Is(got, s), "want %q, got %q", want, got)
	}
}

func (f *fixture) requireSameLanes(want, got []batch.Lane) {
	f.Helper()
	require.Len(f, got, len(want), "lanes shown to the strategy")
	for i := range want {
		require.Equal(f, want[i].Service, got[i].Service)
		require.Equal(f, laneIDs(want[i]), laneIDs(got[i]), "lane %q", want[i].Service)
		for j, w := range want[i].Batches {
			g := got[i].Batches[j]
			if !areWaitingEqual(w, g) {
				require.Equal(f, w, g, "lane %q", want[i].Service)
			}
		}
	}
}

// areWaitingEqual compares prefixes as sets: their number and their order do not matter.
func areWaitingEqual(a, b batch.LaneBatch) bool {
	return a.ID == b.ID && a.State == b.State && a.Attempt == b.Attempt && a.Ready == b.Ready &&
		arePrefixesEqual(a.Footprint.Reads, b.Footprint.Reads) && arePrefixesEqual(a.Footprint.Writes, b.Footprint.Writes)
}

func arePrefixesEqual(a, b []string) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(slices.Compact(a), slices.Compact(b))
}

func (f *fixture) requireSameClaimed(want, got store.Claimed) {
	f.Helper()
	require.Equal(f, claimedIDs(want), claimedIDs(got))
	require.Len(f, got.Runs, len(want.Runs))
	for i, run := range want.Runs {
		require.Equal(f, run.Service, got.Runs[i].Service)
		require.Len(f, got.Runs[i].Batches, len(run.Batches))
		for j, w := range run.Batches {
			g := got.Runs[i].Batches[j]
			f.requireSameKnownRow(w.Was, g.Was)
			g.Was = w.Was
			if g.Row = w.Row; !reflect.DeepEqual(w, g) {
				require.Equal(f, w, g)
			}
		}
	}
	require.Len(f, got.Left, len(want.Left), "lanes left")
	for i := range want.Left {
		require.Equal(f, want.Left[i], got.Left[i])
	}
	require.True(f, f.areNear(want.NextReady, got.NextReady) && (want.NextReady == 0) == (got.NextReady == 0),
		"next ready in %s, want %s", got.NextReady, want.NextReady)
}

// requireSameKnownRow compares the row that a store returns for the outcome. A store may return
// none.
func (f *fixture) requireSameKnownRow(want, got *store.Row) {
	f.Helper()
	if got != nil {
		g := withNearTimesOf(f, *want, *got)
		g.Receipts, g.AskedAt, g.NextCheck = want.Receipts, want.AskedAt, want.NextCheck // these are no part of Was
		require.Equal(f, *want, g)
	}
}

func (f *fixture) requireSameInFlight(want, got []store.InFlight) {
	f.Helper()
	require.Equal(f, inFlightIDs(want), inFlightIDs(got), "due")
	for i, w := range want {
		g := withNearTimesOf(f, w, got[i])
		f.requireSameKnownRow(w.Was, g.Was)
		g.Row, g.Was = w.Row, w.Was
		// Without a ResendUntil the time left has no meaning.
		if s := f.batches[w.Key.ID]; s.row.ResendUntil.IsZero() {
			g.ResendLeft = w.ResendLeft
		}
		if s := f.batches[w.Key.ID]; s.row.SettlesAt.IsZero() {
			g.SettleLeft = w.SettleLeft
		}
		require.Equal(f, w, g)
	}
}
