package dltbatch_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/internal/relied"
	"github.com/dltbatch/dltbatch/internal/texts"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

var somebody = batch.By{Actor: "ada", Reason: "to see"}

// randomLane is a lane whose owners act one random step at a time, so that the lane reaches every
// reachable state.
type randomLane struct {
	t          *testing.T
	rng        *rand.Rand
	store      *memory.Store
	runner     *dltbatch.Runner
	desk       *operator.Desk
	claimQuery store.ClaimQuery
	choose     store.Choose
	keys       []batch.Key
	claims     map[batch.Key]store.Claim
}

const randomLaneID = batch.ServiceID("lane")

func newRandomLane(t *testing.T, seed uint64) *randomLane {
	r := rand.New(rand.NewPCG(seed, 1))
	traits := ledgermem.Unforgiving(time.Second)
	traits.ResendHarmlessFor = []time.Duration{0, 2 * time.Minute, dlt.Forever}[r.IntN(3)]
	traits.MaxInFlightPerService = []int{0, 1, 2}[r.IntN(3)]
	strategy := []queuer.Strategy{queuer.Serial(), queuer.Parallel(0), queuer.Pipelined(2)}[r.IntN(3)]
	m := &randomLane{t: t, rng: r, store: memory.New(), claims: map[batch.Key]store.Claim{}}
	m.runner = newRunner(t, m.store, ledgermem.New(&ledgermem.Options{Traits: &traits}), &dltbatch.Options{Strategy: strategy, Instance: "one"})
	var err error
	m.desk, err = operator.New(m.store)
	require.NoError(t, err)
	kept, err := relied.Record{Settings: relied.SettingsOf(randomLaneID, traits, time.Minute, strategy)}.Text()
	require.NoError(t, err)
	_, err = texts.Serve(t.Context(), m.store, []texts.Served{{Service: randomLaneID, Ledger: traits.Name}})
	require.NoError(t, err)
	_, err = texts.Put(t.Context(), m.store, store.Text{Kind: store.TextTraits, Name: traits.Name, Body: kept})
	require.NoError(t, err)
	m.claimQuery = store.ClaimQuery{
		Lanes: []batch.ServiceID{randomLaneID}, Limit: 10, Window: strategy.Window, TTL: time.Minute, Instance: "one",
		Resend: func(batch.ServiceID) store.Resend {
			return store.Resend{HarmlessFor: traits.ResendHarmlessFor, LateArrival: traits.LateArrival}
		},
		MaxInFlight: func(batch.ServiceID) int { return traits.MaxInFlightPerService },
	}
	m.choose = queuer.Choose(strategy, func(batch.ServiceID) bool { return true }, func(_ batch.ServiceID, err error) { require.NoError(t, err) })
	for i, f := range []batch.Footprint{
		{Writes: []string{"aa"}}, {Reads: []string{"aa01"}, Writes: []string{"bb"}}, {Writes: []string{"cc"}}, {}, {Writes: []string{"aa01"}},
	} {
		b := newBatch(randomLaneID, batch.ID(fmt.Sprintf("batch%d", i)))
		b.Footprint = f
		b.Budget = batch.Budget{Attempts: r.IntN(2) * 3, EveryTry: r.IntN(2) == 0}
		require.NoError(t, m.store.Add(t.Context(), b))
		m.keys = append(m.keys, b.Key())
	}
	return m
}

func (m *randomLane) get(key batch.Key) batch.Record {
	rec, err := m.store.Get(m.t.Context(), key)
	require.NoError(m.t, err)
	return rec
}

func (m *randomLane) claim() {
	claimed, err := m.store.Claim(m.t.Context(), m.claimQuery, m.choose)
	require.NoError(m.t, err)
	for _, run := range claimed.Runs {
		for _, c := range run.Batches {
			m.claims[c.Key] = c
		}
	}
}

func (m *randomLane) record(o store.Outcome) {
	_, err := m.store.Record(m.t.Context(), []store.Outcome{o})
	require.NoError(m.t, err)
}

// recordPost records the result of the last claim of a batch.
func (m *randomLane) recordPost(key batch.Key, f store.Finding) {
	c := m.claims[key]
	o := store.Outcome{Ref: c.Ref, Version: c.Version, By: batch.BySubmitter, Finding: f, Attempt: c.Attempt, Back: c.From, Check: time.Second, Delay: 5 * time.Second}
	if f != store.Accepted && f != store.Unposted {
		o.Error = &batch.SubmissionError{Kind: batch.KindUnavailable, Message: "no route"}
	}
	m.record(o)
}

// recordFinding records the monitor's finding about a batch, if the monitor owns it.
func (m *randomLane) recordFinding(key batch.Key, f store.Finding) {
	rows, err := m.store.Pending(m.t.Context(), store.PendingQuery{Limit: 100, Lease: time.Second, Services: []batch.ServiceID{randomLaneID}})
	require.NoError(m.t, err)
	for _, row := range rows {
		if row.Key == key {
			o := store.Outcome{Ref: row.Ref, Version: row.Version, By: batch.ByMonitor, Finding: f, Check: time.Second, Settle: 30 * time.Second}
			if f == store.Undecidable || f == store.IsInvalid || f == store.Failed || f == store.Refused {
				o.Error = &batch.SubmissionError{Kind: batch.KindDoubt, Message: "nothing is known"}
			}
			m.record(o)
		}
	}
}

func (m *randomLane) steer(s store.Steering) {
	c, err := m.store.Control(m.t.Context(), s.Scope)
	require.NoError(m.t, err)
	s.By, s.Seen = somebody, c.Version
	_, _, err = m.store.Steer(m.t.Context(), s)
	require.NoError(m.t, err)
}

// doRandomAct does one random act.
func (m *randomLane) doRandomAct() {
	key := m.keys[m.rng.IntN(len(m.keys))]
	ctx := m.t.Context()
	scope := []batch.Scope{batch.Only(randomLaneID), batch.Everything()}[m.rng.IntN(2)]
	switch m.rng.IntN(16) {
	case 0, 1, 2, 3:
		m.claim()
	case 4, 5, 6:
		m.recordPost(key, store.Accepted+store.Finding(m.rng.IntN(int(store.Refused-store.Accepted)+1)))
	case 7, 8, 9:
		m.recordFinding(key, store.IsPending+store.Finding(m.rng.IntN(int(store.Undecidable-store.IsPending)+1)))
	case 10:
		time.Sleep([]time.Duration{time.Second, 10 * time.Second, 2 * time.Minute}[m.rng.IntN(3)])
	case 11:
		m.steer(store.Steering{Scope: scope, Action: batch.ActionPause})
	case 12:
		m.steer(store.Steering{Scope: scope, Action: batch.ActionResume})
	case 13:
		m.steer(store.Steering{Scope: batch.Only(randomLaneID), Action: batch.ActionSetPolicy, Policy: batch.Policy(m.rng.IntN(4))})
	case 14:
		_, _ = m.runner.Cancel(ctx, m.get(key), somebody) // fails where it is not allowed
	default:
		_, _ = m.runner.Requeue(ctx, m.get(key), somebody)
	}
}

// followExplanations obeys Explain until the batch has moved. The lane has few batches, so few
// steps are enough.
func (m *randomLane) followExplanations(key batch.Key, causes map[batch.Cause]int) {
	before := m.get(key)
	var path []batch.Explanation
	for range 200 {
		if m.get(key).Version != before.Version {
			return
		}
		e := m.explain(key)
		path = append(path, e)
		causes[e.Cause]++
		m.checkExplanation(e)
		m.doRemedy(e, causes)
	}
	for _, e := range path[:min(len(path), 8)] {
		m.t.Logf("%+v", e)
	}
	m.t.Fatalf("%s did not move", key)
}

// explain asks the Runner, and a process that has no ledger. Both give the same answer while the
// Runner's instance runs.
func (m *randomLane) explain(key batch.Key) batch.Explanation {
	require.NoError(m.t, new(texts.Presence).Show(m.t.Context(), m.store, store.Instance{ID: "1", Name: "one"}))
	e, err := m.runner.Explain(m.t.Context(), key)
	require.NoError(m.t, err)
	same, err := m.desk.Explain(m.t.Context(), key)
	require.NoError(m.t, err)
	require.Equal(m.t, e, same)
	return e
}

// checkCauses checks that the groups of all open batches agree with the explanation of each batch.
func (m *randomLane) checkCauses() {
	want := map[operator.Reason]int{}
	for _, key := range m.keys {
		if m.get(key).Final() {
			continue
		}
		e := m.explain(key)
		called := func(e batch.Explanation) bool { return e.Decision != "" && e.Cause != batch.CauseDecision }
		r := operator.Reason{Cause: e.Cause, Remedy: e.Remedy, State: e.State, Called: called(e)}
		if e.LastError != nil {
			r.Kind = e.LastError.Kind
		}
		for e.Remedy == batch.RemedyBlocker || e.Remedy == batch.RemedyRelease {
			at := m.get(e.Blocker)
			released := e.Remedy == batch.RemedyRelease
			e = m.explain(e.Blocker)
			r.Called = !released && called(e)
			if r.State, r.Kind = at.State, ""; at.Error != nil {
				r.Kind = at.Error.Kind
			}
			if released {
				if !at.Final() {
					r.State, r.Kind = 0, "" // the batch was requeued since
				}
				break
			}
			r.Root = e.Cause
		}
		want[r]++
	}
	got, err := m.desk.Causes(m.t.Context(), operator.CausesQuery{})
	require.NoError(m.t, err)
	require.False(m.t, got.Incomplete)
	have := map[operator.Reason]int{}
	for _, g := range got.Groups {
		g.Ledger = ""
		have[g.Reason] += g.Batches
		require.False(m.t, g.Sampled || g.AtLeast)
		require.Equal(m.t, 1, g.Lanes)
		require.Equal(m.t, m.explain(g.Example.Key), g.Example)
		require.Equal(m.t, g.Reason.Cause, g.Example.Cause)
		if g.Blocker.ID != "" {
			require.Equal(m.t, m.explain(g.Blocker.Key), g.Blocker)
		}
	}
	require.Equal(m.t, want, have)
}

func (m *randomLane) checkExplanation(e batch.Explanation) {
	require.NotEmpty(m.t, e.Cause)
	require.NotEmpty(m.t, e.Remedy)
	require.NotEmpty(m.t, e.Text)
	require.NotZero(m.t, e.Owner, "%+v", e)
	if e.Remedy == batch.RemedyBlocker {
		require.NotEqual(m.t, e.Key, e.Blocker)
		require.False(m.t, m.get(e.Blocker).Final(), "%+v: what blocks is open", e)
	}
	if e.Cause == batch.CauseClaimed {
		require.Equal(m.t, "one", e.ClaimedBy)
		require.Positive(m.t, e.ClaimLeft)
	}
}

// doRemedy does the remedy of an explanation, in the role that it names.
func (m *randomLane) doRemedy(e batch.Explanation, causes map[batch.Cause]int) {
	ctx := m.t.Context()
	switch e.Remedy {
	case batch.RemedyResume:
		_, err := m.runner.Resume(ctx, e.Control, somebody)
		require.NoError(m.t, err, "%+v", e)
	case batch.RemedyRelease:
		_, err := m.runner.Release(ctx, e.Control, somebody)
		require.NoError(m.t, err, "%+v", e)
	case batch.RemedyDecide:
		_, err := m.runner.Decide(ctx, e.Seen(), []batch.Ruling{batch.WasCommitted, batch.NotExecutedSendAgain, batch.NotExecutedReject}[m.rng.IntN(3)], somebody)
		require.NoError(m.t, err, "%+v", e)
	case batch.RemedyBlocker:
		m.followExplanations(e.Blocker, causes)
	case batch.RemedyWait:
		time.Sleep(e.Next)
		m.doOwnersWork(e)
	default:
		m.t.Fatalf("an open batch whose remedy is %s: %+v", e.Remedy, e)
	}
}

// doOwnersWork does the next work of the batch's owner.
func (m *randomLane) doOwnersWork(e batch.Explanation) {
	switch e.Cause {
	case batch.CauseReady:
		m.claim()
		require.NotEqual(m.t, e.State, m.get(e.Key).State, "what is ready is taken by the next claim: %+v", e)
	case batch.CauseDelayed:
	case batch.CauseClaimed:
		m.recordPost(e.Key, store.Accepted)
	case batch.CauseInDoubt:
		if e.State.Claimable() {
			m.claim()
			require.Equal(m.t, batch.Submitting, m.get(e.Key).State, "%+v", e)
			return
		}
		m.recordFinding(e.Key, store.NotCommitted)
	case batch.CauseLedger:
		m.recordFinding(e.Key, store.IsCommitted)
	case batch.CauseSettling:
		m.recordFinding(e.Key, store.Settled)
	default:
		m.t.Fatalf("wait for what? %+v", e)
	}
}

// Every reachable open batch has a cause, and obeying Explain moves the batch.
func TestExplainMovesWhateverStands(t *testing.T) {
	tier.Plain(t)
	causes := map[batch.Cause]int{}
	for seed := range uint64(400) {
		synctest.Test(t, func(t *testing.T) {
			m := newRandomLane(t, seed)
			for i := range 40 {
				m.doRandomAct()
				if i%10 == int(seed)%10 { // in this step the test explains all batches
					m.checkCauses()
				}
				key := m.keys[m.rng.IntN(len(m.keys))]
				if m.rng.IntN(8) == 0 && !m.get(key).Final() {
					m.followExplanations(key, causes)
					continue
				}
				e := m.explain(key)
				if !m.get(key).Final() {
					m.checkExplanation(e)
				}
			}
			if t.Failed() {
				t.Logf("seed %d", seed)
			}
		})
	}
	for _, c := range []batch.Cause{
		batch.CauseReady, batch.CausePaused, batch.CauseHalted, batch.CauseDelayed, batch.CauseBehind, batch.CauseInFlight,
		batch.CauseClaimed, batch.CauseInDoubt, batch.CauseDecision, batch.CauseLedger, batch.CauseSettling,
	} {
		require.Positive(t, causes[c], "nothing ever stood for the cause %q: %v", c, causes)
	}
}
