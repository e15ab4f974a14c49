package otelbatch

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// staged is a store and a ledger in which trouble can be staged.
type staged struct {
	*memory.Store
	down     atomic.Bool // the database is gone
	readonly atomic.Bool // it takes no more writes
	mute     atomic.Bool // outcomes are not written, as if the process had died
	fault    atomic.Uint32
}

var errDown = errors.New("connection refused")

func (s *staged) fail(write bool) error {
	if s.down.Load() || write && s.readonly.Load() {
		return errDown
	}
	return nil
}

func (s *staged) Add(ctx context.Context, all ...batch.Batch) error {
	if err := s.fail(true); err != nil {
		return err
	}
	return s.Store.Add(ctx, all...)
}

func (s *staged) Lanes(ctx context.Context, q store.LanesQuery) ([]batch.ServiceID, error) {
	if err := s.fail(false); err != nil {
		return nil, err
	}
	return s.Store.Lanes(ctx, q)
}

func (s *staged) Claim(ctx context.Context, q store.ClaimQuery, choose store.Choose) (store.Claimed, error) {
	if err := s.fail(true); err != nil {
		return store.Claimed{}, err
	}
	return s.Store.Claim(ctx, q, choose)
}

func (s *staged) Pending(ctx context.Context, q store.PendingQuery) ([]store.InFlight, error) {
	if err := s.fail(false); err != nil {
		return nil, err
	}
	return s.Store.Pending(ctx, q)
}

func (s *staged) Record(ctx context.Context, all []store.Outcome) ([]store.Applied, error) {
	if s.mute.Load() {
		return nil, errDown
	}
	if err := s.fail(true); err != nil {
		return nil, err
	}
	return s.Store.Record(ctx, all)
}

// Each trouble of docs/operations.md#alerts that can be staged in memory shows in its metric, soon.
func TestTroublesShow(t *testing.T) {
	add := func(t *testing.T, r *dltbatch.Runner, s *staged, id batch.ID) {
		t.Helper()
		if err := r.Add(t.Context(), one("lane", id)); err != nil {
			require.ErrorIs(t, err, errDown)
		}
	}
	for name, c := range map[string]struct {
		scope  dlt.PressureScope
		policy batch.Policy
		stage  func(s *staged)
		kill   bool // an instance, with what it has posted
		metric string
		above  float64
		within time.Duration
	}{
		"the database is gone": {
			stage:  func(s *staged) { s.down.Store(true) },
			metric: "dltbatch.failing.duration{dltbatch.part=store}", above: 30, within: 32 * time.Second,
		},
		"the disk is full": {
			stage:  func(s *staged) { s.readonly.Store(true) },
			metric: "dltbatch.store.operation.duration{dltbatch.operation=add,error.type=_OTHER}", above: -1, within: 2 * time.Second,
		},
		"the ledger is gone": {
			stage:  func(s *staged) { s.fault.Store(uint32(ledgermem.Unavailable)) },
			metric: "dltbatch.ledger.closed.duration", above: 300, within: 302 * time.Second,
		},
		"the ledger answers 429 for ever": {
			stage:  func(s *staged) { s.fault.Store(uint32(ledgermem.Busy)) },
			metric: "dltbatch.ledger.closed.duration", above: 300, within: 305 * time.Second,
		},
		"the ledger refuses this client": {
			stage:  func(s *staged) { s.fault.Store(uint32(ledgermem.Misconfigured)) },
			metric: "dltbatch.ledger.closed.duration", above: 300, within: 302 * time.Second,
		},
		"a service is busy for ever": {
			scope: dlt.ScopeService, stage: func(s *staged) { s.fault.Store(uint32(ledgermem.Busy)) },
			metric: "dltbatch.services.closed{dltbatch.reason=paused}", above: 0, within: 5 * time.Second,
		},
		"a doubt without evidence": {
			stage:  func(s *staged) { s.fault.Store(uint32(ledgermem.LostRequest)) },
			metric: "dltbatch.decisions", above: 0, within: 5 * time.Minute,
		},
		"a halted lane": {
			policy: batch.PolicyHalt, stage: func(s *staged) { s.fault.Store(uint32(ledgermem.Rejected)) },
			metric: "dltbatch.lanes.halted", above: 0, within: 2 * time.Second,
		},
		"an instance is killed": {
			stage: func(s *staged) { s.mute.Store(true) }, kill: true,
			metric: "dltbatch.takeovers", above: 0, within: 70 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &staged{Store: memory.New()}
				traits := ledgermem.Unforgiving(time.Second)
				traits.PressureScope, traits.Resolves = c.scope, false
				ledger := ledgermem.New(&ledgermem.Options{Traits: &traits, Fault: func(batch.Attempt) ledgermem.Fault {
					return ledgermem.Fault{Kind: ledgermem.FaultKind(s.fault.Load())}
				}})
				b := newBook()
				m, err := NewMetrics(b)
				require.NoError(t, err)
				var ended []chan error
				start := func(st store.Store) (*dltbatch.Runner, context.CancelFunc) {
					r, err := m.NewRunner(st, ledger, &dltbatch.Options{Policy: c.policy, Drain: 15 * time.Second})
					require.NoError(t, err)
					ctx, stop := context.WithCancel(t.Context())
					end := make(chan error, 1)
					ended = append(ended, end)
					go func() { end <- r.Run(ctx) }()
					synctest.Wait()
					return r, stop
				}
				r, stop := start(s)
				add(t, r, s, "before")
				time.Sleep(time.Minute)
				shows := func() bool {
					require.NoError(t, b.collect())
					return b.counts[c.metric] > 0 && b.of("%s", c.metric) > c.above
				}
				require.False(t, shows(), "nothing is wrong")
				since := time.Now()
				c.stage(s)
				add(t, r, s, "after")
				if c.kill {
					time.Sleep(time.Second)
					stop()
					_, stop = start(s.Store)
				}
				for !shows() && time.Since(since) < time.Hour {
					time.Sleep(time.Second)
				}
				t.Logf("%s: %s shows it after %s", name, c.metric, time.Since(since))
				assert.LessOrEqual(t, time.Since(since), c.within)
				s.down.Store(false)
				s.readonly.Store(false)
				stop()
				for _, end := range ended {
					<-end
				}
			})
		})
	}
}
