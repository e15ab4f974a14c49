package dltbatch_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/internal/texts"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// bareStore is a store without abilities.
type bareStore struct {
	store.Unimplemented
	store.Delivery
}

// controlStore is a store with one ability, store.CanControl.
type controlStore struct {
	bareStore
	controlMethods
}

type controlMethods interface {
	Steer(ctx context.Context, s store.Steering) (now batch.Control, changed bool, err error)
	Control(ctx context.Context, scope batch.Scope) (batch.Control, error)
	ControlsOf(ctx context.Context, q store.ControlsQuery) ([]batch.Control, error)
}

func (controlStore) Abilities() store.Abilities { return store.CanControl }

// ledgerWithTraits is a ledger with other traits.
func ledgerWithTraits(change func(*dlt.Traits)) dlt.Ledger {
	traits := ledgermem.Unforgiving(time.Second)
	change(&traits)
	return ledgermem.New(&ledgermem.Options{Traits: &traits})
}

// New refuses a store that lacks an ability which the options or the ledger need, before anything
// is stored. The error names the ability and what needs it. New accepts a store that has the
// ability.
func TestNewRefusesAStoreThatCannot(t *testing.T) {
	plain := ledgermem.New(nil)
	prepares := emptyPrepareLedger{ledgerWithTraits(func(tr *dlt.Traits) { tr.Prepares, tr.Resolves = true, false })}
	router, err := dlt.NewRouter(dlt.Route{Ledger: plain})
	require.NoError(t, err)
	m := memory.New()
	for name, c := range map[string]struct {
		st     store.Store
		ledger dlt.Ledger
		o      dltbatch.Options
		want   []string
	}{
		"a strategy":             {bareStore{Delivery: m}, plain, dltbatch.Options{Strategy: queuer.Pipelined(2)}, []string{"store.CanList", "Options.Strategy"}},
		"a policy to halt":       {bareStore{Delivery: m}, plain, dltbatch.Options{Policy: batch.PolicyHalt}, []string{"store.CanControl", "Options.Policy"}},
		"a policy to quarantine": {controlStore{bareStore{Delivery: m}, m}, plain, dltbatch.Options{Policy: batch.PolicyQuarantine}, []string{"store.CanOperate", "Options.Policy"}},
		"retention":              {bareStore{Delivery: m}, plain, dltbatch.Options{Retention: time.Hour}, []string{"store.CanPrune", "Options.Retention (1h0m0s)"}},
		"a ledger that prepares": {bareStore{Delivery: m}, prepares, dltbatch.Options{}, []string{"store.CanKeepPrepared", "dlt.Traits.Prepares"}},
		"a router":               {bareStore{Delivery: m}, router, dltbatch.Options{}, []string{"store.CanKeepTexts", "dlt.Traits.Routed"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := dltbatch.New(c.st, c.ledger, &c.o)
			var inputErr *batch.InputError
			require.ErrorAs(t, err, &inputErr)
			assert.Equal(t, "store", inputErr.Field)
			assert.Contains(t, inputErr.Value, "dltbatch_test.")
			for _, text := range c.want {
				assert.ErrorContains(t, err, text)
			}
			_, err = dltbatch.New(m, c.ledger, &c.o)
			require.NoError(t, err)
		})
	}
	_, err = dltbatch.New(bareStore{Delivery: m}, plain, nil)
	require.NoError(t, err, "the defaults need none")
}

// emptyPrepareLedger is a ledger whose Prepare returns no bytes.
type emptyPrepareLedger struct{ dlt.Ledger }

func (emptyPrepareLedger) Prepare(context.Context, batch.Attempt) ([]byte, error) { return nil, nil }

// Each operator's act that the store has no method for gives store.ErrUnsupported, and the error
// names the method and the ability.
func TestWhatAStoreCannot(t *testing.T) {
	st := memory.New()
	r, err := dltbatch.New(bareStore{Delivery: st}, ledgermem.New(nil), nil)
	require.NoError(t, err)
	ctx, b, by := t.Context(), newBatch("s", "a"), batch.By{Actor: "somebody"}
	require.NoError(t, r.Add(ctx, b))
	rec, err := r.Get(ctx, b.Key())
	require.NoError(t, err)
	scope := batch.Only("s")
	for _, c := range []struct {
		method, ability string
		call            func() error
	}{
		{"Cancel", "store.CanOperate", func() error { _, err := r.Cancel(ctx, rec, by); return err }},
		{"Requeue", "store.CanOperate", func() error { _, err := r.Requeue(ctx, rec, by); return err }},
		{"Decide", "store.CanOperate", func() error { _, err := r.Decide(ctx, rec, batch.NotExecutedReject, by); return err }},
		{"Acquit", "store.CanOperate", func() error { _, err := r.Acquit(ctx, rec, by); return err }},
		{"Steer", "store.CanControl", func() error { _, err := r.Pause(ctx, scope, by); return err }},
		{"Steer", "store.CanControl", func() error { _, err := r.Resume(ctx, batch.Control{Scope: scope}, by); return err }},
		{"Steer", "store.CanControl", func() error {
			_, err := r.SetPolicy(ctx, batch.Control{Scope: scope}, batch.PolicyHalt, by)
			return err
		}},
		{"Steer", "store.CanControl", func() error { _, err := r.Release(ctx, batch.Control{Scope: scope}, by); return err }},
		{"Control", "store.CanControl", func() error { _, err := r.Control(ctx, scope); return err }},
		{"History", "store.CanInspect", func() error { _, err := r.History(ctx, b.Key()); return err }},
		{"LaneHistory", "store.CanInspect", func() error { _, err := r.LaneHistory(ctx, scope); return err }},
		{"Attempts", "store.CanInspect", func() error { _, err := r.Attempts(ctx, b.Key()); return err }},
		{"Look", "store.CanInspect", func() error { _, err := r.Explain(ctx, b.Key()); return err }},
		{"Stats", "store.CanCountOpen", func() error { _, err := r.Stats(ctx); return err }},
		{"List", "store.CanList", func() error { return r.Idle(ctx) }},
	} {
		err := c.call()
		require.ErrorIs(t, err, store.ErrUnsupported, c.method)
		require.ErrorIs(t, err, errors.ErrUnsupported)
		require.ErrorContains(t, err, c.method)
		require.ErrorContains(t, err, c.ability)
	}
	now, err := st.Get(ctx, b.Key())
	require.NoError(t, err)
	assert.Equal(t, rec, now)
}

// A Runner on a store without any ability delivers batches, also when answers of the ledger are
// lost, and Await works by Get. The missing abilities are logged once.
func TestTheCoreDelivers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := ledgermem.New(&ledgermem.Options{Fault: ledgermem.Faults{Seed: 3, Busy: 0.2, LostReply: 0.2, LostRequest: 0.2, LastAttempt: 2}.Fault})
		st := memory.New()
		var log bytes.Buffer
		r, err := dltbatch.New(bareStore{Delivery: st}, ledger, &dltbatch.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		order := map[batch.ServiceID][]batch.ID{}
		for _, s := range []batch.ServiceID{"s", "t"} {
			for i := range 20 {
				b := newBatch(s, batch.ID(fmt.Sprint(s, i)))
				order[s] = append(order[s], b.ID)
				require.NoError(t, r.Add(ctx, b))
			}
		}
		for s, ids := range order {
			for _, id := range ids {
				rec, err := r.Await(ctx, batch.Key{Service: s, ID: id})
				require.NoError(t, err)
				assert.Equal(t, batch.Committed, rec.State)
			}
		}
		bounded, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		_, err = r.Await(bounded, batch.Key{Service: "s", ID: "none"})
		require.ErrorIs(t, err, batch.ErrNotFound)
		stop()
		require.NoError(t, <-ended)
		require.NoError(t, ledger.Verify(order))
		recorded, err := texts.Ledger(t.Context(), st, "")
		require.NoError(t, err)
		assert.Empty(t, recorded, "nothing can be recorded")
		assert.Equal(t, 1, bytes.Count(log.Bytes(), []byte("the store lacks abilities")))
		for _, l := range (store.Unimplemented{}).Abilities().Losses() {
			assert.Contains(t, log.String(), l.Ability.String())
		}
	})
}

// If the ledger of a service needs an ability that the store lacks, that service is held and the
// reason is reported. Other services go on.
func TestAServiceThatTheStoreCannotServeIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plain := ledgerWithTraits(func(tr *dlt.Traits) { tr.Resolves = false })
		ledger := emptyPrepareLedger{changeTraits(plain, func(s batch.ServiceID, tr *dlt.Traits) { tr.Prepares = s == "prepares" })}
		var seen eventRecorder
		r := newRunner(t, bareStore{Delivery: memory.New()}, ledger, &dltbatch.Options{Observer: &seen})
		stop := startRun(t, r)
		require.NoError(t, r.Add(t.Context(), newBatch("prepares", "a"), newBatch("s", "b")))
		assert.Equal(t, batch.Committed, awaitFinal(t, r, newBatch("s", "b")).State)
		time.Sleep(time.Minute)
		assert.Equal(t, []batch.ServiceID{"prepares"}, r.Health().HeldServices)
		require.NoError(t, stop())
		held := seen.ofKind(batch.EventLaneHeld)
		require.Len(t, held, 1)
		require.ErrorContains(t, held[0].Err, "store.CanKeepPrepared")
	})
}
