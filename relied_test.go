package dltbatch_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/health"
	"github.com/dltbatch/dltbatch/internal/texts"
	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// recordedTraits returns the traits that st has recorded under a ledger's name.
func recordedTraits(t *testing.T, st store.Store, name string) (fields map[string]any) {
	text, err := texts.Read(t.Context(), st, store.TextTraits, name)
	require.NoError(t, err)
	require.NotEmpty(t, text.Body, name)
	require.NoError(t, json.Unmarshal([]byte(text.Body), &fields))
	return fields
}

// runFor runs a Runner on st for a while. It returns the troubles that the Runner reported, and
// its health.
func runFor(t *testing.T, st store.Store, l dlt.Ledger, o dltbatch.Options) ([]batch.Event, health.Health) {
	seen := &eventRecorder{}
	o.Observer = seen
	r := newRunner(t, st, l, &o)
	stop := startRun(t, r)
	time.Sleep(time.Minute)
	h := r.Health()
	require.NoError(t, stop())
	return seen.ofKind(batch.EventTrouble), h
}

// The traits are recorded under the name of each route. An instance with other traits reports
// that once, and its traits replace the recorded ones.
func TestTraitsAreRecordedByRoute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		route := func(quiet time.Duration) dlt.Ledger {
			return newRouter(t,
				prefixRoute(namedLedger("one", func(t *dlt.Traits) {
					t.ResendHarmlessFor, t.LateArrival, t.Grace, t.ResendQuiet, t.Settle = dlt.Forever, time.Minute, 2*time.Second, quiet, 3*time.Second
					t.MaxInFlightPerService, t.KeepsOrder = 7, true
				}, nil), "a"),
				prefixRoute(namedLedger("two", func(t *dlt.Traits) { t.ResendHarmlessFor, t.KeepsOrder = 90*time.Second, false }, nil), "b"))
		}
		require.NoError(t, st.Add(t.Context(), newBatch("a1", "1"), newBatch("a2", "2"), newBatch("b1", "3")))
		troubles, _ := runFor(t, st, route(time.Minute), dltbatch.Options{ClaimTTL: 2 * time.Minute})
		assert.Empty(t, troubles)
		first := recordedTraits(t, st, "one")
		assert.Contains(t, []any{"a1", "a2"}, first["service"])
		require.Len(t, first["alike"], 1)
		assert.ElementsMatch(t, []any{"a1", "a2"}, append(first["alike"].([]any), first["service"]))
		delete(first, "service")
		delete(first, "alike")
		want := map[string]any{
			"resend_harmless_for": "forever", "late_arrival": "1m0s", "grace": "2s", "resend_quiet": "1m0s", "settle": "3s",
			"max_in_flight_per_service": 7.0, "keeps_order": true, "prepares_in_order": false, "claim_ttl": "2m0s", "strategy": "serial", "window": 1.0, "add_again_harmless": "false", "withdraws": false,
		}
		assert.Equal(t, want, first)
		second := recordedTraits(t, st, "two")
		assert.Equal(t, "b1", second["service"])
		assert.Equal(t, "1m30s", second["resend_harmless_for"])
		assert.Equal(t, false, second["keeps_order"])

		for _, again := range []bool{false, true} {
			require.NoError(t, st.Add(t.Context(), newBatch("a0", batch.ID(fmt.Sprint("a ", again))), newBatch("b1", batch.ID(fmt.Sprint("b ", again)))))
			troubles, health := runFor(t, st, route(5*time.Minute), dltbatch.Options{ClaimTTL: 2 * time.Minute})
			if again {
				assert.Empty(t, troubles, "it is recorded")
				continue
			}
			require.Len(t, troubles, 1)
			require.ErrorIs(t, troubles[0].Err, dltbatch.ErrOtherTraits)
			require.ErrorIs(t, health.Trouble, dltbatch.ErrOtherTraits)
			for _, part := range []string{`"one"`, `"resend_quiet":"1m0s"`, `"resend_quiet":"5m0s"`} {
				assert.ErrorContains(t, troubles[0].Err, part)
			}
			former := maps.Clone(want)
			former["service"] = recordedTraits(t, st, "one")["other"].(map[string]any)["service"]
			want["resend_quiet"], want["other"] = "5m0s", former
			first = recordedTraits(t, st, "one")
			assert.Equal(t, "a0", first["alike"].([]any)[1], "it was compared, too")
			delete(first, "service")
			delete(first, "alike")
			assert.Equal(t, want, first)
			assert.Equal(t, second, recordedTraits(t, st, "two"), "nothing of it differs")
		}
	})
}

// A ledger whose traits differ by service is not reported as different from its own record, no
// matter which service is seen first. The duration of claims is recorded, too.
func TestTraitsThatDifferByServiceAreComparedByService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		ledger := changeTraits(namedLedger("one", nil, nil), func(s batch.ServiceID, t *dlt.Traits) {
			if s == "a" {
				t.ResendQuiet = time.Hour
			}
		})
		require.NoError(t, st.Add(t.Context(), newBatch("b", "1")))
		troubles, _ := runFor(t, st, ledger, dltbatch.Options{})
		assert.Empty(t, troubles)
		recorded := recordedTraits(t, st, "one")
		require.NoError(t, st.Add(t.Context(), newBatch("a", "2")))
		troubles, _ = runFor(t, st, ledger, dltbatch.Options{})
		assert.Empty(t, troubles)
		recorded["varies"] = true
		assert.Equal(t, recorded, recordedTraits(t, st, "one"), "of the first service, and it says that others differ")

		require.NoError(t, st.Add(t.Context(), newBatch("c", "3")))
		troubles, _ = runFor(t, st, ledger, dltbatch.Options{ClaimTTL: 7 * time.Minute})
		require.Len(t, troubles, 1)
		assert.ErrorContains(t, troubles[0].Err, `"claim_ttl":"7m0s"`)
	})
}

// Another strategy is reported, like other traits.
func TestAnotherStrategyIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		ledger := namedLedger("one", func(t *dlt.Traits) { t.KeepsOrder = true }, nil)
		require.NoError(t, st.Add(t.Context(), newBatch("a", "1")))
		_, _ = runFor(t, st, ledger, dltbatch.Options{})
		before := recordedTraits(t, st, "one")
		require.NoError(t, st.Add(t.Context(), newBatch("a", "2")))
		troubles, _ := runFor(t, st, ledger, dltbatch.Options{Strategy: queuer.Pipelined(8)})
		require.Len(t, troubles, 1)
		require.ErrorIs(t, troubles[0].Err, dltbatch.ErrOtherTraits)
		now := recordedTraits(t, st, "one")
		assert.Equal(t, "pipelined", now["strategy"])
		assert.InDelta(t, 8, now["window"], 0)
		assert.Equal(t, before, now["other"])
	})
}

// traitsTest is a store on which Runners record the traits they rely on, and a Desk reads them.
type traitsTest struct {
	*testing.T
	*memory.Store
	added int
}

// add adds a batch and returns it.
func (r *traitsTest) add(s batch.ServiceID) batch.Batch {
	r.added++
	b := newBatch(s, batch.ID(fmt.Sprint(r.added)))
	require.NoError(r, r.Add(r.Context(), b))
	return b
}

// recordTraitsOf runs a Runner until it has recorded the traits of service s.
func (r *traitsTest) recordTraitsOf(s batch.ServiceID, l dlt.Ledger, o dltbatch.Options) {
	r.add(s)
	_, _ = runFor(r.T, r.Store, l, o)
}

// deskError returns the Desk's error about the ResendQuiet of a service, or nil if the Desk knows
// it.
func (r *traitsTest) deskError(s batch.ServiceID) error {
	desk, err := operator.New(r.Store)
	require.NoError(r, err)
	_, err = texts.Serve(r.Context(), r, []texts.Served{{Service: s, Ledger: "one"}})
	require.NoError(r, err)
	rec, err := desk.Get(r.Context(), r.add(s).Key())
	require.NoError(r, err)
	_, err = desk.Requeue(r.Context(), rec, batch.By{Actor: "ada", Reason: "x"})
	require.Error(r, err, "the batch is not final")
	if _, is := errors.AsType[*operator.SettingsError](err); is {
		return err
	}
	return nil
}

// hourQuietLedger returns a ledger with a long ResendQuiet for one service.
func hourQuietLedger(service batch.ServiceID) dlt.Ledger {
	return changeTraits(namedLedger("one", nil, nil), func(s batch.ServiceID, t *dlt.Traits) {
		if s == service {
			t.ResendQuiet = time.Hour
		}
	})
}

// Two instances disagree about ResendQuiet, and the record keeps the disagreement. A third
// instance, which differs in something else, does not hide it.
func TestTheRecordKeepsEachDisagreement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &traitsTest{T: t, Store: memory.New()}
		quiet := func(d time.Duration) dlt.Ledger {
			return namedLedger("one", func(t *dlt.Traits) { t.ResendQuiet = d }, nil)
		}
		r.recordTraitsOf("s", quiet(20*time.Minute), dltbatch.Options{})
		require.NoError(t, r.deskError("s"))
		r.recordTraitsOf("s", quiet(time.Second), dltbatch.Options{})
		require.ErrorIs(t, r.deskError("s"), operator.ErrDisagree)
		r.recordTraitsOf("s", quiet(time.Second), dltbatch.Options{ClaimTTL: 7 * time.Minute})
		require.ErrorIs(t, r.deskError("s"), operator.ErrDisagree, "nobody has agreed")
	})
}

// The record still says that the traits of a route differ by service after another difference is
// recorded.
func TestTheRecordKeepsThatTraitsDifferByService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &traitsTest{T: t, Store: memory.New()}
		r.recordTraitsOf("b", hourQuietLedger("a"), dltbatch.Options{})
		r.recordTraitsOf("a", hourQuietLedger("a"), dltbatch.Options{})
		r.recordTraitsOf("b", hourQuietLedger("a"), dltbatch.Options{ClaimTTL: 7 * time.Minute})
		require.ErrorIs(t, r.deskError("a"), operator.ErrNotRecorded, "the record is of b")
		assert.Equal(t, true, recordedTraits(t, r.Store, "one")["varies"])
	})
}

// The record holds for a service once a Runner has compared the service's traits with it. A Runner
// that finds other traits for a service removes the service from the record.
func TestTheRecordNamesTheServicesThatWereCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &traitsTest{T: t, Store: memory.New()}
		r.recordTraitsOf("b", hourQuietLedger(""), dltbatch.Options{})
		require.NoError(t, r.deskError("b"))
		require.ErrorIs(t, r.deskError("a"), operator.ErrNotRecorded, "no Runner has met it")
		r.recordTraitsOf("b", hourQuietLedger(""), dltbatch.Options{}) // the store has batches of both services
		require.NoError(t, r.deskError("a"))
		require.ErrorIs(t, r.deskError("c"), operator.ErrNotRecorded)
		r.recordTraitsOf("b", hourQuietLedger("a"), dltbatch.Options{})
		require.NoError(t, r.deskError("b"))
		require.ErrorIs(t, r.deskError("a"), operator.ErrNotRecorded, "another service shows it")
	})
}

// Two instances with different settings run together. Each reports the difference once at most, no
// matter how many services it has.
func TestADifferenceIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &traitsTest{T: t, Store: memory.New()}
		var seen [2]eventRecorder
		for i := range seen {
			r.add(batch.ServiceID(fmt.Sprint("first ", i)))
			stop := startRun(t, newRunner(t, r.Store, hourQuietLedger(""), &dltbatch.Options{ClaimTTL: time.Duration(i+2) * time.Minute, Observer: &seen[i]}))
			defer func() { require.NoError(t, stop()) }()
			time.Sleep(time.Minute)
		}
		for i := range 10 {
			r.add(batch.ServiceID(fmt.Sprint("service ", i)))
			time.Sleep(time.Minute)
		}
		assert.Empty(t, seen[0].ofKind(batch.EventTrouble))
		assert.Len(t, seen[1].ofKind(batch.EventTrouble), 1)
		assert.Equal(t, "3m0s", recordedTraits(t, r.Store, "one")["claim_ttl"])
	})
}

// A Run reads and writes the record once for each service that the record names, and once for all
// services that differ from the recorded ones.
func TestTheRecordCostsLittle(t *testing.T) {
	for special, most := range map[batch.ServiceID]int{"": 2 * 17, "b": 2} {
		synctest.Test(t, func(t *testing.T) {
			r := &traitsTest{T: t, Store: memory.New()}
			r.recordTraitsOf("b", hourQuietLedger(special), dltbatch.Options{})
			for i := range 100 {
				r.add(batch.ServiceID(fmt.Sprint("service ", i)))
			}
			counted := &textCallCounter{Store: r.Store}
			_, _ = runFor(t, counted, hourQuietLedger(special), dltbatch.Options{})
			assert.Positive(t, counted.calls.Load())
			assert.LessOrEqual(t, int(counted.calls.Load()), most)
		})
	}
}

// textCallCounter is a store that counts the reads and writes of traits.
type textCallCounter struct {
	store.Store
	calls atomic.Int64
}

func (k *textCallCounter) ReadTexts(ctx context.Context, kind store.TextKind, names ...string) ([]store.Text, time.Time, error) {
	if kind == store.TextTraits {
		k.calls.Add(1)
	}
	return k.Store.ReadTexts(ctx, kind, names...)
}

func (k *textCallCounter) SwapTexts(ctx context.Context, all ...store.Text) (bool, error) {
	if all[0].Kind == store.TextTraits {
		k.calls.Add(1)
	}
	return k.Store.SwapTexts(ctx, all...)
}

// A record names only a few services. If their traits are alike, the record holds for all
// services, until a Runner finds one that differs.
func TestTheRecordNamesFewOfManyServices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &traitsTest{T: t, Store: memory.New()}
		for i := range 40 {
			r.add(batch.ServiceID(fmt.Sprint("service ", i)))
		}
		r.recordTraitsOf("b", hourQuietLedger(""), dltbatch.Options{})
		assert.Len(t, recordedTraits(t, r.Store, "one")["alike"], 16)
		require.NoError(t, r.deskError("c"))
		r.recordTraitsOf("a", hourQuietLedger("a"), dltbatch.Options{})
		require.ErrorIs(t, r.deskError("a"), operator.ErrNotRecorded)
	})
}
