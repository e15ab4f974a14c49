package operator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/dlt"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/internal/relied"
	"github.com/dltbatch/dltbatch/internal/texts"
	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
	"github.com/dltbatch/dltbatch/store/sqlite"
	"github.com/dltbatch/dltbatch/store/sqlite/sqliteopen"
)

var ada = batch.By{Actor: "ada", Reason: "ticket 17"}

// testDesk is a store, with a Desk for it.
type testDesk struct {
	*testing.T
	*operator.Desk
	st store.Store
}

// inStores runs a test on each store.
func inStores(t *testing.T, run func(o *testDesk)) {
	t.Run("memory", func(t *testing.T) { run(newTestDesk(t, memory.New())) })
	t.Run("sqlite", func(t *testing.T) {
		db, err := sqliteopen.Open(filepath.Join(t.TempDir(), "queue.db"))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		st, err := sqlite.New(db, nil)
		require.NoError(t, err)
		require.NoError(t, st.Migrate(t.Context()))
		run(newTestDesk(t, st))
	})
}

func newTestDesk(t *testing.T, st store.Store) *testDesk {
	d, err := operator.New(st)
	require.NoError(t, err)
	return &testDesk{t, d, st}
}

func newBatch(service batch.ServiceID, id batch.ID) batch.Batch {
	return batch.Batch{Service: service, ID: id, Payload: []byte("payload of " + id)}
}

func (o *testDesk) ctx() context.Context { return o.Context() }

func (o *testDesk) add(bs ...batch.Batch) {
	o.Helper()
	require.NoError(o, o.st.Add(o.ctx(), bs...))
}

func (o *testDesk) readRecord(b batch.Batch) batch.Record {
	o.Helper()
	rec, err := o.Get(o.ctx(), b.Key())
	require.NoError(o, err)
	return rec
}

// claim claims the batches that a strategy takes from the lanes.
func (o *testDesk) claim(s queuer.Strategy, lanes ...batch.ServiceID) []store.Claim {
	o.Helper()
	q := store.ClaimQuery{Lanes: lanes, Limit: 100, Window: max(1, s.Window), TTL: time.Minute, Instance: "one"}
	claimed, err := o.st.Claim(o.ctx(), q, queuer.Choose(s, nil, func(_ batch.ServiceID, err error) { require.NoError(o, err) }))
	require.NoError(o, err)
	var all []store.Claim
	for _, r := range claimed.Runs {
		all = append(all, r.Batches...)
	}
	return all
}

// recordEnds writes how the claims ended. A batch whose attempt failed waits for an hour.
func (o *testDesk) recordEnds(f store.Finding, claims ...store.Claim) {
	o.Helper()
	o.recordEndsDelayed(f, time.Hour, claims...)
}

func (o *testDesk) recordEndsDelayed(f store.Finding, delay time.Duration, claims ...store.Claim) {
	o.Helper()
	var outcomes []store.Outcome
	for _, c := range claims {
		outcomes = append(outcomes, store.Outcome{
			Ref: c.Ref, Version: c.Version, By: batch.BySubmitter, Finding: f, Attempt: c.Attempt, Back: c.From, Check: time.Second, Delay: delay,
			Error: &batch.SubmissionError{Kind: batch.KindBusy, Message: "full"},
		})
	}
	applied, err := o.st.Record(o.ctx(), outcomes)
	require.NoError(o, err)
	for _, a := range applied {
		require.Equal(o, store.Written, a.Result)
	}
}

// recordAnswer writes what the ledger answered about a batch.
func (o *testDesk) recordAnswer(f store.Finding, key batch.Key) {
	o.Helper()
	look, err := o.st.Look(o.ctx(), key, 1)
	require.NoError(o, err)
	applied, err := o.st.Record(o.ctx(), []store.Outcome{{
		Ref: look.Ref, Version: look.Row.Version, By: batch.ByMonitor, Finding: f, Check: time.Second,
		Error: &batch.SubmissionError{Kind: batch.KindDoubt, Message: "nobody knows"},
	}})
	require.NoError(o, err)
	require.Equal(o, store.Written, applied[0].Result)
}

var traits = dlt.Traits{Name: "ledger", ResendHarmlessFor: dlt.Forever, ResendQuiet: 20 * time.Minute}

// recordServing writes the record that a Runner with these traits and this strategy serves the
// services.
func (o *testDesk) recordServing(t dlt.Traits, s queuer.Strategy, services ...batch.ServiceID) {
	o.Helper()
	for _, service := range services {
		_, err := texts.Serve(o.ctx(), o.st, []texts.Served{{Service: service, Ledger: t.Name}})
		require.NoError(o, err)
	}
	r := relied.Record{Settings: relied.SettingsOf(services[0], t, time.Minute, s)}
	for _, service := range services {
		r = r.Compare(service)
	}
	o.replaceLedgerRecord(t.Name, r)
}

// replaceLedgerRecord replaces the record of a ledger.
func (o *testDesk) replaceLedgerRecord(name string, r relied.Record) {
	o.Helper()
	text, err := r.Text()
	require.NoError(o, err)
	_, err = texts.Put(o.ctx(), o.st, store.Text{Kind: store.TextTraits, Name: name, Body: text})
	require.NoError(o, err)
}

func TestNewWantsAStore(t *testing.T) {
	_, err := operator.New(nil)
	require.ErrorIs(t, err, batch.ErrInvalidInput)
}

// Each act applies to the version that was seen or does nothing, and the history records the
// person.
func TestActs(t *testing.T) {
	inStores(t, func(o *testDesk) {
		o.recordServing(traits, queuer.Serial(), "s")
		a, b := newBatch("s", "a"), newBatch("s", "b")
		o.add(a, b)
		seen := o.readRecord(a)
		_, err := o.Cancel(o.ctx(), seen, batch.By{})
		require.ErrorIs(o, err, batch.ErrInvalidInput, "by nobody")
		rec, err := o.Cancel(o.ctx(), seen, ada)
		require.NoError(o, err)
		assert.Equal(o, batch.Rejected, rec.State)

		var moved *batch.MovedOnError
		_, err = o.Cancel(o.ctx(), seen, ada)
		require.ErrorAs(o, err, &moved)
		assert.Equal(o, rec, moved.Now)
		_, err = o.Requeue(o.ctx(), seen, ada)
		require.ErrorIs(o, err, batch.ErrMovedOn)
		_, err = o.Decide(o.ctx(), seen, batch.WasCommitted, ada)
		require.ErrorIs(o, err, batch.ErrMovedOn)
		_, err = o.Acquit(o.ctx(), seen, ada)
		require.ErrorIs(o, err, batch.ErrMovedOn)
		_, err = o.Acquit(o.ctx(), rec, ada)
		require.ErrorIs(o, err, batch.ErrNotAllowed)

		again, err := o.Requeue(o.ctx(), rec, ada)
		require.NoError(o, err)
		assert.Equal(o, batch.Queued, again.State)
		acts, err := o.History(o.ctx(), a.Key())
		require.NoError(o, err)
		require.Len(o, acts, 2)
		for i, action := range []batch.Action{batch.ActionCancel, batch.ActionRequeue} {
			assert.Equal(o, action, acts[i].Action)
			assert.Equal(o, ada, acts[i].By)
		}
		all, next, err := o.List(o.ctx(), store.ListQuery{Open: true})
		require.NoError(o, err)
		assert.Empty(o, next)
		assert.Equal(o, []batch.Record{again, o.readRecord(b)}, all)
		lanes, err := o.Lanes(o.ctx(), store.CountsQuery{Start: true})
		require.NoError(o, err)
		require.Len(o, lanes, 1)
		assert.Equal(o, 2, lanes[0].Waiting)
	})
}

func TestControls(t *testing.T) {
	inStores(t, func(o *testDesk) {
		unset, err := o.Control(o.ctx(), batch.Only("s"))
		require.NoError(o, err)
		paused, err := o.Pause(o.ctx(), batch.Only("s"), ada)
		require.NoError(o, err)
		_, err = o.Resume(o.ctx(), unset, ada)
		require.ErrorIs(o, err, batch.ErrMovedOn)
		_, err = o.SetPolicy(o.ctx(), unset, batch.PolicyHalt, ada)
		require.ErrorIs(o, err, batch.ErrMovedOn)
		_, err = o.Release(o.ctx(), unset, ada)
		require.ErrorIs(o, err, batch.ErrMovedOn)
		resumed, err := o.Resume(o.ctx(), paused, ada)
		require.NoError(o, err)
		halts, err := o.SetPolicy(o.ctx(), resumed, batch.PolicyHalt, ada)
		require.NoError(o, err)
		o.add(newBatch("s", "a"), newBatch("s", "b"))
		o.recordEnds(store.Refused, o.claim(queuer.Serial(), "s")...)
		halted, err := o.Control(o.ctx(), batch.Only("s"))
		require.NoError(o, err)
		assert.Equal(o, batch.ID("a"), halted.HaltedBy)
		_, err = o.Release(o.ctx(), halts, ada)
		require.ErrorIs(o, err, batch.ErrMovedOn)
		_, err = o.Release(o.ctx(), halted, ada)
		require.NoError(o, err)
		acts, err := o.LaneHistory(o.ctx(), batch.Only("s"))
		require.NoError(o, err)
		assert.Len(o, acts, 4)
		set, err := o.Controls(o.ctx(), store.ControlsQuery{Start: true})
		require.NoError(o, err)
		require.Len(o, set, 1)
		assert.Equal(o, batch.PolicyHalt, set[0].Policy)
	})
}

func TestOrders(t *testing.T) {
	inStores(t, func(o *testDesk) {
		orders := o.st.(order.Store)
		require.NoError(o, orders.AddOrders(o.ctx(), order.Order{ID: "1", Party: "p", Payload: []byte("x")}))
		all, _, err := o.ListOrders(o.ctx(), order.ListQuery{})
		require.NoError(o, err)
		require.Len(o, all, 1)
		assert.Equal(o, order.ID("1"), all[0].ID)
	})
}

// bareStore is a store with only the abilities that delivery needs.
type bareStore struct {
	store.Unimplemented
	store.Delivery
}

func TestAStoreThatLacksAbilities(t *testing.T) {
	d, err := operator.New(bareStore{Delivery: memory.New()})
	require.NoError(t, err)
	for name, call := range map[string]func() error{
		"ListOrders": func() error { _, _, err := d.ListOrders(t.Context(), order.ListQuery{}); return err },
		"List":       func() error { _, _, err := d.List(t.Context(), store.ListQuery{}); return err },
		"Explain":    func() error { _, err := d.Explain(t.Context(), batch.Key{ID: "a"}); return err },
		"Pause":      func() error { _, err := d.Pause(t.Context(), batch.Everything(), ada); return err },
		"Cancel":     func() error { _, err := d.Cancel(t.Context(), batch.Record{}, ada); return err },
	} {
		require.ErrorIs(t, call(), store.ErrUnsupported, name)
	}
}

// checkSettingsError checks that err is a SettingsError that wraps is, and returns it.
func checkSettingsError(t *testing.T, err, is error) *operator.SettingsError {
	t.Helper()
	var s *operator.SettingsError
	require.ErrorAs(t, err, &s)
	require.ErrorIs(t, err, is)
	require.NotContains(t, err.Error(), "Desk.", "an operator reads it")
	return s
}

// A requeue waits as long as the recorded settings say. Without a record no batch is requeued.
func TestARequeueNeedsTheRecord(t *testing.T) {
	inStores(t, func(o *testDesk) {
		b := newBatch("s", "a")
		o.add(b)
		o.recordEnds(store.Accepted, o.claim(queuer.Serial(), "s")...)
		o.recordAnswer(store.IsInvalid, b.Key())
		seen := o.readRecord(b)
		refused := func(is error) *operator.SettingsError {
			_, err := o.Requeue(o.ctx(), seen, ada)
			e := checkSettingsError(o.T, err, is)
			assert.Equal(o, "resend_quiet", e.Setting)
			assert.Equal(o, batch.Invalid, o.readRecord(b).State)
			return e
		}
		assert.Empty(o, refused(operator.ErrNotRecorded).Ledger, "nobody serves the service")
		_, err := texts.Serve(o.ctx(), o.st, []texts.Served{{Service: "s", Ledger: "ledger"}})
		require.NoError(o, err)
		assert.Equal(o, "ledger", refused(operator.ErrNotRecorded).Ledger, "nobody said how")

		o.recordServing(traits, queuer.Serial(), "other")
		kept, err := relied.Read(o.readSettings("s").Kept)
		require.NoError(o, err)
		kept.Varies = true
		o.replaceLedgerRecord("ledger", kept)
		refused(operator.ErrNotRecorded) // the traits of another service are on record
		kept.Varies = false
		o.replaceLedgerRecord("ledger", kept)
		refused(operator.ErrNotRecorded) // no Runner has compared the traits of the two services
		kept = kept.Compare("s")

		former := kept.Settings
		former.ResendQuiet = "1m0s"
		kept.Varies, kept.Other = false, &former
		o.replaceLedgerRecord("ledger", kept)
		refused(operator.ErrDisagree)
		r := o.readSettings("s")
		assert.True(o, r.Disagree)
		require.ErrorIs(o, o.Agree(o.ctx(), r, batch.By{}), batch.ErrInvalidInput)
		stale := r
		stale.Kept = `{"service":"s"}`
		require.ErrorIs(o, o.Agree(o.ctx(), stale, ada), batch.ErrMovedOn)
		refused(operator.ErrDisagree)
		require.NoError(o, o.Agree(o.ctx(), r, ada))
		r = o.readSettings("s")
		assert.False(o, r.Disagree)
		assert.Contains(o, r.Kept, `"agreed":{"actor":"ada","reason":"ticket 17"}`)
		rec, err := o.Requeue(o.ctx(), seen, ada)
		require.NoError(o, err)
		assert.Equal(o, seen.LastPost.Add(20*time.Minute), rec.NotBefore)
	})
}

func (o *testDesk) readSettings(s batch.ServiceID) operator.Settings {
	o.Helper()
	r, err := o.Settings(o.ctx(), s)
	require.NoError(o, err)
	return r
}

// The record holds the settings of one service. They hold for another service once a Runner has
// compared the two, or has compared many services and found no difference.
func TestTheRecordHoldsForServicesThatWereCompared(t *testing.T) {
	inStores(t, func(o *testDesk) {
		b := newBatch("s", "a")
		o.add(b)
		o.recordServing(traits, queuer.Serial(), "other", "s")
		r := relied.Record{Settings: relied.SettingsOf("other", traits, time.Minute, queuer.Serial())}
		r.ResendQuiet = "0s"
		o.replaceLedgerRecord("ledger", r)
		o.recordEnds(store.Refused, o.claim(queuer.Serial(), "s")...)
		requeue := func() error {
			_, err := o.Requeue(o.ctx(), o.readRecord(b), ada)
			return err
		}
		checkSettingsError(o.T, requeue(), operator.ErrNotRecorded)
		for i := range 15 {
			r = r.Compare(batch.ServiceID(fmt.Sprint("other ", i)))
		}
		o.replaceLedgerRecord("ledger", r)
		checkSettingsError(o.T, requeue(), operator.ErrNotRecorded)
		many := r.Compare("the last")
		many.Varies = true
		o.replaceLedgerRecord("ledger", many)
		checkSettingsError(o.T, requeue(), operator.ErrNotRecorded)
		many.Varies = false
		o.replaceLedgerRecord("ledger", many)
		require.NoError(o, requeue(), "none of many differs")
	})
}

// An answer is not refused because of different settings that it does not depend on.
func TestOtherSettingsThatDoNotMatter(t *testing.T) {
	inStores(t, func(o *testDesk) {
		b := newBatch("s", "a")
		o.add(b)
		kept := relied.Record{Settings: relied.SettingsOf("s", traits, time.Minute, queuer.Serial())}
		former := kept.Settings
		former.Grace, former.ResendQuiet = "7s", "7s"
		kept.Other = &former
		o.recordServing(traits, queuer.Serial(), "s")
		o.replaceLedgerRecord("ledger", kept)
		_, err := o.Explain(o.ctx(), b.Key())
		require.NoError(o, err)
		former.ResendQuiet, former.ClaimTTL = kept.ResendQuiet, "7m0s"
		o.replaceLedgerRecord("ledger", kept)
		_, err = o.Explain(o.ctx(), b.Key())
		checkSettingsError(o.T, err, operator.ErrDisagree)
		o.recordEnds(store.Refused, o.claim(queuer.Serial(), "s")...)
		_, err = o.Requeue(o.ctx(), o.readRecord(b), ada)
		require.NoError(o, err)
	})
}

// An explanation is refused only where it depends on a setting that is not on record.
func TestExplainNeedsTheRecord(t *testing.T) {
	inStores(t, func(o *testDesk) {
		a, b := newBatch("s", "a"), newBatch("s", "b")
		o.add(a, b)
		cause := func(b batch.Batch, want batch.Cause) {
			o.Helper()
			e, err := o.Explain(o.ctx(), b.Key())
			require.NoError(o, err)
			assert.Equal(o, want, e.Cause)
		}
		refused := func(b batch.Batch) string {
			o.Helper()
			e, err := o.Explain(o.ctx(), b.Key())
			assert.Equal(o, batch.Explanation{Key: b.Key()}, e)
			return checkSettingsError(o.T, err, operator.ErrNotRecorded).Setting
		}
		_, err := o.Explain(o.ctx(), newBatch("s", "none").Key())
		require.ErrorIs(o, err, batch.ErrNotFound)
		refused(a)
		c, err := o.Pause(o.ctx(), batch.Everything(), ada)
		require.NoError(o, err)
		cause(a, batch.CausePaused)
		_, err = o.Resume(o.ctx(), c, ada)
		require.NoError(o, err)
		claims := o.claim(queuer.Serial(), "s")
		cause(a, batch.CauseClaimed)
		refused(b)
		o.recordEnds(store.Accepted, claims...)
		cause(a, batch.CauseLedger)

		// The strategy is the application's own, and only its process has it.
		o.recordServing(traits, queuer.Serial(), "s")
		o.replaceLedgerRecord("ledger", relied.Record{Settings: relied.SettingsOf("s", traits, time.Minute, ownStrategy())})
		assert.Equal(o, "strategy", refused(b))
		cause(a, batch.CauseLedger)
		o.recordServing(traits, queuer.Serial(), "s")
		cause(b, batch.CauseBehind)
	})
}

// While no instance runs, an explanation of a claimed batch does not say that an attempt is being
// made.
func TestExplainOfAClaimWithoutInstances(t *testing.T) {
	inStores(t, func(o *testDesk) {
		b := newBatch("s", "b")
		o.add(b)
		o.recordServing(traits, queuer.Serial(), "s")
		claims := o.claim(queuer.Serial(), "s")
		require.Len(o, claims, 1)
		text := func() string {
			o.Helper()
			e, err := o.Explain(o.ctx(), b.Key())
			require.NoError(o, err)
			require.Equal(o, batch.CauseClaimed, e.Cause)
			return e.Text
		}
		assert.Regexp(o, `^submitting: .+ began attempt 1, and its claim ends in \S+ at most\. No instance runs\.$`, text())
		require.NoError(o, new(texts.Presence).Show(o.ctx(), o.st, store.Instance{ID: "1", Name: "host-7", Ledger: traits.Name}))
		assert.Regexp(o, `^submitting: .+ makes attempt 1, for another \S+ at most$`, text())
	})
}

// ownStrategy returns a strategy that belongs to an application.
func ownStrategy() queuer.Strategy {
	return queuer.Strategy{Name: "main.own", Window: 1, Select: queuer.Serial().Select}
}

// A record may hold names that only a later version knows.
func TestTheRecordIsRead(t *testing.T) {
	r, err := relied.Read(`{"service":"s","resend_harmless_for":"forever","late_arrival":"1m0s","grace":"2s","resend_quiet":"21m0s",` +
		`"settle":"30s","max_in_flight_per_service":7,"keeps_order":true,"prepares_in_order":false,"claim_ttl":"1m0s","strategy":"main.own","window":1,"add_again_harmless":"false","withdraws":true}`)
	require.NoError(t, err)
	quiet, err := r.Quiet()
	require.NoError(t, err)
	assert.Equal(t, 21*time.Minute, quiet)
	q, _, known, err := r.Rules()
	require.NoError(t, err)
	assert.False(t, known)
	assert.Equal(t, store.Resend{HarmlessFor: dlt.Forever, LateArrival: time.Minute}, q.Resend("s"))
	assert.Equal(t, 7, q.MaxInFlight("s"))
	assert.True(t, r.Withdraws)
	text, err := r.Text()
	require.NoError(t, err)
	var fields map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &fields))
	assert.Equal(t, "main.own", fields["strategy"])
	assert.NotContains(t, fields, "other")
	_, err = relied.Read("{")
	require.Error(t, err)
	for _, s := range []queuer.Strategy{queuer.Serial(), queuer.Parallel(7), queuer.Pipelined(9)} {
		q, choose, known, err := relied.SettingsOf("s", ledgermem.Unforgiving(0), time.Minute, s).Rules()
		require.NoError(t, err)
		assert.True(t, known)
		assert.Equal(t, s.Window, q.Window)
		assert.NotNil(t, choose)
	}
}
