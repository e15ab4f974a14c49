package engine

import (
	"context"
	"errors"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/whole"
	"github.com/dltbatch/dltbatch/store"
)

// watchedStore is the store as one loop uses it, or as everybody else does: it records how each
// call of a loop went, and reports all calls.
type watchedStore struct {
	*whole.Store
	calls calls
	v     *vitals // nil outside of loops
	loop  string
}

// given is the store that New got.
func (w watchedStore) given() store.Store { return w.Store.Store }

// writing are the calls of loops that write whenever they succeed: on a server that takes no writes they
// fail, while reads go on.
var writing = map[string]bool{"claim": true, "record": true, "checked": true, "keep_prepared": true}

// watch calls the store, about n items, or about as many as came back. For a loop invalid input
// and not found count as answers, not as failures.
func watch[T any](ctx context.Context, w watchedStore, op string, n int, back func(T) int, f func() (T, error)) (got T, err error) {
	c := batch.Call{Part: "store", Op: op, Items: n}
	ask := func() {
		got, err = f()
		if c.Err = err; back != nil {
			c.Items = back(got)
		}
	}
	if w.v == nil {
		w.calls.time(ctx, &c, ask)
		return got, err
	}
	var writes *part
	if writing[op] {
		writes = &w.v.writes
	}
	w.v.call(ctx, &w.v.store, writes, w.loop, &c, func() error {
		ask()
		if errors.Is(err, batch.ErrInvalidInput) || errors.Is(err, batch.ErrNotFound) {
			return nil
		}
		return err
	})
	return got, err
}

// watchErr is watch for a call that gives nothing but an error.
func watchErr(ctx context.Context, w watchedStore, op string, n int, f func() error) error {
	_, err := watch(ctx, w, op, n, nil, func() (struct{}, error) { return struct{}{}, f() })
	return err
}

func length[T any](all []T) int { return len(all) }

func claims(c store.Claimed) (n int) {
	for _, r := range c.Runs {
		n += len(r.Batches)
	}
	return n
}

func removed(p store.Pruned) int { return p.Batches + p.Orders + p.StreamIDs + p.LaneActs }

func (w watchedStore) Add(ctx context.Context, batches ...batch.Batch) error {
	return watchErr(ctx, w, "add", len(batches), func() error { return w.Store.Add(ctx, batches...) })
}

// upkeep is for a store that has an Upkeep.
func (w watchedStore) upkeep(ctx context.Context, s store.Upkeeper) ([]store.Warning, error) {
	return watch(ctx, w, "upkeep", 0, length, func() ([]store.Warning, error) { return s.Upkeep(ctx) })
}

func (w watchedStore) Get(ctx context.Context, key batch.Key) (batch.Record, error) {
	return watch(ctx, w, "get", 1, nil, func() (batch.Record, error) { return w.Store.Get(ctx, key) })
}

func (w watchedStore) Finals(ctx context.Context, keys []batch.Key) (final []batch.Record, missing []batch.Key, err error) {
	err = watchErr(ctx, w, "finals", len(keys), func() (err error) {
		final, missing, err = w.Store.Finals(ctx, keys)
		return err
	})
	return final, missing, err
}

func (w watchedStore) List(ctx context.Context, q store.ListQuery) (all []batch.Record, next store.Cursor, err error) {
	all, err = watch(ctx, w, "list", 0, length, func() (all []batch.Record, err error) {
		all, next, err = w.Store.List(ctx, q)
		return all, err
	})
	return all, next, err
}

func (w watchedStore) Lanes(ctx context.Context, q store.LanesQuery) ([]batch.ServiceID, error) {
	return watch(ctx, w, "lanes", 0, length, func() ([]batch.ServiceID, error) { return w.Store.Lanes(ctx, q) })
}

func (w watchedStore) Claim(ctx context.Context, q store.ClaimQuery, choose store.Choose) (store.Claimed, error) {
	return watch(ctx, w, "claim", 0, claims, func() (store.Claimed, error) { return w.Store.Claim(ctx, q, choose) })
}

func (w watchedStore) Payloads(ctx context.Context, refs []store.Ref) ([][]byte, error) {
	return watch(ctx, w, "payloads", len(refs), nil, func() ([][]byte, error) { return w.Store.Payloads(ctx, refs) })
}

func (w watchedStore) KeepPrepared(ctx context.Context, kept []store.Prepared) ([]bool, error) {
	return watch(ctx, w, "keep_prepared", len(kept), nil, func() ([]bool, error) { return w.Store.KeepPrepared(ctx, kept) })
}

func (w watchedStore) Record(ctx context.Context, outcomes []store.Outcome) ([]store.Applied, error) {
	return watch(ctx, w, "record", len(outcomes), nil, func() ([]store.Applied, error) { return w.Store.Record(ctx, outcomes) })
}

func (w watchedStore) Pending(ctx context.Context, q store.PendingQuery) ([]store.InFlight, error) {
	return watch(ctx, w, "pending", 0, length, func() ([]store.InFlight, error) { return w.Store.Pending(ctx, q) })
}

func (w watchedStore) Witnesses(ctx context.Context, ref store.Ref, limit int) ([]batch.ID, error) {
	return watch(ctx, w, "witnesses", 0, length, func() ([]batch.ID, error) { return w.Store.Witnesses(ctx, ref, limit) })
}

func (w watchedStore) Checked(ctx context.Context, due []store.Due) error {
	return watchErr(ctx, w, "checked", len(due), func() error { return w.Store.Checked(ctx, due) })
}

func (w watchedStore) Prune(ctx context.Context, q store.PruneQuery) (store.Pruned, error) {
	return watch(ctx, w, "prune", 0, removed, func() (store.Pruned, error) { return w.Store.Prune(ctx, q) })
}

func (w watchedStore) Ledger(ctx context.Context, name string) (string, error) {
	return watch(ctx, w, "ledger", 1, nil, func() (string, error) { return w.Store.Ledger(ctx, name) })
}

func (w watchedStore) Serve(ctx context.Context, services []store.Served) ([]string, error) {
	return watch(ctx, w, "serve", len(services), nil, func() ([]string, error) { return w.Store.Serve(ctx, services) })
}

func (w watchedStore) KeepTraits(ctx context.Context, name, traits, seen string) (string, error) {
	return watch(ctx, w, "keep_traits", 1, nil, func() (string, error) { return w.Store.KeepTraits(ctx, name, traits, seen) })
}

func (w watchedStore) Cancel(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error) {
	return watch(ctx, w, "cancel", 1, nil, func() (batch.Record, error) { return w.Store.Cancel(ctx, seen, by) })
}

func (w watchedStore) Requeue(ctx context.Context, seen batch.Record, q store.Requeue, by batch.By) (batch.Record, error) {
	return watch(ctx, w, "requeue", 1, nil, func() (batch.Record, error) { return w.Store.Requeue(ctx, seen, q, by) })
}

func (w watchedStore) Decide(ctx context.Context, seen batch.Record, ruling batch.Ruling, by batch.By) (batch.Record, error) {
	return watch(ctx, w, "decide", 1, nil, func() (batch.Record, error) { return w.Store.Decide(ctx, seen, ruling, by) })
}

func (w watchedStore) Acquit(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error) {
	return watch(ctx, w, "acquit", 1, nil, func() (batch.Record, error) { return w.Store.Acquit(ctx, seen, by) })
}

func (w watchedStore) Steer(ctx context.Context, s store.Steering) (now batch.Control, changed bool, err error) {
	now, err = watch(ctx, w, "steer", 1, nil, func() (now batch.Control, err error) {
		now, changed, err = w.Store.Steer(ctx, s)
		return now, err
	})
	return now, changed, err
}

func (w watchedStore) KeepInstance(ctx context.Context, i store.Instance) error {
	return watchErr(ctx, w, "keep_instance", 1, func() error { return w.Store.KeepInstance(ctx, i) })
}

func (w watchedStore) RefreshStats(ctx context.Context, q store.RefreshQuery) (bool, error) {
	return watch(ctx, w, "refresh_stats", 0, nil, func() (bool, error) { return w.Store.RefreshStats(ctx, q) })
}

func (w watchedStore) Stats(ctx context.Context) (store.Stats, error) {
	return watch(ctx, w, "stats", 0, func(s store.Stats) int { return len(s.Instances) }, func() (store.Stats, error) { return w.Store.Stats(ctx) })
}

func (w watchedStore) Control(ctx context.Context, scope batch.Scope) (batch.Control, error) {
	return watch(ctx, w, "control", 1, nil, func() (batch.Control, error) { return w.Store.Control(ctx, scope) })
}

func (w watchedStore) History(ctx context.Context, key batch.Key) ([]batch.Act, error) {
	return watch(ctx, w, "history", 1, nil, func() ([]batch.Act, error) { return w.Store.History(ctx, key) })
}

func (w watchedStore) LaneHistory(ctx context.Context, scope batch.Scope) ([]batch.Act, error) {
	return watch(ctx, w, "lane_history", 1, nil, func() ([]batch.Act, error) { return w.Store.LaneHistory(ctx, scope) })
}

func (w watchedStore) Attempts(ctx context.Context, key batch.Key) ([]batch.Report, error) {
	return watch(ctx, w, "attempts", 1, nil, func() ([]batch.Report, error) { return w.Store.Attempts(ctx, key) })
}

func (w watchedStore) Look(ctx context.Context, key batch.Key, window int) (store.Look, error) {
	return watch(ctx, w, "look", 1, nil, func() (store.Look, error) { return w.Store.Look(ctx, key, window) })
}
