package dltbatch

import (
	"context"
	"testing"

	"github.com/dltbatch/dltbatch/batch"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/store/memory"
)

func quiet(t testing.TB) *Runner {
	t.Helper()
	r, err := New(memory.New(), ledgermem.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var happened = batch.Event{Kind: batch.EventState, Key: batch.Key{Service: "s", ID: "b"}, State: batch.Pending, Attempt: 1}

// Where nobody looks, an event costs no allocation.
func TestAnEventThatNobodySeesIsFree(t *testing.T) {
	r, ctx := quiet(t), t.Context()
	if n := testing.AllocsPerRun(100, func() { r.observe(ctx, happened) }); n != 0 {
		t.Errorf("%v allocations an event", n)
	}
}

func BenchmarkEventThatNobodySees(b *testing.B) {
	r, ctx := quiet(b), context.Background()
	b.ReportAllocs()
	for b.Loop() {
		r.observe(ctx, happened)
	}
}
