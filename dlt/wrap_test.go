package dlt

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
)

// able can do everything, and says what was called.
type able struct{ called []string }

func (a *able) Traits(batch.ServiceID) Traits { a.call("Traits"); return Traits{Name: "able"} }
func (a *able) call(name string)              { a.called = append(a.called, name) }

func (a *able) Submit(context.Context, batch.Attempt) error { a.call("Submit"); return ErrBusy }
func (a *able) BatchStatuses(context.Context, batch.ServiceID, []batch.Attempt) ([]batch.Status, error) {
	a.call("BatchStatuses")
	return nil, ErrBusy
}

func (a *able) SubmitList(context.Context, []batch.Attempt) error {
	a.call("SubmitList")
	return ErrBusy
}

func (a *able) Resolve(context.Context, Doubt) (Evidence, error) {
	a.call("Resolve")
	return InFlight, ErrBusy
}

func (a *able) Events(context.Context, []batch.ServiceID, func(Event) error) error {
	a.call("Events")
	return ErrBusy
}

func (a *able) Check(batch.Batch) error { a.call("Check"); return ErrBusy }

func (a *able) Prepare(context.Context, batch.Attempt) ([]byte, error) {
	a.call("Prepare")
	return []byte("prepared"), ErrBusy
}

// What is wrapped implements what the inner ledger does, and no more: whatever that is.
func TestWrapKeepsExactlyWhatIsThere(t *testing.T) {
	for has := range lists << 1 {
		a := &able{}
		inner := exactly(has, wrapped{a, Hooks{}}, a, a, a, a, a)
		for i, of := range Abilities(inner, Traits{}) {
			require.Equal(t, has&(1<<i) != 0, of.Has, "%05b: %s", has, of.Interface)
		}
		outer := Wrap(Wrap(inner, Hooks{}), Hooks{})
		assert.Equal(t, Abilities(inner, Traits{}), Abilities(outer, Traits{}), "%05b", has)
	}
}

// call calls everything.
func call(t *testing.T, l Ledger) {
	ctx := t.Context()
	assert.Equal(t, "able", l.Traits("s").Name)
	assert.ErrorIs(t, l.Submit(ctx, batch.Attempt{}), ErrBusy)
	_, err := l.BatchStatuses(ctx, "s", nil)
	assert.ErrorIs(t, err, ErrBusy)
	assert.ErrorIs(t, l.(ListSubmitter).SubmitList(ctx, nil), ErrBusy)
	found, err := l.(Resolver).Resolve(ctx, Doubt{})
	assert.ErrorIs(t, err, ErrBusy)
	assert.Equal(t, InFlight, found)
	assert.ErrorIs(t, l.(EventSource).Events(ctx, nil, nil), ErrBusy)
	assert.ErrorIs(t, l.(Checker).Check(batch.Batch{}), ErrBusy)
	kept, err := l.(Preparer).Prepare(ctx, batch.Attempt{})
	assert.ErrorIs(t, err, ErrBusy)
	assert.Equal(t, "prepared", string(kept))
}

var everything = []string{"Traits", "Submit", "BatchStatuses", "SubmitList", "Resolve", "Events", "Check", "Prepare"}

func TestWrapWithoutHooks(t *testing.T) {
	a := &able{}
	call(t, Wrap(a, Hooks{}))
	assert.Equal(t, everything, a.called)
}

// A hook is called in the place of its method, and may call that.
func TestWrapWithHooks(t *testing.T) {
	a := &able{}
	var hooked []string
	note := func(name string) { hooked = append(hooked, name) }
	call(t, Wrap(a, Hooks{
		Traits: func(s batch.ServiceID, next func(batch.ServiceID) Traits) Traits { note("Traits"); return next(s) },
		Submit: func(ctx context.Context, a batch.Attempt, next func(context.Context, batch.Attempt) error) error {
			note("Submit")
			return next(ctx, a)
		},
		BatchStatuses: func(ctx context.Context, s batch.ServiceID, as []batch.Attempt,
			next func(context.Context, batch.ServiceID, []batch.Attempt) ([]batch.Status, error),
		) ([]batch.Status, error) {
			note("BatchStatuses")
			return next(ctx, s, as)
		},
		SubmitList: func(ctx context.Context, as []batch.Attempt, next func(context.Context, []batch.Attempt) error) error {
			note("SubmitList")
			return next(ctx, as)
		},
		Resolve: func(ctx context.Context, d Doubt, next func(context.Context, Doubt) (Evidence, error)) (Evidence, error) {
			note("Resolve")
			return next(ctx, d)
		},
		Events: func(ctx context.Context, s []batch.ServiceID, yield func(Event) error,
			next func(context.Context, []batch.ServiceID, func(Event) error) error,
		) error {
			note("Events")
			return next(ctx, s, yield)
		},
		Check: func(b batch.Batch, next func(batch.Batch) error) error { note("Check"); return next(b) },
		Prepare: func(ctx context.Context, b batch.Attempt, next func(context.Context, batch.Attempt) ([]byte, error)) ([]byte, error) {
			note("Prepare")
			return next(ctx, b)
		},
	}))
	assert.Equal(t, everything, hooked)
	assert.Equal(t, everything, a.called)
}
