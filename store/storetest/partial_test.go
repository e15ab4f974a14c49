package storetest_test

import (
	"context"
	"testing"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
	"github.com/dltbatch/dltbatch/store/storetest"
)

// The suite runs with a store that has any of the optional interfaces, since whoever writes a
// store adds one after the other. The example toystore has none.
func TestPartial(t *testing.T) {
	for name, part := range map[string]func(*memory.Store) store.Store{
		"what is read": func(s *memory.Store) store.Store {
			c := uncontrolled{s}
			return struct {
				store.Store
				store.FinalReader
				store.Lister
				store.Counter
				store.WitnessReader
				store.Surveyor
			}{c, c, c, c, c, c}
		},
		"what is written": func(s *memory.Store) store.Store {
			c := uncontrolled{s}
			return struct {
				store.Store
				store.Pruner
				store.PreparedKeeper
				store.Ledgers
				store.Operator
				store.Journal
			}{c, c, c, c, c, c}
		},
		"about lanes": func(s *memory.Store) store.Store {
			return struct {
				store.Store
				store.Controls
				store.Inspector
			}{s, s, s}
		},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(*testing.T) storetest.Harness {
				s := memory.New()
				return storetest.Harness{Store: part(s), Partial: true, StepClock: s.StepClock, Volatile: true, NoTx: true, AddLate: s.AddLate}
			})
		})
	}
}

// uncontrolled carries out no policy, as a store must that is no [store.Controls].
type uncontrolled struct{ *memory.Store }

func (s uncontrolled) Record(ctx context.Context, outcomes []store.Outcome) ([]store.Applied, error) {
	plain := make([]store.Outcome, len(outcomes))
	for i, o := range outcomes {
		o.Policy, o.Halt = batch.PolicyContinue, ""
		plain[i] = o
	}
	return s.Store.Record(ctx, plain)
}
