package memory_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/dlttest"
	"github.com/dltbatch/dltbatch/dlt/memory"
)

// startRouterConformance returns a Router with two ledgers, one for the services of each name,
// which make the same faults.
func startRouterConformance(t dlttest.TB, one, two memory.Options) *dlttest.Harness {
	w := &faultyLedger{}
	one.Fault, two.Fault = w.faultOf, w.faultOf
	first, second := *one.Traits, *two.Traits
	first.Name, second.Name = "first", "second"
	one.Traits, two.Traits = &first, &second
	ledgers := [2]*memory.Ledger{memory.New(&one), memory.New(&two)}
	r, err := dlt.NewRouter(
		dlt.Route{Ledger: ledgers[0], Serves: func(s batch.ServiceID) bool { return strings.HasPrefix(string(s), "one") }},
		dlt.Route{Ledger: ledgers[1], Serves: func(s batch.ServiceID) bool { return strings.HasPrefix(string(s), "two") }},
	)
	require.NoError(t, err)
	off := methodsSwitchedOff(first)
	maps.Copy(off, methodsSwitchedOff(second))
	inside := "client and ledger are one: there is no connection in between and no answer to be read"
	h := &dlttest.Harness{
		Ledger: r, Batch: w.newBatch, Set: w.setFault, SwitchedOff: off,
		Posts: func(id batch.ID) int {
			w.ledger = ledgers[0]
			n := w.postCount(id)
			w.ledger = ledgers[1]
			return n + w.postCount(id)
		},
		Lacks: map[dlttest.Fault]string{
			dlttest.StatusShuffled: "it always answers in reverse", dlttest.QuerySize: "its queries are calls, of whatever length",
		},
	}
	for _, f := range []dlttest.Fault{
		dlttest.UnknownAnswer, dlttest.Redirect, dlttest.StatusUnreachable, dlttest.StatusLost, dlttest.StatusHang,
		dlttest.StatusGarbage, dlttest.StatusUnknownWord, dlttest.StatusMissing, dlttest.StatusStranger,
	} {
		h.Lacks[f] = inside
	}
	return h
}

// A Router passes the suite, whether its ledgers are alike or not.
func TestConformanceOfARouter(t *testing.T) {
	all := kindsOfLedgers()
	for _, pair := range [...][2]string{
		{"unforgiving", "unforgiving"}, {"like sawtooth", "like sawtooth"}, {"like canton", "unforgiving"},
	} {
		one, two := all[pair[0]], all[pair[1]]
		one.Latency, one.CommitAfter = 20*time.Millisecond, 5*time.Second
		two.Latency, two.CommitAfter = 20*time.Millisecond, 5*time.Second
		for _, c := range dlttest.Checks() {
			t.Run(fmt.Sprintf("%s and %s/%s", pair[0], pair[1], c.Name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { c.Run(t, startRouterConformance(t, one, two)) })
			})
		}
	}
}

func TestRoutersThatAreRefused(t *testing.T) {
	l := memory.New(nil)
	nameless := memory.New(&memory.Options{Traits: &dlt.Traits{}})
	for name, routes := range map[string][]dlt.Route{
		"no route":      nil,
		"no ledger":     {{}},
		"no name":       {{Ledger: nameless}},
		"one name":      {{Ledger: l}, {Ledger: memory.New(nil)}},
		"contradiction": {{Ledger: memory.New(&memory.Options{Traits: &dlt.Traits{Name: "l", AddAgainHarmless: true}})}},
	} {
		_, err := dlt.NewRouter(routes...)
		require.ErrorIs(t, err, batch.ErrInvalidInput, name)
	}
}

func TestAServiceWithoutARoute(t *testing.T) {
	traits := memory.Unforgiving(0)
	r, err := dlt.NewRouter(dlt.Route{Ledger: memory.New(nil), Serves: func(s batch.ServiceID) bool { return s == "served" }},
		dlt.Route{Ledger: memory.New(&memory.Options{Traits: func() *dlt.Traits { traits.Name = "second"; return &traits }()}),
			Serves: func(s batch.ServiceID) bool { return s == "too" }})
	require.NoError(t, err)
	ctx := t.Context()
	b := batch.Batch{ID: "b", Service: "nobody's", Payload: []byte("x")}
	a := batch.Attempt{Key: b.Key(), Number: 1, Payload: b.Payload}
	require.ErrorIs(t, r.Check(b), batch.ErrInvalidInput)
	assert.Empty(t, r.Traits("nobody's").Name)
	assert.Equal(t, "memory", r.Traits("").Name, "the first route's")
	require.ErrorIs(t, r.Submit(ctx, a), dlt.ErrMisconfigured)
	require.ErrorIs(t, r.SubmitList(ctx, []batch.Attempt{a, a}), dlt.ErrMisconfigured)
	_, err = r.Prepare(ctx, batch.Attempt{Key: b.Key(), Number: 1, Payload: b.Payload})
	require.ErrorIs(t, err, dlt.ErrMisconfigured)
	found, err := r.Resolve(ctx, dlt.Doubt{Attempt: a})
	require.ErrorIs(t, err, dlt.ErrMisconfigured)
	assert.Equal(t, dlt.CannotTell, found)
	require.ErrorIs(t, r.Events(ctx, []batch.ServiceID{"nobody's"}, func(dlt.Event) error { return nil }), dlt.ErrMisconfigured)

	good := batch.Attempt{Key: batch.Key{Service: "served", ID: "g"}, Number: 1, Payload: []byte("x")}
	require.NoError(t, r.Submit(ctx, good))
	statuses, err := r.BatchStatuses(ctx, "served", []batch.Attempt{good, a})
	require.ErrorIs(t, err, dlt.ErrMisconfigured)
	require.Len(t, statuses, 1, "what could be had comes beside the error")
	assert.Equal(t, batch.ReportedCommitted, statuses[0].Reported)
}
