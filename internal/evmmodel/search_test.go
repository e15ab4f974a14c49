package evmmodel

import (
	"fmt"
	"slices"
	"strings"
)

// searchResult is the result of a search.
type searchResult struct {
	worldCount    int
	finalCount    int // how many of the worlds are final
	finalsByState map[rowState]int
	brokenPromise string // "" means none
	steps         []string
}

// String returns the broken promise, and the shortest way to it.
func (f searchResult) String() string {
	return fmt.Sprintf("%d worlds: %s, by %d steps:\n  %s", f.worldCount, f.brokenPromise, len(f.steps), strings.Join(f.steps, "\n  "))
}

// worldOrigin is the step by which a world was first reached.
type worldOrigin struct {
	fromWorld int32
	stepName  string
}

// searchPayment searches all that can happen to one payment.
func searchPayment(r brokenRules, b bounds) searchResult {
	ends := map[rowState]int{}
	f := explore(world{}, brokenPromise, (*world).isFinal, func(w world, emit func(world, string)) {
		if w.isFinal() {
			ends[w.rowState]++
		}
		s := stepMaker{brokenRules: r, bounds: b, world: w, emit: emit}
		s.addAllSteps()
	})
	f.finalsByState = ends
	return f
}

// explore visits all worlds that can be reached, those with the fewest steps first. It stops at
// the first world that breaks a promise. If none does, it looks for worlds from which no final one
// can be reached.
func explore[W comparable](first W, broken func(*W) string, final func(*W) bool, next func(W, func(W, string))) searchResult {
	f := searchResult{}
	worlds, links := []W{first}, []worldOrigin{{fromWorld: -1}}
	seen := map[W]int32{first: 0}
	var arrows [][2]int32 // steps, each from one world to the next
	for at := int32(0); int(at) < len(worlds); at++ {
		w := worlds[at]
		if final(&w) {
			f.finalCount++
		}
		if f.brokenPromise = broken(&w); f.brokenPromise != "" {
			f.worldCount, f.steps = len(worlds), stepsTo(links, at)
			return f
		}
		next(w, func(to W, what string) {
			i, known := seen[to]
			if !known {
				i = int32(len(worlds))
				seen[to] = i
				worlds, links = append(worlds, to), append(links, worldOrigin{at, what})
			}
			arrows = append(arrows, [2]int32{at, i})
		})
	}
	f.worldCount = len(worlds)
	ends := make([]bool, len(worlds))
	for i := range worlds {
		ends[i] = final(&worlds[i])
	}
	if at := findStuckWorld(ends, arrows); at >= 0 {
		f.brokenPromise, f.steps = "no end can be reached", stepsTo(links, at)
	}
	return f
}

// brokenPromise returns the promise that a world breaks; "" if it breaks none.
func brokenPromise(w *world) string {
	n := w.executions()
	switch {
	case n > 1:
		return "executed twice"
	case w.rowState == committed && n == 0:
		return "committed, and not executed"
	case w.rowState == rejected && w.deepOwners[0] != ownedByOthers:
		return "rejected, and may yet be executed"
	}
	return ""
}

// findStuckWorld returns a world from which no final one can be reached; -1 if there is none.
func findStuckWorld(ends []bool, arrows [][2]int32) int32 {
	first := make([]int32, len(ends)+1) // for each world, the index of its first arrow in before
	for _, a := range arrows {
		first[a[1]+1]++
	}
	for i := range ends {
		first[i+1] += first[i]
	}
	before, at := make([]int32, len(arrows)), slices.Clone(first) // the worlds at which the arrows begin, sorted by the worlds at which they end
	for _, a := range arrows {
		before[at[a[1]]] = a[0]
		at[a[1]]++
	}
	can := make([]bool, len(ends))
	var open []int32
	for i := range ends {
		if ends[i] {
			can[i] = true
			open = append(open, int32(i))
		}
	}
	for len(open) > 0 {
		to := open[len(open)-1]
		open = open[:len(open)-1]
		for _, from := range before[first[to]:first[to+1]] {
			if !can[from] {
				can[from] = true
				open = append(open, from)
			}
		}
	}
	return int32(slices.Index(can, false))
}

func stepsTo(links []worldOrigin, at int32) (out []string) {
	for ; links[at].fromWorld >= 0; at = links[at].fromWorld {
		out = append(out, links[at].stepName)
	}
	slices.Reverse(out)
	return out
}
