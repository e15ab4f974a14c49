// Package storetest is the conformance suite of package store: the promises of every store,
// one file a promise. All drivers of this module run it, the memory store first, and so should
// any other driver:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) storetest.Harness {
//			s := mystore.New(...) // empty, of this test alone
//			return storetest.Harness{Store: s, Reopen: ..., StepClock: ..., Begin: ...}
//		})
//	}
//
// The suite drives the store and, beside it, a model made of the pure rules ([store.Row],
// [store.PlanLane]), and compares the two after every call. The [Harness] declares how the store
// differs from others; the suite skips nothing silently. It calls every method of the store, and
// fails where the store's Abilities name a method that is not there, or leave out one that is. It
// logs the abilities that the store lacks, and does not run what needs them.
package storetest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Harness is a new and empty store, with the functions that the tests need. If a func is nil, the
// bool after it must declare that.
type Harness struct {
	Store store.Store

	// Reopen closes the store that it opened last, or Store the first time, if possible as a crash
	// would. Then it opens the data that the closed store has left. After that StepClock moves the
	// clock of the new store.
	Reopen func(t *testing.T) store.Store
	// Volatile declares that no data outlasts the store.
	Volatile bool

	// StepClock moves the clock by which the store decides, forwards or back. Otherwise that
	// clock runs like this process's clock.
	StepClock func(d time.Duration)
	// NoClock declares that the clock cannot be moved: tests then wait in real time, as many
	// of them at once as the flag -parallel allows, and tests that step it back are skipped.
	// Open is called concurrently.
	NoClock bool
	// Bubble runs each test in a bubble of testing/synctest, in which waiting takes no time:
	// for a store that waits for nothing outside of the process. Open is called in there.
	Bubble bool

	// Begin begins a transaction of the application. tx is that transaction, as the store's Tx
	// method returns it.
	Begin func(ctx context.Context) (tx store.Tx, commit, rollback func() error, err error)
	// NoTx declares that there are no such transactions.
	NoTx bool
	// OneWriter declares that a transaction in which something was added holds up all other
	// writers, so that nothing becomes visible late. The suite checks this.
	OneWriter bool
}

// canShowLate reports whether a batch can become visible after a batch that was added later.
func (h Harness) canShowLate() bool { return !h.NoTx && !h.OneWriter }

// Run runs the suite. It calls open once for each test.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	t.Helper()
	s := &suite{newHarness: open}
	if !t.Run("harness", func(t *testing.T) { s.openHarness(t) }) {
		return
	}
	if s.declaredHarness.Store == nil { // -run has left out the test that sets it
		s.noteDeclarations(t)
	}
	for _, group := range []struct {
		name  string
		tests []test
		needs store.Abilities
	}{
		{"add", addTests(), 0},
		{"idempotency", idempotencyTests(), 0},
		{"claim", claimTests(), 0},
		{"transaction", txTests(), 0},
		{"late", lateTests(), 0},
		{"prepared", preparedTests(), store.CanKeepPrepared},
		{"record", recordTests(), 0},
		{"row", rowTests(), 0},
		{"race", raceTests(), 0},
		{"model", modelTests(), 0},
		{"pending", pendingTests(), 0},
		{"witnesses", witnessTests(), store.CanFindWitnesses},
		{"final", finalTests(), 0},
		{"finals", finalsTests(), store.CanReadFinals},
		{"operate", operateTests(), store.CanOperate},
		{"fence", fenceTests(), store.CanOperate | store.CanControl},
		{"place", placeTests(), store.CanOperate},
		{"control", controlTests(), store.CanControl},
		{"policy", policyTests(), store.CanControl},
		{"quarantine", quarantineTests(), store.CanControl | store.CanOperate},
		{"history", historyTests(), store.CanInspect | store.CanOperate | store.CanControl},
		{"attempts", attemptsTests(), store.CanInspect},
		{"look", lookTests(), store.CanInspect},
		{"prune", pruneTests(), store.CanPrune},
		{"tombstones", tombstoneTests(), store.CanPrune},
		{"list", listTests(), store.CanList},
		{"lanes", lanesTests(), 0},
		{"counts", countsTests(), store.CanCount},
		{"stats", statsTests(), store.CanCountOpen},
		{"survey", surveyTests(), store.CanSurvey},
		{"find", findTests(), store.CanFind},
		{"acts", actsTests(), store.CanListActs | store.CanOperate | store.CanControl | store.CanInspect},
		{"texts", textsTests(), store.CanKeepTexts},
		{"journal", journalTests(), store.CanKeepStreams},
		{"hints", hintTests(), store.CanHint},
		{"clock", clockTests(), 0},
		{"reopen", reopenTests(), 0},
		{"text", textTests(), 0},
		{"context", contextTests(), 0},
	} {
		t.Run(group.name, func(t *testing.T) {
			if s.declaredHarness.NoClock {
				t.Parallel()
			}
			if lacks := group.needs &^ s.abilities; lacks != 0 {
				t.Skipf("absent: %s", lacks)
			}
			for _, test := range group.tests {
				if lacks := test.needs &^ s.abilities; lacks != 0 {
					t.Logf("%q is not run, absent: %s", test.name, lacks)
					continue
				}
				if test.isInapplicable != nil && test.isInapplicable(s.declaredHarness) {
					t.Logf("%q does not apply, as the harness declares", test.name)
					continue
				}
				t.Run(test.name, func(t *testing.T) {
					if s.declaredHarness.NoClock {
						t.Parallel()
					}
					promise := group.name + ": " + test.name
					if s.declaredHarness.Bubble {
						synctest.Test(t, func(t *testing.T) { test.run(s.start(t, promise)) })
						return
					}
					test.run(s.start(t, promise))
				})
			}
		})
	}
}

// test is a test of one promise, which is in name as a sentence.
type test struct {
	name string
	run  func(f *fixture)
	// isInapplicable reports whether, by the harness's declarations, the promise does not apply to
	// the store.
	isInapplicable func(Harness) bool
	// needs are the abilities that the test needs, in addition to those of its group.
	needs store.Abilities
}

type suite struct {
	newHarness      func(t *testing.T) Harness
	declaredHarness Harness
	abilities       store.Abilities
}

// noteDeclarations keeps what the harness declares.
func (s *suite) noteDeclarations(t *testing.T) {
	h := s.newHarness(t)
	require.NotNil(t, h.Store, "Harness.Store")
	s.declaredHarness, s.abilities = h, h.Store.Abilities()
}

// openHarness keeps the declarations, and checks that every difference from other stores is
// declared.
func (s *suite) openHarness(t *testing.T) {
	s.noteDeclarations(t)
	h := s.declaredHarness
	require.Empty(t, undeclaredDifferences(h.Store), "what the store declares, and what it has")
	for _, l := range s.abilities.Losses() {
		t.Logf("absent: %s (without it: %s)", l.Ability, l.Text)
	}
	require.Equal(t, h.Reopen == nil, h.Volatile, "either set Harness.Reopen or declare Volatile")
	require.Equal(t, h.StepClock == nil, h.NoClock, "either set Harness.StepClock or declare NoClock")
	require.Equal(t, h.Begin == nil, h.NoTx, "either set Harness.Begin or declare NoTx")
	require.False(t, h.OneWriter && h.NoTx, "OneWriter is about transactions, and NoTx says that there are none")
}

func (s *suite) start(t *testing.T, promise string) *fixture {
	h := s.newHarness(t)
	f := &fixture{
		T: t, openAnother: s.newHarness, promise: promise, harness: h, store: h.Store, abilities: s.abilities, ctx: t.Context(), timeUnit: time.Hour,
		batches: map[batch.ID]*modelBatch{}, tombstones: map[batch.ID]*modelTombstone{},
		controls: map[batch.Scope]batch.Control{}, laneActs: map[batch.Scope][]batch.Act{},
		versions: map[batch.Scope][]seenVersion{},
	}
	if h.StepClock == nil {
		f.timeUnit = time.Second // long enough for a busy machine to be on time
	}
	return f
}
