// Package whole makes a store with all methods of any store, so that its caller need not ask for
// each ability at each call.
package whole

import (
	"context"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Store is a [store.Full] made of groups. A caller may replace a group that its store lacks.
type Store struct {
	store.Store // as it was given
	store.FinalReader
	store.Lister
	store.Counter
	store.Pruner
	store.PreparedKeeper
	store.WitnessReader
	store.Ledgers
	store.Operator
	store.Controls
	store.Inspector
	store.StatsKeeper
	store.Surveyor
	store.BulkKeeper
	store.ActLister
	store.SummaryKeeper
	store.Journal
}

var _ store.Full = (*Store)(nil)

// Of returns s with all methods. A method of an ability that s lacks returns the error of
// refuse, which gets the names of the method and of the ability's interface.
func Of(s store.Store, refuse func(method, ability string) error) *Store {
	a := absent{refuse}
	return &Store{
		s, or[store.FinalReader](s, a), or[store.Lister](s, a), or[store.Counter](s, a), or[store.Pruner](s, a),
		or[store.PreparedKeeper](s, a), or[store.WitnessReader](s, a), or[store.Ledgers](s, a),
		or[store.Operator](s, a), or[store.Controls](s, a), or[store.Inspector](s, a), or[store.StatsKeeper](s, a),
		or[store.Surveyor](s, a), or[store.BulkKeeper](s, a), or[store.ActLister](s, a), or[store.SummaryKeeper](s, a),
		or[store.Journal](s, a),
	}
}

// or returns s where it has the ability, and a where it has not.
func or[T any](s store.Store, a T) T {
	if has, ok := s.(T); ok {
		return has
	}
	return a
}

// absent has the methods of all abilities, and refuses each.
type absent struct {
	refuse func(method, ability string) error
}

func (a absent) Finals(context.Context, []batch.Key) ([]batch.Record, []batch.Key, error) {
	return nil, nil, a.refuse("Finals", "store.FinalReader")
}

func (a absent) List(context.Context, store.ListQuery) ([]batch.Record, store.Cursor, error) {
	return nil, "", a.refuse("List", "store.Lister")
}

func (a absent) Counts(context.Context, store.CountsQuery) ([]store.LaneCounts, error) {
	return nil, a.refuse("Counts", "store.Counter")
}

func (a absent) Prune(context.Context, store.PruneQuery) (store.Pruned, error) {
	return store.Pruned{}, a.refuse("Prune", "store.Pruner")
}

func (a absent) KeepPrepared(context.Context, []store.Prepared) ([]bool, error) {
	return nil, a.refuse("KeepPrepared", "store.PreparedKeeper")
}

func (a absent) Witnesses(context.Context, store.Ref, int) ([]batch.ID, error) {
	return nil, a.refuse("Witnesses", "store.WitnessReader")
}

func (a absent) Ledger(context.Context, string) (string, error) {
	return "", a.refuse("Ledger", "store.Ledgers")
}

func (a absent) Serve(context.Context, []store.Served) ([]string, error) {
	return nil, a.refuse("Serve", "store.Ledgers")
}

func (a absent) KeepTraits(context.Context, string, string, string) (string, error) {
	return "", a.refuse("KeepTraits", "store.Ledgers")
}

func (a absent) Cancel(context.Context, batch.Record, batch.By) (batch.Record, error) {
	return batch.Record{}, a.refuse("Cancel", "store.Operator")
}

func (a absent) Requeue(context.Context, batch.Record, store.Requeue, batch.By) (batch.Record, error) {
	return batch.Record{}, a.refuse("Requeue", "store.Operator")
}

func (a absent) Decide(context.Context, batch.Record, batch.Ruling, batch.By) (batch.Record, error) {
	return batch.Record{}, a.refuse("Decide", "store.Operator")
}

func (a absent) Acquit(context.Context, batch.Record, batch.By) (batch.Record, error) {
	return batch.Record{}, a.refuse("Acquit", "store.Operator")
}

func (a absent) Steer(context.Context, store.Steering) (batch.Control, bool, error) {
	return batch.Control{}, false, a.refuse("Steer", "store.Controls")
}

func (a absent) Control(context.Context, batch.Scope) (batch.Control, error) {
	return batch.Control{}, a.refuse("Control", "store.Controls")
}

func (a absent) ControlsOf(context.Context, store.ControlsQuery) ([]batch.Control, error) {
	return nil, a.refuse("ControlsOf", "store.Controls")
}

func (a absent) History(context.Context, batch.Key) ([]batch.Act, error) {
	return nil, a.refuse("History", "store.Inspector")
}

func (a absent) LaneHistory(context.Context, batch.Scope) ([]batch.Act, error) {
	return nil, a.refuse("LaneHistory", "store.Inspector")
}

func (a absent) Attempts(context.Context, batch.Key) ([]batch.Report, error) {
	return nil, a.refuse("Attempts", "store.Inspector")
}

func (a absent) Look(context.Context, batch.Key, int) (store.Look, error) {
	return store.Look{}, a.refuse("Look", "store.Inspector")
}

func (a absent) KeepInstance(context.Context, store.Instance) error {
	return a.refuse("KeepInstance", "store.StatsKeeper")
}

func (a absent) RefreshStats(context.Context, store.RefreshQuery) (bool, error) {
	return false, a.refuse("RefreshStats", "store.StatsKeeper")
}

func (a absent) Stats(context.Context) (store.Stats, error) {
	return store.Stats{}, a.refuse("Stats", "store.StatsKeeper")
}

func (a absent) Survey(context.Context, store.SurveyQuery) (store.Survey, error) {
	return store.Survey{}, a.refuse("Survey", "store.Surveyor")
}

func (a absent) Find(context.Context, store.FindQuery) (batch.Record, error) {
	return batch.Record{}, a.refuse("Find", "store.Surveyor")
}

func (a absent) AddBulk(context.Context, string, string, []string, time.Duration) (store.Bulk, error) {
	return store.Bulk{}, a.refuse("AddBulk", "store.BulkKeeper")
}

func (a absent) SetBulk(context.Context, string, int64, string, *store.BulkPart) (store.Bulk, error) {
	return store.Bulk{}, a.refuse("SetBulk", "store.BulkKeeper")
}

func (a absent) GetBulk(context.Context, string) (store.Bulk, error) {
	return store.Bulk{}, a.refuse("GetBulk", "store.BulkKeeper")
}

func (a absent) GetBulkPart(context.Context, string, int) (string, error) {
	return "", a.refuse("GetBulkPart", "store.BulkKeeper")
}

func (a absent) ListBulks(context.Context, int) ([]store.Bulk, error) {
	return nil, a.refuse("ListBulks", "store.BulkKeeper")
}

func (a absent) Acts(context.Context, store.ActsQuery) ([]batch.Act, store.Cursor, error) {
	return nil, "", a.refuse("Acts", "store.ActLister")
}

func (a absent) Summary(context.Context, string) (store.Summary, error) {
	return store.Summary{}, a.refuse("Summary", "store.SummaryKeeper")
}

func (a absent) KeepSummary(context.Context, string, int64, store.Summary) (bool, error) {
	return false, a.refuse("KeepSummary", "store.SummaryKeeper")
}

func (a absent) LeaseStream(context.Context, string, string, time.Duration) (int64, bool, error) {
	return 0, false, a.refuse("LeaseStream", "store.Journal")
}

func (a absent) AppendStream(context.Context, batch.StreamEntry) (bool, error) {
	return false, a.refuse("AppendStream", "store.Journal")
}

func (a absent) FindStream(context.Context, string, []string) (batch.StreamFound, error) {
	return batch.StreamFound{}, a.refuse("FindStream", "store.Journal")
}
