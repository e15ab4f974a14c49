package engine

import (
	"context"
	"errors"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/internal/recall"
	"github.com/dltbatch/dltbatch/store"
)

// meteredStore is the store for one user of it: a loop of a Run, or all code outside of the loops.
// Every call goes through call.
type meteredStore struct {
	store.Store // always a substitutedStore
	meter
	loop string // "" outside of loops
	// ownRow is true if the writes are of this instance's own row. They end no failures of other
	// writes, because other tables may take no writes.
	ownRow bool
	// onTrouble reports a panic outside of loops, where nothing else would log its stack. It is
	// nil in a loop.
	onTrouble func(error)

	recalled *recall.Batches // learns what the store says about batches; nil outside of loops
	// These are set for queuer and monitor, which get batches from the store, and nil for all
	// others.
	admission     *admission
	takeForgotten func(context.Context, store.ClaimedRun, map[batch.Key]*recall.Forgotten) // gets a run in place of the loop
}

// givenStore returns the store that New got.
func (a meteredStore) givenStore() store.Store { return a.Store.(substitutedStore).Store }

// newStoreMeter returns the meter of calls to the store. In a loop, the errors for invalid input
// and for "not found" count as answers, not as failures.
func newStoreMeter(to callReporter, v *vitals) meter {
	m := meter{partName: "store", reportCall: to, vitals: v, isAnswer: func(err error) bool {
		return errors.Is(err, batch.ErrInvalidInput) || errors.Is(err, batch.ErrNotFound)
	}}
	if v != nil {
		m.wholePart = &v.store
	}
	return m
}

// writingCalls are the calls of loops that write whenever they succeed. On a server that takes no
// writes they fail, while reads succeed.
var writingCalls = map[string]bool{"claim": true, "record": true, "checked": true, "keep_prepared": true, "swap_texts": true}

// call makes a call to the store about n items, or about back(result) items if back is not nil.
func call[T any](ctx context.Context, a meteredStore, op string, n int, back func(T) int, f func() (T, error)) (got T, err error) {
	m, writes := a.meter, (*partCalls)(nil)
	switch {
	case a.vitals == nil || !writingCalls[op]:
	case a.ownRow:
		m.wholePart = &a.vitals.ownRow
	default:
		writes = &a.vitals.loopWrites
	}
	err = m.call(ctx, a.loop, op, &n, writes, func() (err error) {
		if got, err = f(); back != nil {
			n = back(got)
		}
		return err
	})
	if a.onTrouble != nil && loop.Panicked(err) {
		a.onTrouble(err)
	}
	return got, err
}

// callErr is call for a method that returns only an error.
func callErr(ctx context.Context, a meteredStore, op string, n int, f func() error) error {
	_, err := call(ctx, a, op, n, nil, func() (struct{}, error) { return struct{}{}, f() })
	return err
}

func itemCount[T any](all []T) int { return len(all) }

func claimCount(c store.Claimed) (n int) {
	for _, r := range c.Runs {
		n += len(r.Batches)
	}
	return n
}

func prunedCount(p store.Pruned) int { return p.Batches + p.Orders + p.StreamIDs + p.LaneActs }

func (a meteredStore) Add(ctx context.Context, batches ...batch.Batch) error {
	return callErr(ctx, a, "add", len(batches), func() error { return a.Store.Add(ctx, batches...) })
}

func (a meteredStore) Upkeep(ctx context.Context) ([]store.Warning, error) {
	return call(ctx, a, "upkeep", 0, itemCount, func() ([]store.Warning, error) { return a.Store.Upkeep(ctx) })
}

func (a meteredStore) Get(ctx context.Context, key batch.Key) (batch.Record, error) {
	return call(ctx, a, "get", 1, nil, func() (batch.Record, error) { return a.Store.Get(ctx, key) })
}

func (a meteredStore) Finals(ctx context.Context, keys []batch.Key) (final []batch.Record, missing []batch.Key, err error) {
	err = callErr(ctx, a, "finals", len(keys), func() (err error) {
		final, missing, err = a.Store.Finals(ctx, keys)
		return err
	})
	return final, missing, err
}

func (a meteredStore) List(ctx context.Context, q store.ListQuery) (all []batch.Record, next store.Cursor, err error) {
	all, err = call(ctx, a, "list", 0, itemCount, func() (all []batch.Record, err error) {
		all, next, err = a.Store.List(ctx, q)
		return all, err
	})
	return all, next, err
}

func (a meteredStore) Lanes(ctx context.Context, q store.LanesQuery) ([]batch.ServiceID, error) {
	return call(ctx, a, "lanes", 0, itemCount, func() ([]batch.ServiceID, error) { return a.Store.Lanes(ctx, q) })
}

// Claim claims nothing from lanes that the admission refuses, and leaves out the runs of lanes in
// which the database has forgotten something.
func (a meteredStore) Claim(ctx context.Context, q store.ClaimQuery, choose store.Choose) (claimed store.Claimed, err error) {
	if a.admission != nil {
		if q.Lanes, err = a.admission.servedLanes(ctx, q.Lanes); err != nil || len(q.Lanes) == 0 {
			return claimed, err
		}
	}
	claimed, err = call(ctx, a, "claim", 0, claimCount, func() (store.Claimed, error) { return a.Store.Claim(ctx, q, choose) })
	if err == nil && a.takeForgotten != nil {
		claimed.Runs = a.postableRuns(ctx, claimed.Runs)
	}
	return claimed, err
}

func (a meteredStore) Payloads(ctx context.Context, refs []store.Ref) ([][]byte, error) {
	return call(ctx, a, "payloads", len(refs), nil, func() ([][]byte, error) { return a.Store.Payloads(ctx, refs) })
}

// KeepPrepared notes the bytes that the store kept, before they are posted.
func (a meteredStore) KeepPrepared(ctx context.Context, all []store.Prepared) ([]bool, error) {
	kept, err := call(ctx, a, "keep_prepared", len(all), nil, func() ([]bool, error) { return a.Store.KeepPrepared(ctx, all) })
	if err == nil && a.recalled != nil && len(kept) == len(all) {
		a.noteKept(all, kept)
	}
	return kept, err
}

func (a meteredStore) Record(ctx context.Context, outcomes []store.Outcome) ([]store.Applied, error) {
	return call(ctx, a, "record", len(outcomes), nil, func() ([]store.Applied, error) { return a.Store.Record(ctx, outcomes) })
}

// Pending leaves out batches that another ledger serves, because this ledger's answers mean
// nothing for them. Batches in flight of a service that is held for another reason are still
// followed. Pending fills in the bytes that the database has forgotten: the ledger must not be
// asked about others.
func (a meteredStore) Pending(ctx context.Context, q store.PendingQuery) ([]store.InFlight, error) {
	rows, err := call(ctx, a, "pending", 0, itemCount, func() ([]store.InFlight, error) { return a.Store.Pending(ctx, q) })
	if a.admission != nil && err == nil {
		rows, err = a.admission.ownRows(ctx, rows)
	}
	if a.recalled != nil && err == nil {
		a.noteSeen(rows)
	}
	return rows, err
}

func (a meteredStore) Witnesses(ctx context.Context, ref store.Ref, limit int) ([]batch.ID, error) {
	return call(ctx, a, "witnesses", 0, itemCount, func() ([]batch.ID, error) { return a.Store.Witnesses(ctx, ref, limit) })
}

func (a meteredStore) Checked(ctx context.Context, due []store.Due) error {
	return callErr(ctx, a, "checked", len(due), func() error { return a.Store.Checked(ctx, due) })
}

func (a meteredStore) Prune(ctx context.Context, q store.PruneQuery) (store.Pruned, error) {
	return call(ctx, a, "prune", 0, prunedCount, func() (store.Pruned, error) { return a.Store.Prune(ctx, q) })
}

// datedTexts is the result of ReadTexts: texts and the database's time.
type datedTexts struct {
	texts []store.Text
	now   time.Time
}

func (t datedTexts) count() int { return len(t.texts) }

func (a meteredStore) ReadTexts(ctx context.Context, kind store.TextKind, names ...string) ([]store.Text, time.Time, error) {
	found, err := call(ctx, a, "read_texts", len(names), nil, func() (t datedTexts, err error) {
		t.texts, t.now, err = a.Store.ReadTexts(ctx, kind, names...)
		return t, err
	})
	return found.texts, found.now, err
}

func (a meteredStore) ListTexts(ctx context.Context, q store.TextsQuery) ([]store.Text, time.Time, error) {
	found, err := call(ctx, a, "list_texts", 0, datedTexts.count, func() (t datedTexts, err error) {
		t.texts, t.now, err = a.Store.ListTexts(ctx, q)
		return t, err
	})
	return found.texts, found.now, err
}

func (a meteredStore) SwapTexts(ctx context.Context, texts ...store.Text) (bool, error) {
	return call(ctx, a, "swap_texts", len(texts), nil, func() (bool, error) { return a.Store.SwapTexts(ctx, texts...) })
}

func (a meteredStore) Tell(ctx context.Context, h store.Hint) error {
	return callErr(ctx, a, "tell", 1, func() error { return a.Store.Tell(ctx, h) })
}

func (a meteredStore) CountOpen(ctx context.Context) (store.Totals, error) {
	return call(ctx, a, "count_open", 0, nil, func() (store.Totals, error) { return a.Store.CountOpen(ctx) })
}

func (a meteredStore) Cancel(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error) {
	return call(ctx, a, "cancel", 1, nil, func() (batch.Record, error) { return a.Store.Cancel(ctx, seen, by) })
}

func (a meteredStore) Requeue(ctx context.Context, seen batch.Record, q store.Requeue, by batch.By) (batch.Record, error) {
	return call(ctx, a, "requeue", 1, nil, func() (batch.Record, error) { return a.Store.Requeue(ctx, seen, q, by) })
}

func (a meteredStore) Decide(ctx context.Context, seen batch.Record, ruling batch.Ruling, by batch.By) (batch.Record, error) {
	return call(ctx, a, "decide", 1, nil, func() (batch.Record, error) { return a.Store.Decide(ctx, seen, ruling, by) })
}

func (a meteredStore) Withdraw(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error) {
	return call(ctx, a, "withdraw", 1, nil, func() (batch.Record, error) { return a.Store.Withdraw(ctx, seen, by) })
}

func (a meteredStore) Acquit(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error) {
	return call(ctx, a, "acquit", 1, nil, func() (batch.Record, error) { return a.Store.Acquit(ctx, seen, by) })
}

func (a meteredStore) Steer(ctx context.Context, s store.Steering) (now batch.Control, changed bool, err error) {
	now, err = call(ctx, a, "steer", 1, nil, func() (now batch.Control, err error) {
		now, changed, err = a.Store.Steer(ctx, s)
		return now, err
	})
	return now, changed, err
}

func (a meteredStore) Control(ctx context.Context, scope batch.Scope) (batch.Control, error) {
	return call(ctx, a, "control", 1, nil, func() (batch.Control, error) { return a.Store.Control(ctx, scope) })
}

func (a meteredStore) History(ctx context.Context, key batch.Key) ([]batch.Act, error) {
	return call(ctx, a, "history", 1, nil, func() ([]batch.Act, error) { return a.Store.History(ctx, key) })
}

func (a meteredStore) LaneHistory(ctx context.Context, scope batch.Scope) ([]batch.Act, error) {
	return call(ctx, a, "lane_history", 1, nil, func() ([]batch.Act, error) { return a.Store.LaneHistory(ctx, scope) })
}

func (a meteredStore) Attempts(ctx context.Context, key batch.Key) ([]batch.Report, error) {
	return call(ctx, a, "attempts", 1, nil, func() ([]batch.Report, error) { return a.Store.Attempts(ctx, key) })
}

func (a meteredStore) Look(ctx context.Context, key batch.Key, window int) (store.Look, error) {
	return call(ctx, a, "look", 1, nil, func() (store.Look, error) { return a.Store.Look(ctx, key, window) })
}
