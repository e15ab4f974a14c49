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
	oneIn int

	mu               sync.Mutex
	rng              *rand.Rand
	isCalm           bool
	forcedByName     map[string]bool // names of calls that fail next in any case; true if the call is run before it fails
	callsSinceStrike int             // the number of calls since Strike
	matchingCalls    int             // the number of those calls that kind is about
	strikeAt         int             // which of them fails
	kind             Kind
	failedCall       string // the name of the call that failed
	callCount        int
	failedBefore     map[string]int // the failures before the call was run, by name
	failedAfter      map[string]int
}

// New returns Faults that make one call in every fail, at random by seed. At the beginning they
// are calm.
func New(seed uint64, every int) *Faults {
	return &Faults{
		seed: seed, oneIn: every, isCalm: true, rng: rand.New(rand.NewPCG(seed, 14)),
		forcedByName: map[string]bool{}, failedBefore: map[string]int{}, failedAfter: map[string]int{},
	}
}

// FailNext makes the next call of a name fail even while the faults are calm. The name is a
// method, or the first word of a statement. If after is true, the call is run before it fails.
func (f *Faults) FailNext(name string, after bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forcedByName[name] = after
}

// SetCalm stops the faults if calm is true, and lets them begin again otherwise.
func (f *Faults) SetCalm(calm bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.isCalm = calm
}

// Calls returns how many calls came while the faults were not calm, and how many of these failed
// before and after they were run.
func (f *Faults) Calls() (all, before, after int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.failedBefore {
		before += n
	}
	for _, n := range f.failedAfter {
		after += n
	}
	return f.callCount, before, after
}

// LostAnswers returns how many calls of a name were run without an answer.
func (f *Faults) LostAnswers(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failedAfter[name]
}

// String lists the failures, for the log of a test.
func (f *Faults) String() string {
	all, before, after := f.Calls()
	f.mu.Lock()
	defer f.mu.Unlock()
	return fmt.Sprintf("seed %d: of %d calls %d failed before they were carried out %v, %d after %v", f.seed, all, before, f.failedBefore, after, f.failedAfter)
}

// FailNth makes the nth call from now that kind is about fail, in the way of kind. Struck counts
// from this call on.
func (f *Faults) FailNth(n int, kind Kind) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.callsSinceStrike, f.matchingCalls, f.strikeAt, f.kind, f.failedCall = 0, 0, n, kind, ""
}

// FailedSince returns how many calls came since Strike, and the name of the call that failed; ""
// if none has failed.
func (f *Faults) FailedSince() (seen int, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.callsSinceStrike, f.failedCall
}

// doomsCommit reports whether the COMMIT of the present transaction is the call that fails as
// Doomed.
func (f *Faults) doomsCommit() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.kind != CommitRolledBack || f.matchingCalls+1 != f.strikeAt {
		return false
	}
	f.failedCall = "COMMIT"
	return true
}

// drawKind decides whether a call fails, and how.
func (f *Faults) drawKind(name string) Kind {
	f.mu.Lock()
	defer f.mu.Unlock()
	if after, is := f.forcedByName[name]; is {
		delete(f.forcedByName, name)
		return map[bool]Kind{false: Before, true: After}[after]
	}
	f.callsSinceStrike++
	if !f.kind.onlyCommits() || name == "COMMIT" {
		if f.matchingCalls++; f.matchingCalls == f.strikeAt {
			f.failedCall = name
			return f.kind
		}
	}
	if f.isCalm {
		return None
	}
	f.callCount++
	switch f.rng.IntN(2 * f.oneIn) {
	case 0:
		f.failedBefore[name]++
		return Before
	case 1:
		f.failedAfter[name]++
		return After
	}
	return None
}

// callWithFaults runs do unless a fault prevents it, and may lose the answer.
func callWithFaults[T any](f *Faults, name string, do func() (T, error)) (T, error) {
	v, err := callKeepingResult(f, name, do)
	if errors.Is(err, ErrAfter) {
		var none T
		return none, err
	}
	return v, err
}

// callKeepingResult is callWithFaults for a func whose result also counts after the error of a
// lost answer: it is the work that may have been done.
func callKeepingResult[T any](f *Faults, name string, do func() (T, error)) (T, error) {
	return failCall(f.drawKind(name), name, do)
}

func failCall[T any](k Kind, name string, do func() (T, error)) (T, error) {
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
