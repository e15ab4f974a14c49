package autobatch

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store/memory"
)

const (
	ownTrace     = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	callersTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
)

// An order keeps its own trace context, or else gets the caller's. A batch has its Builder's, or
// else TraceBatch's. A text that is no context, and a panic, are dropped and counted, and delay
// nothing.
func TestTraceContextsOfOrders(t *testing.T) {
	is := func(s string) func(context.Context) string { return func(context.Context) string { return s } }
	of := func(s string) func(context.Context, []order.Order) string {
		return func(_ context.Context, orders []order.Order) string {
			assert.Len(t, orders, 1)
			return s
		}
	}
	for name, c := range map[string]struct {
		ofOrder, ofBuilder       string
		o                        Options
		wantOfOrder, wantOfBatch string
		dropped                  uint64
	}{
		"nobody asks":            {},
		"its own":                {ofOrder: ownTrace, wantOfOrder: ownTrace},
		"its own before another": {ofOrder: ownTrace, o: Options{TraceParent: is(callersTrace)}, wantOfOrder: ownTrace},
		"the caller's":           {o: Options{TraceParent: is(callersTrace)}, wantOfOrder: callersTrace},
		"the caller's is none":   {o: Options{TraceParent: is("malformed")}, dropped: 1},
		"the caller's panics":    {o: Options{TraceParent: func(context.Context) string { panic("boom") }}, dropped: 1},
		"8 KB":                   {ofOrder: strings.Repeat("0", 8<<10), dropped: 1},
		"a batch":                {o: Options{TraceBatch: of(callersTrace)}, wantOfBatch: callersTrace},
		"the Builder's":          {ofBuilder: ownTrace, o: Options{TraceBatch: of(callersTrace)}, wantOfBatch: ownTrace},
		"the Builder's is none":  {ofBuilder: "malformed", dropped: 1},
		"a batch's is none":      {o: Options{TraceBatch: of(strings.Repeat("0", 8<<10))}, dropped: 1},
		"a batch's panics":       {o: Options{TraceBatch: func(context.Context, []order.Order) string { panic("boom") }}, dropped: 1},
	} {
		t.Run(name, func(t *testing.T) {
			st := memory.New()
			var seen []OrderEvent
			c.o.Observer = func(e OrderEvent) { seen = append(seen, e) }
			e, err := New(st, order.BuilderFunc(func(_ context.Context, party batch.ServiceID, _ []order.Order) (batch.Batch, error) {
				return batch.Batch{Service: party, ID: "b", Payload: []byte("p"), TraceParent: c.ofBuilder}, nil
			}), &c.o)
			require.NoError(t, err)
			given := []order.Order{{ID: "o", Party: "p", Payload: []byte("p"), TraceParent: c.ofOrder}}
			require.NoError(t, e.Add(t.Context(), given...))
			assert.Equal(t, c.ofOrder, given[0].TraceParent, "the caller's slice is the caller's")
			require.NoError(t, e.makeNextBatch(t.Context(), "p"))
			recs, _, err := st.ListOrders(t.Context(), order.ListQuery{})
			require.NoError(t, err)
			require.Len(t, recs, 1)
			assert.Equal(t, c.wantOfOrder, recs[0].TraceParent)
			b, err := st.Get(t.Context(), batch.Key{Service: "p", ID: "b"})
			require.NoError(t, err)
			assert.Equal(t, c.wantOfBatch, b.TraceParent)
			assert.Equal(t, c.dropped, e.DroppedTraces())
			require.Len(t, seen, 1)
			assert.Equal(t, c.wantOfBatch, seen[0].TraceParent)
			assert.Equal(t, c.wantOfOrder, seen[0].Orders[0].TraceParent)
			assert.Equal(t, recs[0].CreatedAt, seen[0].Orders[0].Created)
		})
	}
}
