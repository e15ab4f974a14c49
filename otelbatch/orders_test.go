package otelbatch

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	storemem "github.com/dltbatch/dltbatch/store/memory"
	"github.com/dltbatch/dltbatch/store/sqlite"
	"github.com/dltbatch/dltbatch/store/sqlite/sqliteopen"
)

// One process adds orders, and ends. Another one makes a batch of them and delivers it. The span
// of each order is in the trace of the caller that added it, and has a link to the batch. The
// batch's span has a link to each sampled order, and the spans of the batch's attempts are its
// children.
func TestSpansOfOrders(t *testing.T) {
	path := filepath.Join(t.TempDir(), "queue.db")
	made := &spanRecorder{}
	traces, err := NewTraces(made)
	require.NoError(t, err)
	process := func(do func(st *sqlite.Store, e *autobatch.Engine)) {
		db, err := sqliteopen.Open(path)
		require.NoError(t, err)
		defer func() { assert.NoError(t, db.Close()) }()
		st, err := sqlite.New(db, nil)
		require.NoError(t, err)
		require.NoError(t, st.Migrate(t.Context()))
		e, err := autobatch.New(st, order.BuilderFunc(func(_ context.Context, party batch.ServiceID, orders []order.Order) (batch.Batch, error) {
			return batch.Batch{Service: party, ID: "a-batch", Payload: []byte(fmt.Sprint("a payload of ", len(orders)))}, nil
		}), &autobatch.Options{TraceBatch: traces.TraceBatch, Observer: traces.ObserveOrders})
		require.NoError(t, err)
		do(st, e)
	}
	process(func(_ *sqlite.Store, e *autobatch.Engine) {
		for i, parent := range traceParents() {
			require.NoError(t, e.Add(t.Context(), order.Order{
				ID: order.ID(fmt.Sprint("an-order", i)), Party: "a-lane", Key: fmt.Sprint("a key", i), Payload: []byte("a payload"), TraceParent: parent,
			}))
		}
	})
	process(func(st *sqlite.Store, e *autobatch.Engine) {
		r, err := dltbatch.New(st, ledgermem.New(nil), &dltbatch.Options{Observer: e, Observers: []batch.Observer{traces}})
		require.NoError(t, err)
		stop := startRun(t, r)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		end := make(chan error, 1)
		go func() { end <- e.Run(ctx) }()
		for i := range traceParents() {
			rec, err := e.Await(ctx, order.ID(fmt.Sprint("an-order", i)))
			require.NoError(t, err)
			assert.Equal(t, order.Confirmed, rec.State)
		}
		cancel()
		require.NoError(t, <-end)
		stop()
	})

	by := map[string][]recordedSpan{}
	for _, s := range made.all {
		by[s.name] = append(by[s.name], s)
		for key, value := range s.attrs {
			for _, secret := range []string{"a-lane", "an-order", "a-batch", "a payload", "a key"} {
				assert.NotContains(t, value, secret, "%s: %s", s.name, key)
			}
		}
	}
	one, two := sampledContext(traceParents()[0]), sampledContext(traceParents()[1])
	require.Len(t, by[spanBuild], 1)
	build := by[spanBuild][0]
	assert.Equal(t, one, build.parent)
	assert.Equal(t, []trace.Link{{SpanContext: one}, {SpanContext: two}}, build.links)
	assert.Equal(t, map[attribute.Key]string{"dltbatch.build.orders": "4"}, build.attrs)
	for _, name := range []string{spanAttempt, spanFinal} {
		require.Len(t, by[name], 1, name)
		assert.Equal(t, build.context.SpanID(), by[name][0].parent.SpanID(), name)
	}
	require.Len(t, by[spanOrder], 2)
	parents := map[trace.TraceID]bool{}
	for _, s := range by[spanOrder] {
		parents[s.parent.TraceID()] = true
		require.Len(t, s.links, 2)
		assert.Equal(t, build.context.SpanID(), s.links[0].SpanContext.SpanID(), "its batch's")
		assert.Equal(t, s.parent, s.links[1].SpanContext)
		assert.False(t, s.start.After(s.end))
		assert.Equal(t, codes.Unset, s.status)
		assert.Equal(t, map[attribute.Key]string{"dltbatch.state": "confirmed"}, s.attrs)
	}
	assert.Equal(t, map[trace.TraceID]bool{one.TraceID(): true, two.TraceID(): true}, parents)
}

// An order has one span, made when it is final. An order that waits again has none yet.
func TestSpansOfOrderEvents(t *testing.T) {
	verdict := func(s order.State) []order.Verdict {
		return []order.Verdict{
			{Ref: order.Ref{ID: "sampled", TraceParent: traceParents()[0], Created: time.Now().Add(time.Hour)}, State: s},
			{Ref: order.Ref{ID: "not", TraceParent: traceParents()[2]}, State: s}, {Ref: order.Ref{ID: "bad", TraceParent: "x"}, State: s},
		}
	}
	for name, c := range map[string]struct {
		event autobatch.OrderEvent
		want  []string
	}{
		"prepared":    {autobatch.OrderEvent{Kind: autobatch.EventPrepared, Orders: verdict(order.Dequeued)}, nil},
		"confirmed":   {autobatch.OrderEvent{Kind: autobatch.EventSettled, Orders: verdict(order.Confirmed)}, []string{""}},
		"failed":      {autobatch.OrderEvent{Kind: autobatch.EventSettled, Orders: verdict(order.Failed)}, []string{"failed"}},
		"again":       {autobatch.OrderEvent{Kind: autobatch.EventSettled, Orders: verdict(order.Queued)}, nil},
		"quarantined": {autobatch.OrderEvent{Kind: autobatch.EventRefused, Orders: verdict(order.Quarantined)}, []string{"quarantined"}},
		"expired":     {autobatch.OrderEvent{Kind: autobatch.EventExpired, Count: 3, Orders: verdict(order.Failed)}, []string{"failed"}},
	} {
		t.Run(name, func(t *testing.T) {
			made := &spanRecorder{}
			traces, err := NewTraces(made)
			require.NoError(t, err)
			traces.ObserveOrders(c.event)
			var got []string
			for _, s := range made.all {
				got = append(got, s.statusText)
				assert.False(t, s.start.After(s.end), "the database's clock goes before")
				assert.Equal(t, []trace.Link{{SpanContext: sampledContext(traceParents()[0])}}, s.links)
			}
			assert.Equal(t, c.want, got)
		})
	}
}

// An order that expires before it is part of a batch has its span in the trace of the caller that
// added it.
func TestSpanOfAnExpiredOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := &spanRecorder{}
		traces, err := NewTraces(made)
		require.NoError(t, err)
		e, err := autobatch.New(storemem.New(), order.BuilderFunc(func(context.Context, batch.ServiceID, []order.Order) (batch.Batch, error) {
			return batch.Batch{}, nil
		}), &autobatch.Options{Observer: traces.ObserveOrders})
		require.NoError(t, err)
		require.NoError(t, e.Add(t.Context(), order.Order{ID: "o", Party: "p", Payload: []byte("p"), Deadline: time.Now(), TraceParent: traceParents()[0]}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, e.Run(ctx))
		require.Len(t, made.all, 1)
		assert.Equal(t, spanOrder, made.all[0].name)
		assert.Equal(t, "failed", made.all[0].statusText)
		assert.Equal(t, sampledContext(traceParents()[0]), made.all[0].parent)
	})
}

// The trace contexts that an Engine drops are counted with those of Runners.
func TestWatchEngine(t *testing.T) {
	b := newMeterBook()
	m, err := NewMetrics(b)
	require.NoError(t, err)
	m.addRunner(fixedHealth{DroppedTraces: 2})
	e, err := autobatch.New(storemem.New(), order.BuilderFunc(func(context.Context, batch.ServiceID, []order.Order) (batch.Batch, error) {
		return batch.Batch{}, nil
	}), nil)
	require.NoError(t, err)
	m.WatchEngine(e)
	require.NoError(t, e.Add(t.Context(), order.Order{ID: "o", Party: "p", Payload: []byte("p"), TraceParent: "malformed"}))
	require.NoError(t, b.collect())
	assert.InDelta(t, 3, b.valueOf("dltbatch.traces.dropped"), 1e-9)
}

// If none of the orders was sampled, no span is made, and their batch has no trace context.
func TestABatchThatNobodySampled(t *testing.T) {
	made := &spanRecorder{}
	traces, err := NewTraces(made)
	require.NoError(t, err)
	assert.Empty(t, traces.TraceBatch(t.Context(), []order.Order{{TraceParent: traceParents()[2]}, {}, {TraceParent: "x"}}))
	assert.Empty(t, made.all)
}
