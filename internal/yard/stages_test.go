package main

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"
)

// allocationStages are the stages of a batch, each with the function or package in which its
// goroutines run. Allocations of a store and a driver count for the stage that calls them.
// Allocations of net/http have a stage of their own, and "rest" gets those that match no stage.
var allocationStages = [...]struct{ name, frame string }{
	{"add", "dltbatch.(*Runner).Add"},
	{"claim", "dltbatch/internal/claim."},
	{"post", "dltbatch/internal/submit."},
	{"record", "dltbatch/internal/groups."},
	{"poll", "dltbatch/internal/ask."},
	{"http", "net/http."},
	{"rest", ""},
}

// allocationsByStack counts allocations by stack.
type allocationsByStack map[[32]uintptr]int64

// readAllocations returns the allocations since runtime.MemProfileRate became 1.
func readAllocations() allocationsByStack {
	for range 3 { // the profile lacks the allocations since the last collections
		runtime.GC()
	}
	records := make([]runtime.MemProfileRecord, 10_000)
	n, ok := runtime.MemProfile(records, true)
	for ; !ok; n, ok = runtime.MemProfile(records, true) {
		records = make([]runtime.MemProfileRecord, n+1000)
	}
	all := allocationsByStack{}
	for _, r := range records[:n] {
		all[r.Stack0] += r.AllocObjects
	}
	return all
}

// stageAllocations holds the allocations of each stage for a batch, and where they were made.
type stageAllocations struct {
	stages             [len(allocationStages)]float64
	allocationsByPlace [len(allocationStages)]map[string]float64
}

// allocatedSince returns the allocations since before, divided by n batches.
func (s allocationsByStack) allocatedSince(before allocationsByStack, n int) (u stageAllocations) {
	for stack, objects := range s {
		if objects -= before[stack]; objects == 0 {
			continue
		}
		i, where := stageOf(stack)
		u.stages[i] += float64(objects) / float64(n)
		if u.allocationsByPlace[i] == nil {
			u.allocationsByPlace[i] = map[string]float64{}
		}
		u.allocationsByPlace[i][where] += float64(objects) / float64(n)
	}
	return u
}

// stageOf returns the stage whose goroutine has this stack, and the place of the allocation.
func stageOf(stack [32]uintptr) (stage int, where string) {
	n := slices.Index(stack[:], 0)
	if n < 0 {
		n = len(stack)
	}
	stage = len(allocationStages) - 1
	for frames := runtime.CallersFrames(stack[:n]); ; {
		f, more := frames.Next()
		if where == "" && !strings.HasPrefix(f.Function, "runtime.") {
			where = fmt.Sprintf("%s:%d", f.Function, f.Line)
		}
		for i, s := range allocationStages { // the outermost frame decides, since it names the goroutine
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

// largestPlaces lists the places where a stage allocated most.
func (u stageAllocations) largestPlaces(stage int) string {
	type place struct {
		where   string
		objects float64
	}
	var all []place
	for where, objects := range u.allocationsByPlace[stage] {
		all = append(all, place{where, objects})
	}
	slices.SortFunc(all, func(a, b place) int { return cmp.Compare(b.objects, a.objects) })
	var s strings.Builder
	for _, p := range all[:min(12, len(all))] {
		fmt.Fprintf(&s, "\n%8.2f  %s", p.objects, p.where)
	}
	return s.String()
}
