package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

type test struct{ pkg, name string }

// results are the results of all runs.
type results struct {
	mu      sync.Mutex
	passed  map[test]bool
	skipped map[test]string // with the last output of the test
	cpu     time.Duration
	errs    []error
}

func (r *results) pass(t test) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.passed == nil {
		r.passed, r.skipped = map[test]bool{}, map[test]string{}
	}
	r.passed[t] = true
}

func (r *results) skip(t test, output string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.skipped == nil {
		r.passed, r.skipped = map[test]bool{}, map[test]string{}
	}
	r.skipped[t] = output
}

func (r *results) end(cpu time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cpu += cpu
	if err != nil {
		r.errs = append(r.errs, err)
	}
}

// check returns the failures, and every test that was skipped and passed in no run. A test may be
// skipped if it says that make soak runs it, or, if quick is true, that make test does.
func (r *results) check(quick bool) error {
	counts, soaks := map[string]int{}, map[test]string{}
	for _, t := range slices.SortedFunc(maps.Keys(r.skipped), func(a, b test) int {
		return cmp.Or(cmp.Compare(a.pkg, b.pkg), cmp.Compare(a.name, b.name))
	}) {
		output := r.skipped[t]
		if strings.Contains(output, ": absent: ") {
			counts["declared absent"]++
			continue
		}
		_, mark, _ := strings.Cut(output, ": tier: ") // internal/tier.Mark, after the line number
		mark, _, _ = strings.Cut(mark, "\n")
		kind, rest, _ := strings.Cut(mark, ": ")
		ran := t
		if kind == "instead" {
			ran.name = rest
		}
		switch {
		case kind == "soak":
			whole, _, _ := strings.Cut(t.name, "/")
			soaks[test{t.pkg, whole}] = rest
			counts["left to make soak"]++
		case quick && (kind == "server" || kind == "long"):
			counts["left to make test"]++
		case kind != "" && r.passed[ran]:
			counts["run elsewhere"]++
		default:
			r.errs = append(r.errs, fmt.Errorf("%s %s was skipped, and %q passed in no run:\n%s", t.pkg, t.name, ran.name, output))
		}
	}
	for t, why := range soaks {
		fmt.Printf("left to make soak: %s %s: %s\n", t.pkg, t.name, why)
	}
	fmt.Printf("%d passed", len(r.passed))
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		fmt.Printf(", %d %s", counts[what], what)
	}
	fmt.Println()
	return errors.Join(r.errs...)
}
