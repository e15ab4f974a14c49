package storetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// abilityMethod is a call of a method of a store.
type abilityMethod struct {
	name    string
	ability store.Abilities // the ability to which the method belongs; none for the methods that every store has
	call    func() error
}

// abilityMethods returns a call of each method of a store. key and seen return a batch in the
// named standing.
func abilityMethods(ctx context.Context, st store.Store, key func(standing string) batch.Key, seen func(standing string) batch.Record) []abilityMethod {
	const ttl = 100 * time.Hour
	return []abilityMethod{
		{"Add", 0, func() error { return st.Add(ctx, newBatch("s", "new")) }},
		{"Get", 0, func() error { _, err := st.Get(ctx, key("queued")); return err }},
		{"List", store.CanList, func() error {
			_, _, err := st.List(ctx, store.ListQuery{})
			return err
		}},
		{"Counts", store.CanCount, func() error { _, err := st.Counts(ctx, store.CountsQuery{Start: true}); return err }},
		{"Finals", store.CanReadFinals, func() error {
			_, _, err := st.Finals(ctx, []batch.Key{key("committed"), key("queued")})
			return err
		}},
		{"Prune", store.CanPrune, func() error { _, err := st.Prune(ctx, store.PruneQuery{}); return err }},
		{"Lanes", 0, func() error { _, err := st.Lanes(ctx, store.LanesQuery{Start: true, Limit: 9}); return err }},
		{"Claim", 0, func() error {
			_, err := st.Claim(ctx, store.ClaimQuery{Lanes: []batch.ServiceID{"queued"}, Limit: 9, Window: 9, TTL: ttl}, chooseEveryReady)
			return err
		}},
		{"Payloads", 0, func() error { _, err := st.Payloads(ctx, []store.Ref{{Key: key("submitting")}}); return err }},
		{"Record", 0, func() error {
			_, err := st.Record(ctx, []store.Outcome{{Ref: store.Ref{Key: key("pending")}, Version: seen("pending").Version, By: batch.ByMonitor, Finding: store.IsCommitted}})
			return err
		}},
		{"Pending", 0, func() error { _, err := st.Pending(ctx, store.PendingQuery{Limit: 100, Lease: ttl}); return err }},
		{"Witnesses", store.CanFindWitnesses, func() error {
			_, err := st.Witnesses(ctx, store.Ref{Key: key("in doubt")}, 9)
			return err
		}},
		{"Checked", 0, func() error {
			return st.Checked(ctx, []store.Due{{Ref: store.Ref{Key: key("pending")}, In: ttl}})
		}},
		{"LeaseStream", store.CanKeepStreams, func() error { _, _, err := st.LeaseStream(ctx, "stream", "me", ttl); return err }},
		{"AppendStream", store.CanKeepStreams, func() error {
			_, err := st.AppendStream(ctx, batch.StreamEntry{Stream: "stream", Epoch: 1})
			return err
		}},
		{"FindStream", store.CanKeepStreams, func() error { _, err := st.FindStream(ctx, "stream", []string{"a"}); return err }},
		{"ReadTexts", store.CanKeepTexts, func() error { _, _, err := st.ReadTexts(ctx, "kind", "name"); return err }},
		{"ListTexts", store.CanKeepTexts, func() error { _, _, err := st.ListTexts(ctx, store.TextsQuery{Kind: "kind", Limit: 1}); return err }},
		{"SwapTexts", store.CanKeepTexts, func() error {
			_, err := st.SwapTexts(ctx, store.Text{Kind: "kind", Name: "name", Body: "cancelled"})
			return err
		}},
		{"Cancel", store.CanOperate, func() error { _, err := st.Cancel(ctx, seen("queued"), byWithReason("")); return err }},
		{"Requeue", store.CanOperate, func() error {
			_, err := st.Requeue(ctx, seen("rejected"), store.Requeue{}, byWithReason(""))
			return err
		}},
		{"Decide", store.CanOperate, func() error {
			_, err := st.Decide(ctx, seen("in doubt"), batch.NotExecutedReject, byWithReason(""))
			return err
		}},
		{"Withdraw", store.CanOperate, func() error { _, err := st.Withdraw(ctx, seen("in doubt"), byWithReason("")); return err }},
		{"Acquit", store.CanOperate, func() error {
			_, err := st.Acquit(ctx, seen("quarantined"), byWithReason(""))
			return err
		}},
		{"Steer", store.CanControl, func() error {
			_, _, err := st.Steer(ctx, store.Steering{Scope: batch.Only("queued"), Action: batch.ActionPause, By: byWithReason("")})
			return err
		}},
		{"Control", store.CanControl, func() error { _, err := st.Control(ctx, batch.Everything()); return err }},
		{"ControlsOf", store.CanControl, func() error { _, err := st.ControlsOf(ctx, store.ControlsQuery{Start: true}); return err }},
		{"History", store.CanInspect, func() error { _, err := st.History(ctx, key("rejected")); return err }},
		{"LaneHistory", store.CanInspect, func() error { _, err := st.LaneHistory(ctx, batch.Everything()); return err }},
		{"Attempts", store.CanInspect, func() error { _, err := st.Attempts(ctx, key("rejected")); return err }},
		{"Look", store.CanInspect, func() error { _, err := st.Look(ctx, key("queued"), 9); return err }},
		{"CountOpen", store.CanCountOpen, func() error { _, err := st.CountOpen(ctx); return err }},
		{"Acts", store.CanListActs, func() error { _, _, err := st.Acts(ctx, store.ActsQuery{}); return err }},
		{"KeepPrepared", store.CanKeepPrepared, func() error {
			_, err := st.KeepPrepared(ctx, []store.Prepared{{Ref: store.Ref{Key: key("submitting")}, Version: seen("submitting").Version, Bytes: []byte("bytes")}})
			return err
		}},
		{"Survey", store.CanSurvey, func() error { _, err := st.Survey(ctx, store.SurveyQuery{Start: true}); return err }},
		{"Tell", store.CanHint, func() error { return st.Tell(ctx, store.Hint{WholeTopics: store.TopicLanes}) }},
		{"Hear", store.CanHint, func() error {
			return st.Hear(ctx, store.Listener{ID: "me", Wants: store.AllTopics, Heard: func(store.Hint) {}, Live: func(string) {}})
		}},
		{"Find", store.CanFind, func() error { _, _, err := st.Find(ctx, store.FindQuery{ID: key("queued").ID}); return err }},
		{"FindLanes", store.CanFind, func() error { _, err := st.FindLanes(ctx, store.FindLanesQuery{Begins: true}); return err }},
	}
}

// undeclaredDifferences compares the abilities that a store declares with its methods, and returns
// each difference. The calls change nothing, since their context is done.
func undeclaredDifferences(st store.Store) (faults []string) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	key := func(standing string) batch.Key { return batch.Key{Service: "s", ID: batch.ID(standing)} }
	seen := func(standing string) batch.Record { return batch.Record{Key: key(standing), Version: 1} }
	can := st.Abilities()
	if unknown := can &^ store.AllAbilities; unknown != 0 {
		faults = append(faults, fmt.Sprintf("Abilities has %#x, which is none of package store's", uint32(unknown)))
	}
	for _, m := range abilityMethods(ctx, st, key, seen) {
		switch absent := errors.Is(m.call(), store.ErrUnsupported); {
		case absent && can.Has(m.ability):
			faults = append(faults, fmt.Sprintf("Abilities has %s, and %s gives ErrUnsupported: it is not there, or its name is misspelt", m.ability, m.name))
		case !absent && !can.Has(m.ability):
			faults = append(faults, fmt.Sprintf("%s is there, and Abilities does not have %s", m.name, m.ability))
		}
	}
	return faults
}

// hasAbilities reports whether the store has these abilities.
func (f *fixture) hasAbilities(all store.Abilities) bool { return f.abilities.Has(all) }

// endWithout ends the test at this point if the store lacks one of these abilities.
func (f *fixture) endWithout(all store.Abilities) {
	f.Helper()
	if lacks := all &^ f.abilities; lacks != 0 {
		f.Skipf("absent: %s, which the rest of this test needs", lacks)
	}
}

// reopen opens the data that the store has left.
func (f *fixture) reopen() {
	f.Helper()
	f.store = f.harness.Reopen(f.T)
	require.Equal(f, f.abilities, f.store.Abilities(), "the abilities of the store, opened anew")
}

// storedIDs returns the ids of all batches by order key, from List. If the store has no List, it
// returns the open batches, as claims see them.
func (f *fixture) storedIDs() []batch.ID {
	f.Helper()
	var all []batch.Record
	if f.hasAbilities(store.CanList) {
		for q := (store.ListQuery{Limit: 1000}); ; {
			rs, next := must2(f.store.List(f.ctx, q))(f)
			all = append(all, rs...)
			if next == "" {
				break
			}
			require.Less(f, len(all), 100_000, "the list has no end")
			q.After = next
		}
	} else {
		for _, s := range f.lanes(store.LanesQuery{Start: true, Limit: 1000}) {
			_, err := f.store.Claim(f.ctx, store.ClaimQuery{Lanes: []batch.ServiceID{s}, Limit: 1, Window: 100_000, TTL: f.units(1.5)}, func(l batch.Lane) []batch.Run {
				for _, id := range laneIDs(l) {
					all = append(all, batch.Record{Key: batch.Key{Service: s, ID: id}})
				}
				return nil
			})
			require.NoError(f, err)
		}
		for i, r := range all {
			var err error
			all[i], err = f.store.Get(f.ctx, r.Key)
			require.NoError(f, err)
		}
		slices.SortFunc(all, func(a, b batch.Record) int { return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID)) })
	}
	for _, r := range all {
		if s := f.batches[r.ID]; s != nil {
			f.requireSameRecord(s, r)
		}
	}
	return recordIDs(all)
}
