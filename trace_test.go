package dltbatch

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/store/memory"
)

const (
	ownTrace     = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	callersTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
)

// A batch keeps its own trace context, or else gets the caller's. A text that is no trace context
// is dropped and counted, and the batch is added nevertheless.
func TestTraceContextsOfABatch(t *testing.T) {
	for name, c := range map[string]struct {
		own     string
		caller  func(context.Context) string
		want    string
		dropped uint64
	}{
		"nobody asks":            {want: ""},
		"its own":                {own: ownTrace, want: ownTrace},
		"its own before another": {own: ownTrace, caller: func(context.Context) string { return callersTrace }, want: ownTrace},
		"the caller's":           {caller: func(context.Context) string { return callersTrace }, want: callersTrace},
		"the caller has none":    {caller: func(context.Context) string { return "" }},
		"the caller's is none":   {caller: func(context.Context) string { return "malformed" }, dropped: 1},
		"the caller's panics":    {caller: func(context.Context) string { panic("no context") }, dropped: 1},
		"malformed":              {own: "malformed", dropped: 1},
		"8 KB":                   {own: strings.Repeat("0", 8<<10), dropped: 1},
		"all zeros":              {own: "00-" + strings.Repeat("0", 32) + "-00f067aa0ba902b7-01", dropped: 1},
		"upper case":             {own: strings.ToUpper(ownTrace), dropped: 1},
		"a version to come":      {own: "cc" + ownTrace[2:], dropped: 1},
		"no text":                {own: ownTrace[:54] + "\xff", dropped: 1},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := New(memory.New(), ledgermem.New(nil), &Options{TraceParent: c.caller})
			require.NoError(t, err)
			given := []batch.Batch{{Service: "s", ID: "b", Payload: []byte("p"), TraceParent: c.own}}
			require.NoError(t, r.Add(t.Context(), given...))
			assert.Equal(t, c.own, given[0].TraceParent, "the caller's slice is the caller's")
			rec, err := r.Get(t.Context(), given[0].Key())
			require.NoError(t, err)
			assert.Equal(t, c.want, rec.TraceParent)
			assert.Equal(t, c.dropped, r.Health().DroppedTraces)
		})
	}
}

// TraceRequest gets the trace contexts of the batches in a POST. If it panics or returns no
// context, the POST goes on.
func TestTraceRequest(t *testing.T) {
	type key struct{}
	for name, c := range map[string]struct {
		hook  func(ctx context.Context) (context.Context, func(error))
		value any
	}{
		"a context and an end": {func(ctx context.Context) (context.Context, func(error)) {
			return context.WithValue(ctx, key{}, "mine"), func(error) {}
		}, "mine"},
		"a context without a time limit": {func(ctx context.Context) (context.Context, func(error)) {
			return context.WithValue(context.WithoutCancel(ctx), key{}, "free"), nil
		}, "free"},
		"nothing":        {func(context.Context) (context.Context, func(error)) { return nil, nil }, nil},
		"a panic":        {func(context.Context) (context.Context, func(error)) { panic("boom") }, nil},
		"a panic at end": {func(ctx context.Context) (context.Context, func(error)) { return ctx, func(error) { panic("boom") } }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var parents []string
				ledger := &contextLedger{Ledger: ledgermem.New(nil)}
				r, err := New(memory.New(), ledger, &Options{TraceRequest: func(ctx context.Context, all []string) (context.Context, func(error)) {
					parents = append(parents, all...)
					return c.hook(ctx)
				}})
				require.NoError(t, err)
				require.NoError(t, r.Add(t.Context(), batch.Batch{Service: "s", ID: "b", Payload: []byte("p"), TraceParent: ownTrace}))
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() { ended <- r.Run(ctx) }()
				rec, err := r.Await(t.Context(), batch.Key{Service: "s", ID: "b"})
				require.NoError(t, err)
				cancel()
				require.NoError(t, <-ended)
				assert.Equal(t, batch.Committed, rec.State)
				assert.Equal(t, []string{ownTrace}, parents)
				assert.Equal(t, c.value, ledger.lastContext.Value(key{}))
				_, bounded := ledger.lastContext.Deadline()
				assert.True(t, bounded)
			})
		})
	}
}

// contextLedger is a ledger that keeps the context of its last POST.
type contextLedger struct {
	*ledgermem.Ledger
	lastContext context.Context // context of the last POST
}

func (p *contextLedger) Submit(ctx context.Context, a batch.Attempt) error {
	p.lastContext = ctx
	return p.Ledger.Submit(ctx, a)
}

// If TraceRequest returns a context with a later deadline, the POST still ends at its own
// deadline.
func TestTraceRequestWithALaterDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := make(chan time.Duration, 1)
		ledger := ledgermem.New(nil)
		r, err := New(memory.New(), deadlineLedger{ledger, left}, &Options{TraceRequest: func(ctx context.Context, _ []string) (context.Context, func(error)) {
			own, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Hour)
			return own, func(error) { cancel() }
		}})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		require.NoError(t, r.Add(t.Context(), batch.Batch{Service: "s", ID: "a", Payload: []byte("x")}))
		assert.LessOrEqual(t, <-left, 15*time.Second)
		cancel()
		require.NoError(t, <-done)
	})
}

// deadlineLedger is a ledger that records how much time a POST has.
type deadlineLedger struct {
	*ledgermem.Ledger
	timeLeft chan time.Duration
}

func (l deadlineLedger) Submit(ctx context.Context, a batch.Attempt) error {
	d, ok := ctx.Deadline()
	if !ok {
		d = time.Now().Add(24 * time.Hour)
	}
	l.timeLeft <- time.Until(d)
	return l.Ledger.Submit(ctx, a)
}
