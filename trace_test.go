package dltbatch

import (
	"context"
	"strings"
	"testing"

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

// A batch keeps its own trace context, or else the caller's. What is no context is dropped and counted,
// and the batch is added all the same.
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

// Where nobody gives a context, an Add costs no allocation more; and where all batches have their own.
func TestATraceThatNobodyWantsIsFree(t *testing.T) {
	r, ctx := quiet(t), t.Context()
	for name, own := range map[string]string{"none": "", "own": ownTrace} {
		given := []batch.Batch{{Service: "s", ID: "b", TraceParent: own}}
		if n := testing.AllocsPerRun(100, func() { r.traced(ctx, given) }); n != 0 {
			t.Errorf("%s: %v allocations an Add", name, n)
		}
	}
}
