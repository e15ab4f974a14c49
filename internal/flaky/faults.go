// Package flaky makes calls of a store fail at random: one call in so many, half of the
// failures before the call is carried out, half after, when only the answer is lost. [Store]
// and [Orders] fail a store's calls, [Faults.Open] the statements of a SQL driver, COMMIT
// included. It is for tests.
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

	mu     sync.Mutex
	rng    *rand.Rand
	calm   bool
	next   map[string]bool // calls that fail next in any case: true where they are carried out
	calls  int
	before map[string]int // failures by name
	after  map[string]int
}

// New returns faults that strike one call in every, at random by seed. They begin calm.
func New(seed uint64, every int) *Faults {
	return &Faults{
		seed: seed, every: every, calm: true, rng: rand.New(rand.NewPCG(seed, 14)),
		next: map[string]bool{}, before: map[string]int{}, after: map[string]int{},
	}
}

// Next makes the next call of a name fail, a statement's first word say, even while it is
// calm: after the call was carried out, or before.
func (f *Faults) Next(name string, after bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next[name] = after
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

// draw decides about one call. At most one of the results is true.
func (f *Faults) draw(name string) (before, after bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if after, is := f.next[name]; is {
		delete(f.next, name)
		return !after, after
	}
	if f.calm {
		return false, false
	}
	f.calls++
	switch f.rng.IntN(2 * f.every) {
	case 0:
		f.before[name]++
		return true, false
	case 1:
		f.after[name]++
		return false, true
	}
	return false, false
}

// call carries out do, or not, and loses its answer, or not.
func call[T any](f *Faults, name string, do func() (T, error)) (T, error) {
	v, err := half(f, name, do)
	if errors.Is(err, ErrAfter) {
		var none T
		return none, err
	}
	return v, err
}

// half is call for a function that returns a result beside the error of a lost answer: the
// work that it may have done.
func half[T any](f *Faults, name string, do func() (T, error)) (T, error) {
	before, after := f.draw(name)
	if before {
		var none T
		return none, fmt.Errorf("%s: %w", name, ErrBefore)
	}
	v, err := do()
	if err == nil && after {
		err = fmt.Errorf("%s: %w", name, ErrAfter)
	}
	return v, err
}

// done is call for a function that returns only an error.
func done(f *Faults, name string, do func() error) error {
	_, err := call(f, name, func() (struct{}, error) { return struct{}{}, do() })
	return err
}
