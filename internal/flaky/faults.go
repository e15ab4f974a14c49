// Package flaky makes calls of a store fail at random: one call in a given number. Half of the
// failures come before the call is run, and half after it, so that only the answer is lost.
// [Store] and [Orders] make a store's calls fail, and [Faults.Open] the statements of a SQL
// driver, COMMIT included. [Every] instead makes each statement of each operation fail in turn,
// without chance. The package is for tests.
package flaky

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
)

// ErrBefore and ErrAfter are the errors of failed calls. To a caller both look like a lost
// connection, and say nothing about whether the call was run.
var (
	ErrBefore = errors.New("flaky: the connection was lost")
	ErrAfter  = errors.New("flaky: the connection was lost, with the answer")
)

// Faults decides which calls fail. Its methods may be called concurrently.
type Faults struct {
	seed  uint64
	every int

	mu               sync.Mutex
	rng              *rand.Rand
	calm             bool
	forced           map[string]bool // names of calls that fail next in any case; true if the call is run before it fails
	callsSinceStrike int             // the number of calls since Strike
	matching         int             // the number of those calls that kind is about
	strikeAt         int             // which of them fails
	kind             Kind
	struck           string // the name of the call that failed
	calls            int
	before           map[string]int // the failures before the call was run, by name
	after            map[string]int
}

// New returns Faults that make one call in every fail, at random by seed. At the beginning they
// are calm.
func New(seed uint64, every int) *Faults {
	return &Faults{
		seed: seed, every: every, calm: true, rng: rand.New(rand.NewPCG(seed, 14)),
		forced: map[string]bool{}, before: map[string]int{}, after: map[string]int{},
	}
}

// Next makes the next call of a name fail even while the faults are calm. The name is a method, or
// the first word of a statement. If after is true, the call is run before it fails.
func (f *Faults) Next(name string, after bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forced[name] = after
}

// Calm stops the faults if calm is true, and lets them begin again otherwise.
func (f *Faults) Calm(calm bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calm = calm
}

// Calls returns how many calls came while the faults were not calm, and how many of these failed
// before and after they were run.
func (f *Faults) Calls() (all, before, after int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.before {
		before += n
	}
	for _, n := range f.after {
		after += n
	}
	return f.calls, before, after
}

// Lost returns how many calls of a name were run without an answer.
func (f *Faults) Lost(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.after[name]
}

// String lists the failures, for the log of a test.
func (f *Faults) String() string {
	all, before, after := f.Calls()
	f.mu.Lock()
	defer f.mu.Unlock()
	return fmt.Sprintf("seed %d: of %d calls %d failed before they were carried out %v, %d after %v", f.seed, all, before, f.before, after, f.after)
}

// Strike makes the nth call from now that kind is about fail, in the way of kind. Struck counts
// from this call on.
func (f *Faults) Strike(n int, kind Kind) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.callsSinceStrike, f.matching, f.strikeAt, f.kind, f.struck = 0, 0, n, kind, ""
}

// Struck returns how many calls came since Strike, and the name of the call that failed; "" if
// none has failed.
func (f *Faults) Struck() (seen int, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.callsSinceStrike, f.struck
}

// doomsCommit reports whether the COMMIT of the present transaction is the call that fails as
// Doomed.
func (f *Faults) doomsCommit() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.kind != Doomed || f.matching+1 != f.strikeAt {
		return false
	}
	f.struck = "COMMIT"
	return true
}

// draw decides whether a call fails, and how.
func (f *Faults) draw(name string) Kind {
	f.mu.Lock()
	defer f.mu.Unlock()
	if after, is := f.forced[name]; is {
		delete(f.forced, name)
		return map[bool]Kind{false: Before, true: After}[after]
	}
	f.callsSinceStrike++
	if !f.kind.onlyCommits() || name == "COMMIT" {
		if f.matching++; f.matching == f.strikeAt {
			f.struck = name
			return f.kind
		}
	}
	if f.calm {
		return None
	}
	f.calls++
	switch f.rng.IntN(2 * f.every) {
	case 0:
		f.before[name]++
		return Before
	case 1:
		f.after[name]++
		return After
	}
	return None
}

// callWithFaults runs do unless a fault prevents it, and may lose the answer.
func callWithFaults[T any](f *Faults, name string, do func() (T, error)) (T, error) {
	v, err := half(f, name, do)
	if errors.Is(err, ErrAfter) {
		var none T
		return none, err
	}
	return v, err
}

// half is callWithFaults for a func whose result also counts after the error of a lost answer: it
// is the work that may have been done.
func half[T any](f *Faults, name string, do func() (T, error)) (T, error) {
	return strike(f.draw(name), name, do)
}

func strike[T any](k Kind, name string, do func() (T, error)) (T, error) {
	if k == Before {
		var none T
		return none, fmt.Errorf("%s: %w", name, ErrBefore)
	}
	v, err := do()
	if err == nil && k == After {
		err = fmt.Errorf("%s: %w", name, ErrAfter)
	}
	return v, err
}

// callForError is callWithFaults for a func that returns only an error.
func callForError(f *Faults, name string, do func() error) error {
	_, err := callWithFaults(f, name, func() (struct{}, error) { return struct{}{}, do() })
	return err
}
