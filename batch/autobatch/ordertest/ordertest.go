// Package ordertest is the conformance suite of [order.Store]: the promises of a store to
// auto-batching, one file a promise. All drivers of this module run it beside
// store/storetest, and so should any other:
//
//	func TestOrders(t *testing.T) {
//		ordertest.Run(t, func(t *testing.T) ordertest.Harness {
//			s := mystore.New(...) // empty, of this test alone
//			return ordertest.Harness{Store: s, Reopen: ..., StepClock: ..., AddOrdersTx: ...}
//		})
//	}
package ordertest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store"
)

// Store has the methods that the suite needs: orders become batches, and batches become final,
// are listed, requeued and removed.
type Store interface {
	store.Store
	order.Store
}

// Harness is a new and empty store, and the means of a test beside it. A func that is
// nil has its absence declared by the bool that follows it.
type Harness struct {
	Store Store

	// Reopen closes the store (as a crash would, if it can) and opens it again.
	Reopen func(t *testing.T) Store
	// Volatile declares that nothing survives.
	Volatile bool

	// StepClock moves the clock that the store decides by, forwards or back. Otherwise
	// that clock runs as this process's does.
	StepClock func(d time.Duration)
	// NoClock declares that the clock cannot be moved: tests then wait in real time,
	// and tests that step it back are left out.
	NoClock bool

	// AddOrdersTx adds in a transaction that the caller commits or rolls back.
	AddOrdersTx func(ctx context.Context, orders ...order.Order) (commit, rollback func() error, err error)
	// NoTx declares that there are no such transactions.
	NoTx bool
	// OneWriter declares that an open AddOrdersTx holds up all other writers.
	OneWriter bool
}

// Run runs the suite. open is called once a test.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	t.Helper()
	s := suite{open: open}
	t.Run("harness", func(t *testing.T) { s.declared = s.harness(t) })
	for _, group := range []struct {
		name  string
		tests []test
	}{
		{"add", addTests()},
		{"transaction", txTests()},
		{"next", nextTests()},
		{"parties", partiesTests()},
		{"prepare", prepareTests()},
		{"settle", settleTests()},
		{"requeue", requeueTests()},
		{"verdicts", verdictTests()},
		{"expire", expireTests()},
		{"list", listTests()},
		{"prune", pruneTests()},
		{"race", raceTests()},
		{"model", modelTests()},
		{"reopen", reopenTests()},
		{"context", contextTests()},
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, test := range group.tests {
				if test.exempt != nil && test.exempt(s.declared) {
					t.Logf("%q does not apply, as the harness declares", test.name)
					continue
				}
				t.Run(test.name, func(t *testing.T) { test.run(s.start(t, group.name+": "+test.name)) })
			}
		})
	}
}

// test is the test of one promise.
type test struct {
	name string
	run  func(f *fixture)
	// exempt reports whether a store with this harness does not make the promise.
	exempt func(Harness) bool
}

type suite struct {
	open     func(t *testing.T) Harness
	declared Harness
}

// harness checks that the harness declares each thing that it lacks, and returns it.
func (s suite) harness(t *testing.T) Harness {
	h := s.open(t)
	require.NotNil(t, h.Store, "Harness.Store")
	require.Equal(t, h.Reopen == nil, h.Volatile, "either set Harness.Reopen or declare Volatile")
	require.Equal(t, h.StepClock == nil, h.NoClock, "either set Harness.StepClock or declare NoClock")
	require.Equal(t, h.AddOrdersTx == nil, h.NoTx, "either set Harness.AddOrdersTx or declare NoTx")
	require.False(t, h.OneWriter && h.NoTx, "OneWriter is about transactions, and NoTx says that there are none")
	return h
}

func (s suite) start(t *testing.T, promise string) *fixture {
	h := s.open(t)
	f := &fixture{T: t, promise: promise, harness: h, store: h.Store, ctx: t.Context(), unit: time.Hour}
	if h.StepClock == nil {
		f.unit = time.Second // long enough for a busy machine
	}
	return f
}
