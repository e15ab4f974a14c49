package main

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/store/memory"
)

// stages are the parts of a batch's way, and the func or package that each of their
// goroutines is in. The memory store's own allocations are in them.
var stages = []struct{ name, frame string }{
	{"add", "dltbatch.(*Runner).Add"},
	{"claim", "dltbatch/queuer."},
	{"post", "dltbatch/submitter."},
	{"record", "dltbatch/internal/recorder."},
	{"poll", "dltbatch/monitor."},
}

// instant takes every batch, and has committed it when it is asked. It makes nothing
// but its answers, one slice a query.
type instant struct{}

func (instant) Traits(batch.ServiceID) dlt.Traits {
	return dlt.Traits{Name: "instant", ResendHarmlessFor: dlt.Forever, MaxIDsPerQuery: 100}
}

func (instant) Submit(context.Context, batch.Attempt) error { return nil }

func (instant) BatchStatuses(_ context.Context, _ batch.ServiceID, as []batch.Attempt) ([]batch.Status, error) {
	out := make([]batch.Status, len(as))
	for i, a := range as {
		out[i] = batch.Status{ID: a.ID, Reported: batch.ReportedCommitted}
	}
	return out, nil
}

// allocations are what was allocated where, since the process began.
func allocations() map[[32]uintptr]int64 {
	for range 3 { // what the last collections have not seen yet is not told
		runtime.GC()
	}
	records := make([]runtime.MemProfileRecord, 10_000)
	n, ok := runtime.MemProfile(records, true)
	for ; !ok; n, ok = runtime.MemProfile(records, true) {
		records = make([]runtime.MemProfileRecord, n+1000)
	}
	all := map[[32]uintptr]int64{}
	for _, r := range records[:n] {
		all[r.Stack0] += r.AllocObjects
	}
	return all
}

// stageOf is the stage whose goroutine has this stack.
func stageOf(stack [32]uintptr) (stage, where string) {
	n := slices.Index(stack[:], 0)
	if n < 0 {
		n = len(stack)
	}
	frames := runtime.CallersFrames(stack[:n])
	stage = "rest"
	for {
		f, more := frames.Next()
		if where == "" && !strings.HasPrefix(f.Function, "runtime.") {
			where = fmt.Sprintf("%s:%d", f.Function, f.Line)
		}
		for _, s := range stages { // the outermost counts: it is whose goroutine it is
			if strings.Contains(f.Function, s.frame) {
				stage = s.name
			}
		}
		if !more {
			return stage, where
		}
	}
}

// A batch costs so many allocations in this process, from Add to its commit: exact
// figures of a run on the memory store, without a ledger's client, with a little
// room for groups of other sizes. What costs more has to say why.
func TestAllocationsOfARun(t *testing.T) {
	budget := map[string]float64{"add": 5.4, "claim": 13.2, "post": 9.2, "record": 3.6, "poll": 3.7, "rest": 0.2}
	const n, lanes = 5_000, 500
	w := newWork(1, n, lanes, leastSize)
	defer func(rate int) { runtime.MemProfileRate = rate }(runtime.MemProfileRate)
	runtime.MemProfileRate = 1
	before := allocations()
	synctest.Test(t, func(t *testing.T) {
		done := newFinals(w, n)
		r, err := dltbatch.New(memory.New(), instant{}, &dltbatch.Options{Observer: done})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		synctest.Wait()
		for group := range slices.Chunk(w.batches, addGroup) {
			require.NoError(t, r.Add(ctx, group...))
		}
		<-done.all
		stop()
		require.NoError(t, <-ended)
	})
	got, places := map[string]float64{}, map[string]map[string]int64{}
	for stack, objects := range allocations() {
		if objects -= before[stack]; objects == 0 {
			continue
		}
		stage, where := stageOf(stack)
		got[stage] += float64(objects) / n
		if places[stage] == nil {
			places[stage] = map[string]int64{}
		}
		places[stage][where] += objects
	}
	for stage, most := range budget {
		if got[stage] <= most {
			t.Logf("%s: %.3f a batch; most of them in%s", stage, got[stage], largest(places[stage], n))
			continue
		}
		t.Errorf("%s: %.2f allocations a batch, want at most %.2f; most of them in%s", stage, got[stage], most, largest(places[stage], n))
	}
}

// largest lists where most was allocated.
func largest(places map[string]int64, n int) string {
	type place struct {
		where   string
		objects int64
	}
	var all []place
	for where, objects := range places {
		all = append(all, place{where, objects})
	}
	slices.SortFunc(all, func(a, b place) int { return cmp.Compare(b.objects, a.objects) })
	var s strings.Builder
	for _, p := range all[:min(12, len(all))] {
		fmt.Fprintf(&s, "\n%8.2f  %s", float64(p.objects)/float64(n), p.where)
	}
	return s.String()
}
