package storetest_test

import (
	"context"
	"testing"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
	"github.com/dltbatch/dltbatch/store/storetest"
)

// The suite also runs with a store that has only some of the abilities, since an author of a store
// adds one after the other. The example toystore has none.
func TestPartial(t *testing.T) {
	for name, part := range map[string]func(*memory.Store) store.Store{
		"abilities to read": func(s *memory.Store) store.Store {
			return struct {
				storeWithoutAbilities
				declaredAbilities
				readMethods
			}{storeWithoutAbilities{Delivery: storeWithoutPolicies{s}, memory: s}, declaredAbilities(store.CanReadFinals | store.CanList | store.CanCount | store.CanFindWitnesses | store.CanSurvey | store.CanFind), s}
		},
		"abilities to write": func(s *memory.Store) store.Store {
			return struct {
				storeWithoutAbilities
				declaredAbilities
				writeMethods
			}{storeWithoutAbilities{Delivery: storeWithoutPolicies{s}, memory: s}, declaredAbilities(store.CanPrune | store.CanKeepPrepared | store.CanKeepTexts | store.CanOperate | store.CanKeepStreams), s}
		},
		"abilities about lanes": func(s *memory.Store) store.Store {
			return struct {
				storeWithoutAbilities
				declaredAbilities
				controlMethods
			}{storeWithoutAbilities{Delivery: s, memory: s}, declaredAbilities(store.CanControl | store.CanInspect), s}
		},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(*testing.T) storetest.Harness {
				s := memory.New()
				return storetest.Harness{Store: part(s), StepClock: s.StepClock, Volatile: true, Begin: beginTx(s)}
			})
		})
	}
}

// beginTx begins a transaction of a store in memory, for Harness.Begin.
func beginTx(s *memory.Store) func(context.Context) (tx store.Tx, commit, rollback func() error, err error) {
	return func(context.Context) (tx store.Tx, commit, rollback func() error, err error) {
		t := s.Begin()
		return s.Tx(t), t.Commit, t.Rollback, nil
	}
}

// storeWithoutAbilities is a store without any ability.
type storeWithoutAbilities struct {
	store.Unimplemented
	store.Delivery
	memory *memory.Store
}

func (c storeWithoutAbilities) Owns(tx store.Tx) bool { return c.memory.Owns(tx) }

// declaredAbilities are the abilities that a store declares.
type declaredAbilities store.Abilities

func (a declaredAbilities) Abilities() store.Abilities { return store.Abilities(a) }

type readMethods interface {
	Finals(ctx context.Context, keys []batch.Key) (final []batch.Record, missing []batch.Key, err error)
	List(ctx context.Context, q store.ListQuery) ([]batch.Record, store.Cursor, error)
	Counts(ctx context.Context, q store.CountsQuery) ([]store.LaneCounts, error)
	Witnesses(ctx context.Context, ref store.Ref, limit int) ([]batch.ID, error)
	Survey(ctx context.Context, q store.SurveyQuery) (store.Survey, error)
	Find(ctx context.Context, q store.FindQuery) (found []batch.Record, more bool, err error)
	FindLanes(ctx context.Context, q store.FindLanesQuery) ([]batch.ServiceID, error)
}

type writeMethods interface {
	Prune(ctx context.Context, q store.PruneQuery) (store.Pruned, error)
	KeepPrepared(ctx context.Context, kept []store.Prepared) ([]bool, error)
	ReadTexts(ctx context.Context, kind store.TextKind, names ...string) ([]store.Text, time.Time, error)
	ListTexts(ctx context.Context, q store.TextsQuery) ([]store.Text, time.Time, error)
	SwapTexts(ctx context.Context, texts ...store.Text) (bool, error)
	Cancel(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error)
	Requeue(ctx context.Context, seen batch.Record, q store.Requeue, by batch.By) (batch.Record, error)
	Decide(ctx context.Context, seen batch.Record, ruling batch.Ruling, by batch.By) (batch.Record, error)
	Withdraw(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error)
	Acquit(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error)
	LeaseStream(ctx context.Context, stream, holder string, ttl time.Duration) (epoch int64, held bool, err error)
	AppendStream(ctx context.Context, e batch.StreamEntry) (held bool, err error)
	FindStream(ctx context.Context, stream string, ids []string) (batch.StreamFound, error)
}

type controlMethods interface {
	Steer(ctx context.Context, s store.Steering) (now batch.Control, changed bool, err error)
	Control(ctx context.Context, scope batch.Scope) (batch.Control, error)
	ControlsOf(ctx context.Context, q store.ControlsQuery) ([]batch.Control, error)
	History(ctx context.Context, key batch.Key) ([]batch.Act, error)
	LaneHistory(ctx context.Context, scope batch.Scope) ([]batch.Act, error)
	Attempts(ctx context.Context, key batch.Key) ([]batch.Report, error)
	Look(ctx context.Context, key batch.Key, window int) (store.Look, error)
}

// storeWithoutPolicies is a store that carries out no policy, as a store without
// [store.CanControl] must not.
type storeWithoutPolicies struct{ *memory.Store }

func (s storeWithoutPolicies) Record(ctx context.Context, outcomes []store.Outcome) ([]store.Applied, error) {
	plain := make([]store.Outcome, len(outcomes))
	for i, o := range outcomes {
		o.Policy, o.Halt = batch.PolicyContinue, ""
		plain[i] = o
	}
	return s.Store.Record(ctx, plain)
}
