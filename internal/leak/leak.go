// Package leak fails a test binary that leaves goroutines behind. Only tests import it.
package leak

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Patience is the time that goroutines have to end after the last test.
const Patience = 5 * time.Second

// Check runs the tests of m, then calls stop to end shared resources, and returns the exit
// code: the tests' code, or 1 where they passed and goroutines that they started are still
// there. It writes the stacks of these goroutines to standard error.
//
//	func TestMain(m *testing.M) { os.Exit(leak.Check(m)) }
func Check(m *testing.M, stop ...func()) int {
	before := goroutines()
	code := runAndCheck(m, stop)
	if code != 0 {
		return code // a failed test may leave goroutines behind
	}
	return report(os.Stderr, before, Patience)
}

// CheckBubbles is Check, on one processor, for tests that run most of their time in bubbles of
// testing/synctest, built with -race. In Go 1.26 all timers of a bubble share one context of
// the race detector. Two threads that receive from timers of one bubble at once use that
// context at once (runtime/time.go, unlockAndRun), and the process dies within the race
// detector: "CHECK failed: tsan_rtl.cpp", or a segmentation fault. The simulations saw that
// once in ten runs, or in five minutes. The race detector finds races on one processor, too.
func CheckBubbles(m *testing.M, stop ...func()) int {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	return Check(m, stop...)
}

func runAndCheck(m *testing.M, stop []func()) int {
	for _, f := range stop {
		defer f()
	}
	return m.Run()
}

// report waits until no new goroutine is left, for patience at most. It writes the stacks of the
// goroutines that are left then.
func report(w io.Writer, before map[string]string, patience time.Duration) int {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; <-tick.C {
		leaked := leaks(before, goroutines())
		if len(leaked) == 0 {
			return 0
		}
		if time.Now().After(deadline) {
			_, _ = fmt.Fprintf(w, "leak: %d goroutines are left:\n\n%s\n", len(leaked), strings.Join(leaked, "\n\n"))
			return 1
		}
	}
}

// leaks returns the stacks that are new, without those of the runtime and of package testing.
func leaks(before, after map[string]string) (out []string) {
	for id, stack := range after {
		if _, old := before[id]; !old && !isExpected(stack) {
			out = append(out, stack)
		}
	}
	return out
}

func isExpected(stack string) bool {
	for _, f := range [...]string{
		"leak.goroutines(",   // the goroutine that calls leaks
		"testing.(*M).",      // alarms
		"os/signal.",         // started once by fuzzing
		"runtime.ReadTrace(", // started for the flag -trace
	} {
		if strings.Contains(stack, f) {
			return true
		}
	}
	return false
}

// goroutines returns the stack of each goroutine by its id.
func goroutines() map[string]string {
	buf := make([]byte, 1<<20)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	out := make(map[string]string)
	for stack := range bytes.SplitSeq(buf, []byte("\n\n")) {
		// A stack begins with a line such as "goroutine 18 [running]:".
		fields := bytes.Fields(stack)
		if len(fields) > 1 && string(fields[0]) == "goroutine" {
			out[string(fields[1])] = string(stack)
		}
	}
	return out
}
