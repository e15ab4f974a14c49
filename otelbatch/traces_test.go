package otelbatch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// spanRecorder is a TracerProvider that records which spans were made and ended.
type spanRecorder struct {
	noop.TracerProvider
	mu         sync.Mutex
	lastSpanID byte
	all        []recordedSpan
}

type recordedSpan struct {
	name       string
	context    trace.SpanContext
	parent     trace.SpanContext
	links      []trace.Link
	kind       trace.SpanKind
	attrs      map[attribute.Key]string
	status     codes.Code
	statusText string
	start, end time.Time
}

func (s recordedSpan) duration() time.Duration { return s.end.Sub(s.start) }

func (s *spanRecorder) Tracer(string, ...trace.TracerOption) trace.Tracer {
	return recordingTracer{spans: s}
}

// madeSpans returns the spans by name. Each name must be unique.
func (s *spanRecorder) madeSpans(t *testing.T) map[string]recordedSpan {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]recordedSpan{}
	for _, made := range s.all {
		require.NotContains(t, all, made.name)
		all[made.name] = made
	}
	return all
}

type recordingTracer struct {
	noop.Tracer
	spans *spanRecorder
}

func (t recordingTracer) Start(ctx context.Context, name string, o ...trace.SpanStartOption) (context.Context, trace.Span) {
	c := trace.NewSpanStartConfig(o...)
	made := &openSpan{spans: t.spans, recordedSpan: recordedSpan{
		name: name, parent: trace.SpanContextFromContext(ctx), links: c.Links(), kind: c.SpanKind(), start: c.Timestamp(), attrs: map[attribute.Key]string{},
	}}
	for _, a := range c.Attributes() {
		made.attrs[a.Key] = a.Value.String()
	}
	t.spans.mu.Lock()
	defer t.spans.mu.Unlock()
	t.spans.lastSpanID++
	made.context = made.parent.WithSpanID(trace.SpanID{t.spans.lastSpanID, 7: 0xee}).WithRemote(false)
	return trace.ContextWithSpanContext(ctx, made.context), made
}

type openSpan struct {
	noop.Span
	spans *spanRecorder
	recordedSpan
}

func (r *openSpan) SetStatus(code codes.Code, why string) { r.status, r.statusText = code, why }

func (r *openSpan) End(o ...trace.SpanEndOption) {
	c := trace.NewSpanEndConfig(o...)
	r.end = c.Timestamp()
	r.spans.mu.Lock()
	defer r.spans.mu.Unlock()
	r.spans.all = append(r.spans.all, r.recordedSpan)
}

// callerContext returns a context with a span.
func callerContext(ctx context.Context, flags trace.TraceFlags) (context.Context, trace.SpanContext) {
	sc := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{0x4b, 15: 0x36}, SpanID: trace.SpanID{0xf0, 7: 0xb7}, TraceFlags: flags})
	return trace.ContextWithSpanContext(ctx, sc), sc
}

// spanObservers returns the observers that make spans.
func spanObservers(t *testing.T, s *spanRecorder) []batch.Observer {
	t.Helper()
	traces, err := NewTraces(s)
	require.NoError(t, err)
	return []batch.Observer{traces}
}

// startRun runs r until the func that it returns is called.
func startRun(t *testing.T, r *dltbatch.Runner) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	end := make(chan error, 1)
	go func() { end <- r.Run(ctx) }()
	return func() {
		cancel()
		assert.NoError(t, <-end)
	}
}

// checkSpans checks that all spans belong to the caller's trace, and that no attribute names a
// batch or a lane.
func checkSpans(t *testing.T, all map[string]recordedSpan, sc trace.SpanContext, secrets ...string) {
	t.Helper()
	for name, s := range all {
		assert.Equal(t, sc.TraceID(), s.parent.TraceID(), name)
		assert.Equal(t, sc.SpanID(), s.parent.SpanID(), name)
		assert.True(t, s.parent.IsRemote(), name)
		if assert.Len(t, s.links, 1, name) {
			assert.Equal(t, s.parent, s.links[0].SpanContext, name)
		}
		for key, value := range s.attrs {
			for _, secret := range secrets {
				assert.NotContains(t, value, secret, "%s: %s", name, key)
			}
		}
	}
}

func TestTraceParent(t *testing.T) {
	ctx, _ := callerContext(t.Context(), trace.FlagsSampled)
	assert.Equal(t, "00-4b000000000000000000000000000036-f0000000000000b7-01", TraceParent(ctx))
	ctx, _ = callerContext(t.Context(), 0)
	assert.Equal(t, "00-4b000000000000000000000000000036-f0000000000000b7-00", TraceParent(ctx))
	assert.Empty(t, TraceParent(t.Context()))
}

func TestNewTracesRefusesNoProvider(t *testing.T) {
	_, err := NewTraces(nil)
	var inputErr *batch.InputError
	require.ErrorAs(t, err, &inputErr)
	assert.Equal(t, "provider", inputErr.Field)
}

// slowRecordStore is a store that writes outcomes slowly.
type slowRecordStore struct {
	*memory.Store
	delay time.Duration
}

func (s slowRecordStore) Record(ctx context.Context, all []store.Outcome) ([]store.Applied, error) {
	time.Sleep(s.delay)
	return s.Store.Record(ctx, all)
}

// slowStatusLedger is a ledger that answers queries slowly.
type slowStatusLedger struct {
	*ledgermem.Ledger
	delay time.Duration
}

func (l slowStatusLedger) BatchStatuses(ctx context.Context, s batch.ServiceID, all []batch.Attempt) ([]batch.Status, error) {
	time.Sleep(l.delay)
	return l.Ledger.BatchStatuses(ctx, s, all)
}

// The spans of a batch show when it was posted, when its outcome was found, and how long it took
// in all.
func TestSpansOfABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const post, commit, write, query = 300 * time.Millisecond, 5 * time.Second, 2 * time.Second, 200 * time.Millisecond
		traits := ledgermem.Unforgiving(0)
		ledger := slowStatusLedger{ledgermem.New(&ledgermem.Options{Traits: &traits, CommitAfter: commit, Fault: func(batch.Attempt) ledgermem.Fault {
			return ledgermem.Fault{Latency: post}
		}}), query}
		made := &spanRecorder{}
		r, err := dltbatch.New(slowRecordStore{memory.New(), write}, ledger, &dltbatch.Options{TraceParent: TraceParent, Observers: spanObservers(t, made)})
		require.NoError(t, err)
		stop := startRun(t, r)
		synctest.Wait()
		ctx, sc := callerContext(t.Context(), trace.FlagsSampled)
		added := time.Now()
		b := newBatch("a-lane", "an-id")
		b.Payload, b.DataChangeID = []byte("a payload"), "a key"
		require.NoError(t, r.Add(ctx, b))
		rec, err := r.Await(t.Context(), batch.Key{Service: "a-lane", ID: "an-id"})
		require.NoError(t, err)
		assert.Equal(t, TraceParent(ctx), rec.TraceParent)
		stop()
		all := made.madeSpans(t)
		require.Len(t, all, 4)
		checkSpans(t, all, sc, "a-lane", "an-id", "a payload", "a key")
		asked := all[spanQuery]
		assert.Equal(t, query, asked.duration())
		assert.InDelta(t, write, all[spanOutcome].end.Sub(asked.end), float64(50*time.Millisecond), "not when it was written")
		assert.Equal(t, trace.SpanKindClient, asked.kind)
		assert.Equal(t, map[attribute.Key]string{"dltbatch.attempt": "1", "dltbatch.state": "committed"}, asked.attrs)
		attempt, outcome, final := all[spanAttempt], all[spanOutcome], all[spanFinal]
		const slack = 10 * time.Millisecond
		assert.Equal(t, post, attempt.duration())
		assert.InDelta(t, post, attempt.end.Sub(added), float64(slack), "not when it was written")
		assert.Equal(t, trace.SpanKindClient, attempt.kind)
		assert.Equal(t, map[attribute.Key]string{"dltbatch.attempt": "1", "dltbatch.result": "accepted", "dltbatch.request.batches": "1"}, attempt.attrs)
		assert.Equal(t, rec.FinalAt.Sub(rec.LastPost), outcome.duration())
		assert.Equal(t, map[attribute.Key]string{"dltbatch.attempt": "1", "dltbatch.state": "committed", "dltbatch.by": "monitor"}, outcome.attrs)
		assert.Equal(t, rec.FinalAt.Sub(rec.CreatedAt), final.duration())
		assert.WithinDuration(t, added, final.start, slack)
		assert.Equal(t, outcome.end, final.end)
		for name, s := range all {
			assert.Equal(t, codes.Unset, s.status, name)
		}
	})
}

// If the parent was not sampled, or there is none, no span is made, whatever the sampler would
// decide.
func TestSamplingIsTheParents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := &spanRecorder{}
		r, err := dltbatch.New(memory.New(), ledgermem.New(nil), &dltbatch.Options{TraceParent: TraceParent, Observers: spanObservers(t, made)})
		require.NoError(t, err)
		stop := startRun(t, r)
		unsampled, _ := callerContext(t.Context(), 0)
		for id, ctx := range map[batch.ID]context.Context{"unsampled": unsampled, "none": t.Context()} {
			require.NoError(t, r.Add(ctx, newBatch("s", id)))
			rec, err := r.Await(t.Context(), batch.Key{Service: "s", ID: id})
			require.NoError(t, err)
			assert.Equal(t, TraceParent(ctx), rec.TraceParent)
		}
		stop()
		assert.Empty(t, made.madeSpans(t))
	})
}

// An instance posts a batch and dies before it writes the outcome. Another instance finds the
// outcome: its spans belong to the trace of the caller that added the batch to the first instance.
func TestSpansAfterACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &faultSwitches{Store: memory.New()}
		s.writesNoOutcomes.Store(true)
		ledger := ledgermem.New(&ledgermem.Options{Traits: &dlt.Traits{Name: "memory", ResendHarmlessFor: dlt.Forever}, CommitAfter: time.Second})
		start := func(st store.Store) (*dltbatch.Runner, *spanRecorder, func()) {
			made := &spanRecorder{}
			r, err := dltbatch.New(st, ledger, &dltbatch.Options{TraceParent: TraceParent, Observers: spanObservers(t, made), Drain: 15 * time.Second})
			require.NoError(t, err)
			return r, made, startRun(t, r)
		}
		r, before, stop := start(s)
		ctx, sc := callerContext(t.Context(), trace.FlagsSampled)
		require.NoError(t, r.Add(ctx, newBatch("s", "b")))
		time.Sleep(5 * time.Second)
		stop()
		assert.Empty(t, before.madeSpans(t), "it has written nothing, and knows nothing")

		other, after, stop := start(s.Store)
		rec, err := other.Await(t.Context(), batch.Key{Service: "s", ID: "b"})
		require.NoError(t, err)
		require.Equal(t, batch.Committed, rec.State)
		stop()
		all := after.madeSpans(t)
		require.Contains(t, all, spanOutcome)
		require.Contains(t, all, spanFinal)
		checkSpans(t, all, sc)
		assert.Equal(t, rec.FinalAt.Sub(rec.CreatedAt), all[spanFinal].duration())
	})
}

// TestSpansOfEvents has the spans of each kind of event.
func TestSpansOfEvents(t *testing.T) {
	const second = time.Second
	because := func(k batch.ErrorKind) error { return &batch.SubmissionError{Kind: k, Message: "with a secret"} }
	ctx, sc := callerContext(t.Context(), trace.FlagsSampled)
	at := time.Now()
	for name, c := range map[string]struct {
		event batch.Event
		want  []string // "name status" of each span
	}{
		"accepted": {
			batch.Event{Kind: batch.EventState, State: batch.Pending, From: batch.Submitting, By: batch.BySubmitter, InRequest: 1, Took: second}, []string{spanAttempt},
		},
		"in doubt": {
			batch.Event{Kind: batch.EventInDoubt, State: batch.Submitting, From: batch.Submitting, By: batch.BySubmitter, InRequest: 1, Err: because(batch.KindDoubt)},
			[]string{spanAttempt + ": doubt"},
		},
		"busy": {
			batch.Event{Kind: batch.EventState, State: batch.Delayed, From: batch.Submitting, By: batch.BySubmitter, InRequest: 1, Err: because(batch.KindBusy)},
			[]string{spanAttempt + ": busy"},
		},
		"refused": {
			batch.Event{Kind: batch.EventFinal, State: batch.Rejected, From: batch.Submitting, By: batch.BySubmitter, InRequest: 1, Err: because(batch.KindRejected)},
			[]string{spanAttempt + ": rejected", spanFinal + ": rejected"},
		},
		"refused, and set aside": {
			batch.Event{Kind: batch.EventQuarantined, State: batch.Rejected, By: batch.BySubmitter, InRequest: 1, Err: because(batch.KindRejected)}, nil,
		},
		"one write with the acceptance": {
			batch.Event{Kind: batch.EventFinal, State: batch.Committed, From: batch.Submitting, By: batch.BySubmitter, SincePosted: second}, []string{spanOutcome, spanFinal},
		},
		"sent again": {
			batch.Event{Kind: batch.EventState, State: batch.Unknown, From: batch.Submitting, By: batch.ByMonitor}, []string{spanOutcome},
		},
		"valid, not committed": {batch.Event{Kind: batch.EventState, State: batch.Valid, From: batch.Pending, By: batch.ByMonitor}, nil},
		"invalid": {
			batch.Event{Kind: batch.EventState, State: batch.Invalid, From: batch.Pending, By: batch.ByMonitor}, []string{spanOutcome},
		},
		"settled": {
			batch.Event{Kind: batch.EventFinal, State: batch.Invalid, From: batch.Invalid, By: batch.ByMonitor}, []string{spanFinal + ": invalid"},
		},
		"a breach with the commit": {
			batch.Event{Kind: batch.EventOrderBreach, State: batch.Committed, From: batch.Invalid, By: batch.ByMonitor}, []string{spanOutcome, spanFinal},
		},
		"a breach beside another event": {batch.Event{Kind: batch.EventOrderBreach, State: batch.Invalid, From: batch.Submitting, By: batch.ByMonitor}, nil},
		"cancelled": {
			batch.Event{Kind: batch.EventOperated, State: batch.Rejected, By: batch.ByOperator, Act: batch.Act{Action: batch.ActionCancel}}, []string{spanFinal + ": rejected"},
		},
		"decided": {
			batch.Event{Kind: batch.EventOperated, State: batch.Committed, By: batch.ByOperator, Act: batch.Act{Action: batch.ActionDecide}}, []string{spanFinal},
		},
		"acquitted": {batch.Event{Kind: batch.EventOperated, State: batch.Rejected, By: batch.ByOperator, Act: batch.Act{Action: batch.ActionAcquit}}, nil},
		"claimed":   {batch.Event{Kind: batch.EventClaimed, State: batch.Submitting, By: batch.ByQueuer}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			made := &spanRecorder{}
			o := spanObservers(t, made)[0]
			c.event.Key, c.event.At = batch.Key{Service: "a-lane", ID: "an-id"}, at
			o.Observe(t.Context(), c.event)
			require.Empty(t, made.madeSpans(t), "without a context")
			c.event.TraceParent = TraceParent(ctx)
			o.Observe(t.Context(), c.event)
			var got []string
			for _, s := range made.all {
				assert.False(t, s.start.After(s.end))
				assert.Equal(t, s.statusText != "", s.status == codes.Error)
				got = append(got, strings.TrimSuffix(fmt.Sprintf("%s: %s", s.name, s.statusText), ": "))
			}
			assert.Equal(t, c.want, got)
			checkSpans(t, made.madeSpans(t), sc, "a-lane", "an-id", "secret")
		})
	}
}

// A text in the database that is not a trace context makes no span and no trouble.
func TestNoSpanOfABadContext(t *testing.T) {
	made := &spanRecorder{}
	o := spanObservers(t, made)[0]
	for _, bad := range []string{"x", strings.Repeat("0", 8<<10), "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "00-00000000000000000000000000000000-00f067aa0ba902b7-01"} {
		o.Observe(t.Context(), batch.Event{Kind: batch.EventFinal, State: batch.Committed, TraceParent: bad})
	}
	assert.Empty(t, made.all)
}

// If a tracer panics, the other observers still get the event.
func TestATracerThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := newCounted()
		r, err := dltbatch.New(memory.New(), ledgermem.New(nil), &dltbatch.Options{TraceParent: TraceParent, Observer: seen, Observers: []batch.Observer{&Traces{panickyTracer{}}}})
		require.NoError(t, err)
		stop := startRun(t, r)
		ctx, _ := callerContext(t.Context(), trace.FlagsSampled)
		require.NoError(t, r.Add(ctx, newBatch("s", "b")))
		_, err = r.Await(t.Context(), batch.Key{Service: "s", ID: "b"})
		require.NoError(t, err)
		stop()
		assert.Equal(t, 1, seen.events[batch.EventFinal])
	})
}

type panickyTracer struct{ noop.Tracer }

func (panickyTracer) Start(context.Context, string, ...trace.SpanStartOption) (context.Context, trace.Span) {
	panic(errors.New("the tracer is broken"))
}

// An event without a sampled context costs no allocation.
func TestNoContextNoAllocation(t *testing.T) {
	o := spanObservers(t, &spanRecorder{})[0]
	ctx, _ := callerContext(t.Context(), 0)
	for _, parent := range []string{"", TraceParent(ctx)} {
		e := batch.Event{Kind: batch.EventFinal, State: batch.Committed, InRequest: 1, TraceParent: parent}
		if n := testing.AllocsPerRun(100, func() { o.Observe(ctx, e) }); n != 0 {
			t.Errorf("%v allocations an event, context %q", n, parent)
		}
	}
}
