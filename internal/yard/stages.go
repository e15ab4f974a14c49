package main

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"
)

// stages are the parts of a batch's way, and the func or package that each of their
// goroutines is in. The stores' and the drivers' allocations are in them; those of
// net/http are told apart, and what fits nowhere is the rest.
var stages = [...]struct{ name, frame string }{
	{"add", "dltbatch.(*Runner).Add"},
	{"claim", "dltbatch/queuer."},
	{"post", "dltbatch/submitter."},
	{"record", "dltbatch/internal/recorder."},
	{"poll", "dltbatch/monitor."},
	{"http", "net/http."},
	{"rest", ""},
}

// stacks are what was allocated where.
type stacks map[[32]uintptr]int64

// allocated is what was allocated since runtime.MemProfileRate became 1.
func allocated() stacks {
	for range 3 { // what the last collections have not seen yet is not told
		runtime.GC()
	}
	records := make([]runtime.MemProfileRecord, 10_000)
	n, ok := runtime.MemProfile(records, true)
	for ; !ok; n, ok = runtime.MemProfile(records, true) {
		records = make([]runtime.MemProfileRecord, n+1000)
	}
	all := stacks{}
	for _, r := range records[:n] {
		all[r.Stack0] += r.AllocObjects
	}
	return all
}

// usage is what the stages have allocated, for each batch, and where.
type usage struct {
	stages [len(stages)]float64
	places [len(stages)]map[string]float64
}

// since is what was allocated after others were, for each of n batches.
func (s stacks) since(before stacks, n int) (u usage) {
	for stack, objects := range s {
		if objects -= before[stack]; objects == 0 {
			continue
		}
		i, where := stageOf(stack)
		u.stages[i] += float64(objects) / float64(n)
		if u.places[i] == nil {
			u.places[i] = map[string]float64{}
		}
		u.places[i][where] += float64(objects) / float64(n)
	}
	return u
}

// stageOf is the stage whose goroutine has this stack.
func stageOf(stack [32]uintptr) (stage int, where string) {
	n := slices.Index(stack[:], 0)
	if n < 0 {
		n = len(stack)
	}
	stage = len(stages) - 1
	for frames := runtime.CallersFrames(stack[:n]); ; {
		f, more := frames.Next()
		if where == "" && !strings.HasPrefix(f.Function, "runtime.") {
			where = fmt.Sprintf("%s:%d", f.Function, f.Line)
		}
		for i, s := range stages { // the outermost counts: it is whose goroutine it is
			if s.frame == "" || !strings.Contains(f.Function, s.frame) {
				continue
			}
			if s.name == "http" {
				return i, where
			}
			stage = i
		}
		if !more {
			return stage, where
		}
	}
}

// largest lists where a stage allocated most.
func (u usage) largest(stage int) string {
	type place struct {
		where   string
		objects float64
	}
	var all []place
	for where, objects := range u.places[stage] {
		all = append(all, place{where, objects})
	}
	slices.SortFunc(all, func(a, b place) int { return cmp.Compare(b.objects, a.objects) })
	var s strings.Builder
	for _, p := range all[:min(12, len(all))] {
		fmt.Fprintf(&s, "\n%8.2f  %s", p.objects, p.where)
	}
	return s.String()
}
