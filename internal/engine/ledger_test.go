package engine

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// panickingLedger is a ledger that panics in each method, or returns an error whose methods panic.
type panickingLedger struct {
	dlt.Ledger       // nil, so each call panics
	err        error // the error of Submit and Events; nil makes them panic
}

func (p panickingLedger) Submit(ctx context.Context, a batch.Attempt) error {
	if p.err != nil {
		return p.err
	}
	return p.Ledger.Submit(ctx, a)
}

func (p panickingLedger) Events(ctx context.Context, s []batch.ServiceID, yield func(dlt.Event) error) error {
	if p.err != nil {
		return p.err
	}
	return p.Ledger.Events(ctx, s, yield)
}

// panickyTextError and panickyAsError are errors whose methods panic.
type (
	panickyTextError struct{}
	panickyAsError   struct{}
)

func (panickyTextError) Error() string { panic("boom") }
func (panickyAsError) Error() string   { return "bad" }
func (panickyAsError) As(any) bool     { panic("boom") }

// A panic of the client, or of its error, is contained in package engine only. If a batch was
// posted, the panic is a doubt and is reported, since nothing else would show it. The call counts
// as a failure.
func TestAPanicOfTheLedgerIsTheErrorOfItsCall(t *testing.T) {
	ctx, a := t.Context(), batch.Attempt{Key: batch.Key{Service: "s", ID: "a"}}
	for name, c := range map[string]struct {
		isPost bool
		err    error
		call   func(l ledger) error
	}{
		"Submit":        {true, nil, func(l ledger) error { return l.Submit(ctx, a) }},
		"its kind":      {true, panickyAsError{}, func(l ledger) error { return l.Submit(ctx, a) }},
		"its text":      {true, panickyTextError{}, func(l ledger) error { return l.Submit(ctx, a) }},
		"SubmitList":    {true, nil, func(l ledger) error { return l.SubmitList(ctx, []batch.Attempt{a, a}) }},
		"Prepare":       {false, nil, func(l ledger) error { _, err := l.Prepare(ctx, a); return err }},
		"BatchStatuses": {false, nil, func(l ledger) error { _, err := l.BatchStatuses(ctx, "s", []batch.Attempt{a}); return err }},
		"Resolve":       {false, nil, func(l ledger) error { _, err := l.Resolve(ctx, dlt.Doubt{Attempt: a}); return err }},
	} {
		t.Run(name, func(t *testing.T) {
			var reportedErrs []error
			calls := 0
			v := newVitals()
			known := newServices(panickingLedger{err: c.err}, func(err error) { reportedErrs = append(reportedErrs, err) })
			known.storeJudgement("s", dlt.Traits{Name: "l"}, nil)
			meter := newLedgerMeter(func(_ context.Context, c batch.Call) {
				calls++
				require.ErrorContains(t, c.Err, "panic: ")
			}, v)
			err := c.call(ledger{panickingLedger{err: c.err}, known, meter, &admission{services: known}})
			var panicErr *loop.PanicError
			require.ErrorAs(t, err, &panicErr)
			assert.Equal(t, batch.KindDoubt, dlt.Kind(err))
			assert.Equal(t, 1, calls)
			assert.Equal(t, 1, v.ledgerOf(known.traits("s").Name).failures)
			if c.isPost {
				assert.Len(t, reportedErrs, 1)
			} else {
				assert.Empty(t, reportedErrs, "its caller reports it")
			}
		})
	}
}

// If a client panics in Events, the stream is lost.
func TestAPanicOfEventsLosesTheStream(t *testing.T) {
	v := newVitals()
	for _, client := range []dlt.Ledger{panickingLedger{}, panickingLedger{err: panickyAsError{}}, panickingLedger{err: panickyTextError{}}} {
		l := ledger{Ledger: client, meter: meter{vitals: v}}
		err := l.Events(t.Context(), []batch.ServiceID{"s"}, func(dlt.Event) error { return nil })
		require.ErrorIs(t, err, dlt.ErrStreamLost)
	}
	assert.Len(t, v.streams, 1)
}

// A call that the admission refuses is not counted, and the client does not get it.
func TestACallThatTheGateRefusesIsNotCounted(t *testing.T) {
	ctx, a := t.Context(), batch.Attempt{Key: batch.Key{Service: "s", ID: "a"}}
	client := panickingLedger{}
	known := newServices(client, nil)
	known.storeJudgement("s", dlt.Traits{Name: "l"}, ErrOtherLedger)
	v := newVitals()
	l := ledger{client, known, newLedgerMeter(func(context.Context, batch.Call) { t.Error("counted") }, v), &admission{services: known}}
	require.ErrorIs(t, l.Submit(ctx, a), dlt.ErrNotYet)
	require.ErrorIs(t, l.SubmitList(ctx, []batch.Attempt{a, a}), dlt.ErrNotYet)
	_, err := l.Prepare(ctx, a)
	require.ErrorIs(t, err, dlt.ErrNotYet)
	found, err := l.BatchStatuses(ctx, "s", []batch.Attempt{a})
	require.NoError(t, err)
	assert.Empty(t, found)
	_, err = l.Resolve(ctx, dlt.Doubt{Attempt: a})
	require.ErrorIs(t, err, ErrOtherLedger)
	assert.Empty(t, v.ledgers)
}

// The client is asked for the traits of a service once, however often they are read. If it stands
// for several ledgers, the admission asks it each time, and other code reads the admission's
// answer.
func TestTraitsAreAskedOnceAService(t *testing.T) {
	for routed, asked := range map[bool]int{false: 1, true: 3} {
		n := 0
		client := traitsLedger{traits: func(batch.ServiceID) dlt.Traits { n++; return dlt.Traits{Name: "l", Routed: routed} }}
		known := newServices(client, nil)
		g := &admission{services: known}
		known.storeJudgement("s", known.termsOf("s").Traits, nil)
		for range 2 {
			require.NoError(t, g.judge(t.Context(), []batch.ServiceID{"s", "s", "s"}))
			for range 10 {
				known.traits("s")
				known.resend("s")
			}
		}
		assert.Equal(t, asked, n, "routed: %t", routed)
	}
}

// A Run that ended with ErrDrain keeps no judgement: the next Run judges for itself.
func TestAJudgementAfterTheEndIsNotKept(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	client := traitsLedger{traits: func(batch.ServiceID) dlt.Traits { end(); return dlt.Traits{Routed: true} }} // without a name nothing is recorded
	known := newServices(client, nil)
	g := &admission{services: known, store: meteredStore{Store: substitutedStore{memory.New(), store.AllAbilities}}, serviceChanged: func(batch.ServiceID, error) { t.Error("reported") }}
	require.ErrorIs(t, g.judge(ctx, []batch.ServiceID{"s"}), context.Canceled)
	assert.False(t, known.entryOf("s").isJudged)
}

// traitsLedger is a client with the given traits.
type traitsLedger struct {
	dlt.Ledger
	traits func(batch.ServiceID) dlt.Traits
}

func (a traitsLedger) Traits(s batch.ServiceID) dlt.Traits { return a.traits(s) }
