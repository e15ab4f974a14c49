// Testrun runs go test (in the folder after -C) with its arguments, and prints a line for each
// package with its seconds. It fails when a test fails, when one is skipped, and when none ran: a
// test that is left out silently protects nobody. The parts of store/storetest that a store lacks,
// and whose test declares that it may lack them (Harness.Partial), are only counted.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
)

type event struct {
	Action  string
	Package string
	Test    string
	Output  string
	Elapsed float64
}

func main() {
	args, dir := os.Args[1:], ""
	if len(args) > 1 && args[0] == "-C" {
		dir, args = args[1], args[2:]
	}
	// Without debug information a test is linked in half of the time; go vet runs before.
	cmd := exec.Command("go", append([]string{"test", "-json", "-vet=off", "-ldflags=-w"}, args...)...)
	cmd.Dir = dir
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		fatal(err)
	}
	if err := cmd.Start(); err != nil {
		fatal(err)
	}
	n := report(bufio.NewReaderSize(out, 1<<20))
	runErr := cmd.Wait()
	fmt.Printf("%d passed, %d failed, %d skipped", n.passed, n.failed, n.skipped)
	if n.absent > 0 {
		fmt.Printf(", %d declared absent", n.absent)
	}
	fmt.Println()
	switch {
	case runErr != nil || n.failed > 0:
		os.Exit(1)
	case n.skipped > 0:
		fatal(fmt.Errorf("%d tests were skipped; under this command none may be", n.skipped))
	case n.passed == 0:
		fatal(fmt.Errorf("no test ran"))
	}
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "testrun:", err)
	os.Exit(1)
}

// counts are of top-level tests and subtests.
type counts struct{ passed, failed, skipped, absent int }

// report prints the important events and counts.
func report(r *bufio.Reader) (n counts) {
	outputs := map[string][]string{} // by package and test, kept until the test ends well
	var took []event                 // whole tests
	defer func() { printSlowest(took) }()
	dec := json.NewDecoder(r)
	for {
		var e event
		if err := dec.Decode(&e); err != nil {
			return n
		}
		key := e.Package + "\x00" + e.Test
		switch e.Action {
		case "output", "build-output":
			outputs[key] = append(outputs[key], e.Output)
		case "pass":
			if e.Test == "" {
				fmt.Printf("ok    %6.1f s  %s\n", e.Elapsed, e.Package)
			} else {
				n.passed++
				if !strings.Contains(e.Test, "/") {
					took = append(took, e)
				}
			}
			delete(outputs, key)
		case "skip":
			switch text := strings.Join(outputs[key], ""); {
			case e.Test == "":
			case strings.Contains(text, ": absent: "):
				n.absent++
			default:
				n.skipped++
				fmt.Printf("SKIP  %s %s\n%s", e.Package, e.Test, text)
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

// printUnended prints the output of the tests of pkg that have neither passed nor failed: a
// panic ends the process, and no event says which test it ended.
func printUnended(pkg string, outputs map[string][]string) {
	for key, out := range outputs {
		p, test, _ := strings.Cut(key, "\x00")
		if p != pkg || test == "" {
			continue
		}
		// The end of a panic's output is goroutines, and its reason is at the beginning.
		fmt.Printf("      did not end: %s\n%s", test, strings.Join(out[:min(len(out), 400)], ""))
	}
}

// printSlowest prints the slowest tests: they take most of make test's time.
func printSlowest(took []event) {
	slices.SortFunc(took, func(a, b event) int { return cmp.Compare(b.Elapsed, a.Elapsed) })
	for _, e := range took[:min(len(took), 12)] {
		if e.Elapsed >= 10 {
			fmt.Printf("      %6.1f s  %s %s\n", e.Elapsed, path.Base(e.Package), e.Test)
		}
	}
}
