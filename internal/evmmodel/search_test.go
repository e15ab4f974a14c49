package evmmodel

import (
	"fmt"
	"slices"
	"strings"
)

// finding is the result of a search.
type finding struct {
	worlds int
	finals int // of them, at their end
	ends   map[standing]int
	wrong  string // "": nothing
	trace  []string
}

// String returns what went wrong, and the shortest way to it.
func (f finding) String() string {
	return fmt.Sprintf("%d worlds: %s, by %d steps:\n  %s", f.worlds, f.wrong, len(f.trace), strings.Join(f.trace, "\n  "))
}

// link says how a world was reached first.
type link struct {
	from int32
	what string
}

// search goes through what can happen to one payment.
func search(r rules, b bounds) finding {
	ends := map[standing]int{}
	f := explore(world{}, broken, (*world).final, func(w world, emit func(world, string)) {
		if w.final() {
			ends[w.row]++
		}
		s := steps{rules: r, bounds: b, w: w, emit: emit}
		s.next()
	})
	f.ends = ends
	return f
}

// explore goes through all worlds that can be reached, the nearest first. It stops at the first
// that breaks a promise. Where none does, it looks for worlds from which no end can be reached any
// more.
func explore[W comparable](first W, broken func(*W) string, final func(*W) bool, next func(W, func(W, string))) finding {
	f := finding{}
	worlds, links := []W{first}, []link{{from: -1}}
	seen := map[W]int32{first: 0}
	var arrows [][2]int32 // from one world to the next
	for at := int32(0); int(at) < len(worlds); at++ {
		w := worlds[at]
		if final(&w) {
			f.finals++
		}
		if f.wrong = broken(&w); f.wrong != "" {
			f.worlds, f.trace = len(worlds), trace(links, at)
			return f
		}
		next(w, func(to W, what string) {
			i, known := seen[to]
			if !known {
				i = int32(len(worlds))
				seen[to] = i
				worlds, links = append(worlds, to), append(links, link{at, what})
			}
			arrows = append(arrows, [2]int32{at, i})
		})
	}
	f.worlds = len(worlds)
	ends := make([]bool, len(worlds))
	for i := range worlds {
		ends[i] = final(&worlds[i])
	}
	if at := stuck(ends, arrows); at >= 0 {
		f.wrong, f.trace = "no end can be reached", trace(links, at)
	}
	return f
}

// broken says which promise a world breaks.
func broken(w *world) string {
	n := w.executions()
	switch {
	case n > 1:
		return "executed twice"
	case w.row == committed && n == 0:
		return "committed, and not executed"
	case w.row == rejected && w.deep[0] != theirs:
		return "rejected, and may yet be executed"
	}
	return ""
}

// stuck returns a world from which no final one can be reached; -1 for none.
func stuck(ends []bool, arrows [][2]int32) int32 {
	first := make([]int32, len(ends)+1) // of the arrows to each world
	for _, a := range arrows {
		first[a[1]+1]++
	}
	for i := range ends {
		first[i+1] += first[i]
	}
	before, at := make([]int32, len(arrows)), slices.Clone(first) // where the arrows come from, by where they go
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

func trace(links []link, at int32) (out []string) {
	for ; links[at].from >= 0; at = links[at].from {
		out = append(out, links[at].what)
	}
	slices.Reverse(out)
	return out
}
