package operator_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
)

// For random stores, Causes says of each batch what Explain says.
func TestCausesAreAsExplained(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inStores(t, func(o *testDesk) {
				r := rand.New(rand.NewPCG(seed, 19))
				o.fillAtRandom(r)
				want, got := o.countReasons(), map[operator.Reason]int{}
				for _, g := range o.causes().Groups {
					g.Ledger, g.Why, g.Missing = "", "", "" // Why names only one of the services
					got[g.Reason] += g.Batches
					if g.Cause != operator.CauseUnknown {
						assert.NotEmpty(o, g.Example.ID, "%+v", g.Reason)
					}
				}
				assert.Equal(o, want, got)
			})
		})
	}
}

// fillAtRandom makes lanes with a few batches and a strategy, and applies random events to them.
func (o *testDesk) fillAtRandom(r *rand.Rand) {
	o.Helper()
	strategies := []queuer.Strategy{queuer.Parallel(0), queuer.Pipelined(3), queuer.Serial(), queuer.Serial(), queuer.Serial()}
	ledger := dlt.Traits{Name: "ledger", KeepsOrder: true, MaxInFlightPerService: r.IntN(3)}
	if r.IntN(2) == 0 {
		ledger.ResendHarmlessFor = dlt.Forever
	}
	strategy := strategies[r.IntN(5)]
	var lanes []batch.ServiceID
	for i := range 1 + r.IntN(40) {
		lanes = append(lanes, batch.ServiceID(fmt.Sprintf("lane %d", i)))
	}
	serves := lanes
	for i := range r.IntN(2) * 20 { // makes the record hold for every service
		serves = append(serves, batch.ServiceID(fmt.Sprintf("other %d", i)))
	}
	o.recordServing(ledger, strategy, serves...)
	if r.IntN(4) == 0 {
		o.addLane("of nobody", 2)
	}
	for _, lane := range lanes {
		if r.IntN(4) == 0 {
			_, err := o.SetPolicy(o.ctx(), batch.Control{Scope: batch.Only(lane)}, batch.PolicyHalt, ada)
			require.NoError(o, err)
		}
		var footprints []batch.Footprint
		for range 6 {
			footprints = append(footprints, batch.Footprint{Writes: []string{fmt.Sprintf("%02x", r.IntN(4))}})
		}
		bs := o.addLane(lane, 1+r.IntN(6), footprints...)
		for range r.IntN(5) {
			for _, c := range o.claim(strategies[r.IntN(5)], lane) { // an earlier strategy may have been a different one
				if r.IntN(6) == 0 {
					continue // the claim is live
				}
				f := []store.Finding{store.Accepted, store.Doubtful, store.Unposted, store.Failed, store.Refused}[r.IntN(5)]
				o.recordEndsDelayed(f, time.Duration(r.IntN(2))*time.Hour, c)
			}
			b := bs[r.IntN(len(bs))]
			look, err := o.st.Look(o.ctx(), b.Key(), 1)
			require.NoError(o, err)
			switch rec := o.readRecord(b); {
			case rec.State == batch.Submitting && !look.Row.Live(look.At) && r.IntN(3) > 0:
				o.recordAnswer([]store.Finding{store.Undecidable, store.IsPending, store.NoTrace, store.NotCommitted}[r.IntN(4)], b.Key())
			case rec.Final() && rec.State == batch.Rejected && r.IntN(2) == 0:
				_, err = o.Requeue(o.ctx(), rec, ada)
				require.NoError(o, err)
			}
		}
		if r.IntN(6) == 0 {
			_, err := o.Pause(o.ctx(), batch.Only(lane), ada)
			require.NoError(o, err)
		}
	}
	if r.IntN(8) == 0 {
		_, err := o.Pause(o.ctx(), batch.Everything(), ada)
		require.NoError(o, err)
	}
}

// countReasons explains each open batch, and the batch that blocks it, and counts the reasons.
func (o *testDesk) countReasons() map[operator.Reason]int {
	o.Helper()
	all := map[operator.Reason]int{}
	recs, _, err := o.List(o.ctx(), store.ListQuery{Open: true, Limit: 1000})
	require.NoError(o, err)
	for _, rec := range recs {
		all[o.reason(rec)]++
	}
	return all
}

func (o *testDesk) reason(rec batch.Record) operator.Reason {
	o.Helper()
	e, err := o.Explain(o.ctx(), rec.Key)
	if errors.Is(err, operator.ErrNotRecorded) {
		return operator.Reason{Cause: operator.CauseUnknown}
	}
	require.NoError(o, err)
	kind := func(e *batch.SubmissionError) batch.ErrorKind {
		if e == nil {
			return ""
		}
		return e.Kind
	}
	called := func(e batch.Explanation) bool { return e.Decision != "" && e.Cause != batch.CauseDecision }
	r := operator.Reason{Cause: e.Cause, Remedy: e.Remedy, State: e.State, Kind: kind(e.LastError), Called: called(e)}
	if e.Remedy == batch.RemedyRelease {
		r.State, r.Kind, r.Called = 0, "", false
		if by, err := o.Get(o.ctx(), e.Blocker); err == nil && by.Final() {
			r.State, r.Kind = by.State, kind(by.Error)
		}
	}
	for e.Remedy == batch.RemedyBlocker {
		e, err = o.Explain(o.ctx(), e.Blocker)
		require.NoError(o, err)
		r.Root, r.State, r.Kind, r.Called = e.Cause, e.State, kind(e.LastError), called(e)
	}
	return r
}
