package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

type testEvent struct {
	Action  string
	Package string
	Test    string
	Output  string
	Elapsed float64
}

// testCounts are numbers of top-level tests and subtests.
type testCounts struct{ passed, failed int }

// report prints the important events, counts them, and notes in total how each test ended. It
// returns an error for a line that is not an event, because the events after it are lost.
func report(r io.Reader, total *results) (n testCounts, err error) {
	outputs := map[test][]string{} // kept until the test has passed
	var took []testEvent           // whole tests
	defer func() { printSlowest(took) }()
	dec := json.NewDecoder(r)
	for {
		var e testEvent
		if err := dec.Decode(&e); errors.Is(err, io.EOF) {
			return n, nil
		} else if err != nil {
			return n, fmt.Errorf("the events of go test: %w", err)
		}
		key := test{e.Package, e.Test}
		switch e.Action {
		case "output", "build-output":
			outputs[key] = append(outputs[key], e.Output)
		case "pass":
			if e.Test == "" {
				fmt.Printf("ok    %6.1f s  %s\n", e.Elapsed, e.Package)
			} else {
				n.passed++
				total.pass(key)
				if !strings.Contains(e.Test, "/") {
					took = append(took, e)
				}
			}
			delete(outputs, key)
		case "skip":
			if e.Test != "" {
				total.skip(key, strings.Join(outputs[key], ""))
			}
			delete(outputs, key)
		case "fail", "build-fail":
			if e.Test == "" {
				fmt.Printf("FAIL  %6.1f s  %s\n", e.Elapsed, e.Package)
				printUnended(e.Package, outputs)
			} else {
				n.failed++
			}
			fmt.Print(strings.Join(outputs[key], ""))
			delete(outputs, key)
		}
	}
}

// printUnended prints the output of the tests of pkg that have neither passed nor failed: a panic
// ends the process, and no event says which test it ended.
func printUnended(pkg string, outputs map[test][]string) {
	for key, out := range outputs {
		if key.pkg != pkg || key.name == "" {
			continue
		}
		// The reason of a panic is at the beginning of the output, and the end lists goroutines.
		fmt.Printf("      did not end: %s\n%s", key.name, strings.Join(out[:min(len(out), 400)], ""))
	}
}

// printSlowest prints the slowest tests, which take most of the time of make test.
func printSlowest(took []testEvent) {
	slices.SortFunc(took, func(a, b testEvent) int { return cmp.Compare(b.Elapsed, a.Elapsed) })
	for _, e := range took[:min(len(took), 12)] {
		if e.Elapsed >= 10 {
			fmt.Printf("      %6.1f s  %s %s\n", e.Elapsed, path.Base(e.Package), e.Test)
		}
	}
}
