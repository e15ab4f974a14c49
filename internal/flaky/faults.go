// Package flaky makes calls of a store fail at random: one call in a given number, half of the
// failures before the call is carried out, half after, when only the answer is lost. [Store]
// and [Orders] fail a store's calls, [Faults.Open] the statements of a SQL driver, COMMIT
// included. [Every] instead makes each statement of each operation fail in turn, and leaves
// nothing to chance. It is for tests.
package flaky

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
)

// The errors of failed calls. Both look to a caller like a lost connection: neither says
// whether the call was carried out.
var (
	ErrBefore = errors.New("flaky: the connection was lost")
	ErrAfter  = errors.New("flaky: the connection was lost, with the answer")
)

// Faults draws the calls that fail. Its methods may be called concurrently.
type Faults struct {
	seed  uint64
	every int

	mu               sync.Mutex
	rng              *rand.Rand
	calm             bool
	forced           map[string]bool // calls that fail next in any case: true where they are carried out
	callsSinceStrike int             // calls since Strike
	matching         int             // the statements that the kind is about
	strikeAt         int             // which of them fails, and how
	kind             Kind
	struck           string // its name
	calls            int
	before           map[string]int // failures by name
	after            map[string]int
}

// New returns faults that strike one call in every, at random by seed. They begin calm.
func New(seed uint64, every int) *Faults {
	return &Faults{
		seed: seed, every: every, calm: true, rng: rand.New(rand.NewPCG(seed, 14)),
		forced: map[string]bool{}, before: map[string]int{}, after: map[string]int{},
	}
}

// Next makes the next call of a name fail, a statement's first word say, even while it is
// calm: after the call was carried out, or before.
func (f *Faults) Next(name string, after bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forced[name] = after
}

// Calm ends the faults, or lets them begin again.
func (f *Faults) Calm(calm bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calm = calm
}

// Calls returns how many calls came while it was not calm, and how many of them failed before
// they were carried out, and after.
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

// Lost returns how many calls of that name were carried out without an answer.
func (f *Faults) Lost(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.after[name]
}

// String lists the failures, for a test's log.
func (f *Faults) String() string {
	all, before, after := f.Calls()
	f.mu.Lock()
	defer f.mu.Unlock()
	return fmt.Sprintf("seed %d: of %d calls %d failed before they were carried out %v, %d after %v", f.seed, all, before, f.before, after, f.after)
}

// Strike makes one call fail: the nth from now that kind is about, in the way of kind. It begins
// to count anew.
func (f *Faults) Strike(n int, kind Kind) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.callsSinceStrike, f.matching, f.strikeAt, f.kind, f.struck = 0, 0, n, kind, ""
}

// Struck returns how many calls came since Strike, and the name of the call that failed; "" for
// none.
func (f *Faults) Struck() (seen int, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.callsSinceStrike, f.struck
}

// doomsCommit reports whether the transaction under way is the one whose COMMIT comes too late.
func (f *Faults) doomsCommit() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.kind != Doomed || f.matching+1 != f.strikeAt {
		return false
	}
	f.struck = "COMMIT"
	return true
}

// draw decides about one call.
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

// callWithFaults carries out do, or not, and loses its answer, or not.
func callWithFaults[T any](f *Faults, name string, do func() (T, error)) (T, error) {
	v, err := half(f, name, do)
	if errors.Is(err, ErrAfter) {
		var none T
		return none, err
	}
	return v, err
}

// half is callWithFaults for a function that returns a result beside the error of a lost answer:
// the work that it may have done.
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

// callForError is callWithFaults for a function that returns only an error.
func callForError(f *Faults, name string, do func() error) error {
	_, err := callWithFaults(f, name, func() (struct{}, error) { return struct{}{}, do() })
	return err
}
