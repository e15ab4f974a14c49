// Package tier lets a test declare which servers it needs and how often it runs. Only tests import
// it.
//
//   - make quick runs tests that need no server and take little time, without the race detector.
//   - make test runs all packages in this way, with servers, and repeats the packages in which
//     much happens concurrently with the race detector.
//   - make soak runs tests that take too long for make test.
//
// A call skips the test in the runs to which it does not belong, with a line that begins with
// [Mark]. internal/tools/testrun reads these lines: make test fails if such a test passed in none
// of its runs, unless [Soak] gives the reason.
package tier

import (
	"os"
	"testing"

	"github.com/dltbatch/dltbatch/internal/deaf"
)

// Mark begins the line of a test that does not belong to this run.
const Mark = "tier: "

// SoakVariable is the environment variable that make soak sets to "1".
const SoakVariable = "DLTBATCH_SOAK"

// isSoak reports whether this is a run of make soak.
func isSoak() bool { return os.Getenv(SoakVariable) == "1" }

// Plain declares that the race detector finds nothing more in the test: little happens
// concurrently in it, or other tests of the package cover the same.
func Plain(t testing.TB) {
	t.Helper()
	if Raced {
		t.Skip(Mark + "plain")
	}
}

// Server declares that the test needs a program from outside of this module: PostgreSQL, an EVM
// node, a browser. Helpers that start such a program call Server themselves.
func Server(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip(Mark + "server")
	}
}

// Hints declares that the test needs hints between processes, so that it cannot pass if all of
// them are lost ([deaf.On]).
func Hints(t testing.TB) {
	t.Helper()
	if deaf.On {
		t.Skip(Mark + "hints")
	}
}

// Long declares that the test takes too long for make quick: more than some seconds of one
// processor.
func Long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip(Mark + "long")
	}
}

// Soak declares that only make soak runs the test, and why.
func Soak(t testing.TB, why string) {
	t.Helper()
	if !isSoak() {
		t.Skip(Mark + "soak: " + why)
	}
}

// Instead declares that the test of that full name, in the same package, shows the same.
func Instead(t testing.TB, name string) {
	t.Helper()
	t.Skip(Mark + "instead: " + name)
}

// Seeds returns how many seeds a simulation runs unless a flag says otherwise. With the race
// detector each takes ten times as long.
func Seeds(raced, plain int) int {
	if Raced {
		return raced
	}
	return plain
}
