// Package tier lets a test say which servers it needs and how often it runs. Only tests import it.
//
//   - make quick runs what needs no server and takes little time, without the race detector.
//   - make test runs all packages so, with servers, and the packages in which much happens at once
//     with the race detector once more.
//   - make soak runs what takes too long for that.
//
// A call skips the test in the runs to which it does not belong, with a line that begins with
// [Mark]. internal/tools/testrun reads these lines: make test fails if such a test passed in none
// of its runs, unless [Soak] says why.
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

// Plain says that the test gains nothing from the race detector: little happens at once in it, or
// other tests of the package let the same happen.
func Plain(t testing.TB) {
	t.Helper()
	if Raced {
		t.Skip(Mark + "plain")
	}
}

// Server says that the test needs a program from outside of this module: PostgreSQL, an EVM node,
// a browser. What starts one calls Server itself.
func Server(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip(Mark + "server")
	}
}

// Hints says that the test shows what hints between processes bring, so that it cannot pass where
// all of them are lost ([deaf.On]).
func Hints(t testing.TB) {
	t.Helper()
	if deaf.On {
		t.Skip(Mark + "hints")
	}
}

// Long says that the test takes too long for make quick: more than some seconds of one processor.
func Long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip(Mark + "long")
	}
}

// Soak says that only make soak runs the test, and why.
func Soak(t testing.TB, why string) {
	t.Helper()
	if !isSoak() {
		t.Skip(Mark + "soak: " + why)
	}
}

// Instead says that the test of that full name, of the same package, shows the same.
func Instead(t testing.TB, name string) {
	t.Helper()
	t.Skip(Mark + "instead: " + name)
}

// Seeds returns how many seeds a simulation runs if no flag says so. With the race detector each
// takes ten times as long.
func Seeds(raced, plain int) int {
	if Raced {
		return raced
	}
	return plain
}
