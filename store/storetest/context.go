package storetest

import (
	"context"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func contextTests() []test {
	return []test{{name: "a context that is done changes nothing", run: contextDone}}
}

func contextDone(f *fixture) {
	named := f.oneOfEach()
	f.pass(1)
	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	id := func(name string) batch.Key { return f.rows[named[name]].b.Key() }
	seen := func(name string) batch.Record { return f.rows[named[name]].row.Record(id(name)) }
	calls := map[string]func() error{
		"Add": func() error { return f.st.Add(ctx, bt("s", "new")) },
		"Get": func() error { _, err := f.st.Get(ctx, id("queued")); return err },
		"List": func() error {
			_, _, err := f.st.List(ctx, store.ListQuery{})
			return err
		},
		"Counts": func() error { _, err := f.st.Counts(ctx, store.CountsQuery{Start: true}); return err },
		"Finals": func() error {
			_, _, err := f.st.Finals(ctx, []batch.Key{id("committed"), id("queued")})
			return err
		},
		"Prune": func() error { _, err := f.st.Prune(ctx, store.PruneQuery{}); return err },
		"Lanes": func() error { _, err := f.st.Lanes(ctx, store.LanesQuery{Start: true, Limit: 9}); return err },
		"Claim": func() error {
			_, err := f.st.Claim(ctx, store.ClaimQuery{Lanes: []batch.ServiceID{"queued"}, Limit: 9, Window: 9, TTL: f.u(1)}, everyReady)
			return err
		},
		"Payloads": func() error { _, err := f.st.Payloads(ctx, []store.Ref{{Key: id("submitting")}}); return err },
		"Record": func() error {
			_, err := f.st.Record(ctx, []store.Outcome{f.monitored(named["pending"], store.IsCommitted)})
			return err
		},
		"Pending": func() error { _, err := f.st.Pending(ctx, store.PendingQuery{Limit: 100, Lease: f.u(100)}); return err },
		"Witnesses": func() error {
			_, err := f.st.Witnesses(ctx, store.Ref{Key: id("in doubt")}, 9)
			return err
		},
		"Checked": func() error {
			return f.st.Checked(ctx, []store.Due{{Ref: store.Ref{Key: id("pending")}, In: f.u(100)}})
		},
		"LeaseStream": func() error { _, _, err := f.st.LeaseStream(ctx, "stream", "me", f.u(1)); return err },
		"AppendStream": func() error {
			_, err := f.st.AppendStream(ctx, batch.StreamEntry{Stream: "stream", Epoch: 1})
			return err
		},
		"FindStream": func() error { _, err := f.st.FindStream(ctx, "stream", []string{"a"}); return err },
		"Ledger":     func() error { _, err := f.st.Ledger(ctx, "cancelled"); return err },
		"Serve": func() error {
			_, err := f.st.Serve(ctx, []store.Served{{Service: "s", Ledger: "cancelled"}})
			return err
		},
		"KeepTraits": func() error {
			_, err := f.st.KeepTraits(ctx, "s", "cancelled", "")
			return err
		},
		"Cancel":  func() error { _, err := f.st.Cancel(ctx, seen("queued"), by("")); return err },
		"Requeue": func() error { _, err := f.st.Requeue(ctx, seen("rejected"), store.Requeue{}, by("")); return err },
		"Decide": func() error {
			_, err := f.st.Decide(ctx, seen("in doubt"), batch.NotExecutedReject, by(""))
			return err
		},
		"Acquit": func() error {
			who := "rejected"
			if f.has(controls) {
				who = "quarantined"
			}
			_, err := f.st.Acquit(ctx, seen(who), by(""))
			return err
		},
		"Steer": func() error {
			_, _, err := f.st.Steer(ctx, store.Steering{Scope: batch.Only("queued"), Action: batch.ActionPause, By: by("")})
			return err
		},
		"Control":     func() error { _, err := f.st.Control(ctx, batch.Everything()); return err },
		"ControlsOf":  func() error { _, err := f.st.ControlsOf(ctx, store.ControlsQuery{Start: true}); return err },
		"History":     func() error { _, err := f.st.History(ctx, id("rejected")); return err },
		"LaneHistory": func() error { _, err := f.st.LaneHistory(ctx, batch.Everything()); return err },
		"Attempts":    func() error { _, err := f.st.Attempts(ctx, id("rejected")); return err },
		"Look":        func() error { _, err := f.st.Look(ctx, id("queued"), 9); return err },

		"KeepInstance": func() error { return f.st.KeepInstance(ctx, store.Instance{ID: "cancelled"}) },
		"RefreshStats": func() error { _, err := f.st.RefreshStats(ctx, store.RefreshQuery{}); return err },
		"Stats":        func() error { _, err := f.st.Stats(ctx); return err },

		"AddBulk":     func() error { _, err := f.st.AddBulk(ctx, "token", "", nil, 0); return err },
		"SetBulk":     func() error { _, err := f.st.SetBulk(ctx, "token", 1, "", nil); return err },
		"GetBulk":     func() error { _, err := f.st.GetBulk(ctx, "token"); return err },
		"GetBulkPart": func() error { _, err := f.st.GetBulkPart(ctx, "token", 0); return err },
		"ListBulks":   func() error { _, err := f.st.ListBulks(ctx, 1); return err },

		"Acts":        func() error { _, _, err := f.st.Acts(ctx, store.ActsQuery{}); return err },
		"Summary":     func() error { _, err := f.st.Summary(ctx, "name"); return err },
		"KeepSummary": func() error { _, err := f.st.KeepSummary(ctx, "name", 0, store.Summary{}); return err },
	}
	for ability, names := range map[string][]string{
		lister: {"List"}, counter: {"Counts"}, finalReader: {"Finals"}, pruner: {"Prune"}, witnessReader: {"Witnesses"},
		ledgers: {"Ledger", "Serve", "KeepTraits"}, journal: {"LeaseStream", "AppendStream", "FindStream"},
		operator: {"Cancel", "Requeue", "Decide", "Acquit"}, controls: {"Steer", "Control", "ControlsOf"},
		bulkKeeper: {"AddBulk", "SetBulk", "GetBulk", "GetBulkPart", "ListBulks"},
		actLister:  {"Acts"}, summaryKeeper: {"Summary", "KeepSummary"},
		statsKeeper: {"KeepInstance", "RefreshStats", "Stats"},
		inspector:   {"History", "LaneHistory", "Attempts", "Look"},
	} {
		for _, name := range names {
			require.Contains(f, calls, name)
			if !f.has(ability) {
				delete(calls, name)
			}
		}
	}
	for name, call := range calls {
		assert.ErrorIs(f, call(), context.Canceled, name)
	}
	f.absent(bt("s", "new"))
	for _, id := range named {
		f.get(id)
	}
	if f.has(controls) {
		f.sameControl(batch.Only("queued"))
	}
	if f.has(statsKeeper) {
		s := f.stats()
		assert.True(f, s.At.IsZero())
		assert.Empty(f, s.Instances)
	}
	if f.has(ledgers) {
		name, err := f.st.Ledger(f.ctx, "first")
		assert.NoError(f, err)
		assert.Equal(f, "first", name)
	}
	assert.Len(f, f.pending(100, f.u(0.5)), 11)
}
