package storetest

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// raceTests change the same batches in several processes at once. There is no model: the tests
// check the result, in whichever order the calls ran.
func raceTests() []test {
	return []test{
		{name: "of outcomes with one version, one is written", run: testRaceRecord},
		{name: "a cancel or a claim, not both", run: testRaceCancel, needs: store.CanOperate},
		{name: "an operation is done once", run: testRaceOperate, needs: store.CanOperate},
		{name: "a lane is paused by one", run: testRaceSteer, needs: store.CanControl | store.CanInspect},
		{name: "everything at once", run: testRaceAll},
	}
}

// testTimeLimit is how long a test waits for a result that a broken store never gives.
const testTimeLimit = time.Minute

// runAtOnce runs all funcs at the same time and returns their errors.
func runAtOnce(fs ...func() error) []error {
	var wg sync.WaitGroup
	errs := make([]error, len(fs))
	for i, f := range fs {
		wg.Go(func() { errs[i] = f() })
	}
	wg.Wait()
	return errs
}

func testRaceRecord(f *fixture) {
	for round := range 20 {
		id := batch.ID(fmt.Sprint("id", round))
		f.add(newBatch("s", id))
		f.claimExactly(id)
		findings := []store.Finding{store.Accepted, store.Doubtful, store.Failed, store.Refused, store.Unposted, store.Accepted}
		var mu sync.Mutex
		var written []store.Applied
		var fs []func() error
		for _, finding := range findings {
			o := f.submitterOutcome(id, finding)
			fs = append(fs, func() error {
				got, err := f.store.Record(f.ctx, []store.Outcome{o})
				mu.Lock()
				defer mu.Unlock()
				if err == nil && got[0].Result == store.Written {
					written = append(written, got[0])
				} else if err == nil && got[0].Result != store.Fenced {
					err = fmt.Errorf("result %d", got[0].Result)
				}
				return err
			})
		}
		for _, err := range runAtOnce(fs...) {
			require.NoError(f, err)
		}
		require.Len(f, written, 1)
		f.batches[id].row = written[0].Row
		r := f.get(id)
		require.Equal(f, int64(3), r.Version)
		if !r.Final() {
			f.recordAll(f.monitorOutcome(id, store.IsCommitted))
		}
	}
}

func testRaceCancel(f *fixture) {
	for round := range 20 {
		id := batch.ID(fmt.Sprint("id", round))
		f.add(newBatch("s", id))
		seen := f.readRecord(id)
		var got store.Claimed
		errs := runAtOnce(
			func() (err error) {
				q := store.ClaimQuery{Lanes: []batch.ServiceID{"s"}, Limit: 1, Window: 1, TTL: f.units(1.5)}
				got, err = f.store.Claim(f.ctx, q, chooseEveryReady)
				return err
			},
			func() error { _, err := f.store.Cancel(f.ctx, seen, byWithReason("")); return err },
		)
		require.NoError(f, errs[0])
		r, err := f.store.Get(f.ctx, newBatch("s", id).Key())
		require.NoError(f, err)
		if errs[1] == nil {
			require.Empty(f, got.Runs)
			require.Equal(f, batch.Rejected, r.State)
			continue
		}
		f.requireMovedOn(errs[1], r)
		require.Equal(f, []batch.ID{id}, claimedIDs(got))
		require.Equal(f, batch.Submitting, r.State)
		_, err = f.store.Record(f.ctx, []store.Outcome{{
			Ref: store.Ref{Key: newBatch("s", id).Key()}, Version: 2, By: batch.BySubmitter, Finding: store.Refused,
		}})
		require.NoError(f, err)
	}
}

func testRaceOperate(f *fixture) {
	f.add(newBatch("s", "a"))
	f.claimExactly("a")
	f.recordEach(f.submitterOutcome, store.Refused, "a")
	key := newBatch("s", "a").Key()
	var seen batch.Record
	for round := range 10 {
		requeue := func() error { _, err := f.store.Requeue(f.ctx, seen, store.Requeue{}, byWithReason("")); return err }
		cancel := func() error { _, err := f.store.Cancel(f.ctx, seen, byWithReason("")); return err }
		for i, do := range []func() error{requeue, cancel} {
			var err error
			seen, err = f.store.Get(f.ctx, key)
			require.NoError(f, err)
			done := 0
			for _, err := range runAtOnce(do, do, do, do) {
				if err == nil {
					done++
					continue
				}
				require.ErrorIs(f, err, batch.ErrMovedOn)
			}
			require.Equal(f, 1, done)
			r, err := f.store.Get(f.ctx, key)
			require.NoError(f, err)
			require.Equal(f, int64(3+2*round+i+1), r.Version)
		}
	}
}

// testRaceSteer: if several callers pause a lane at once, one succeeds, and the control and the
// history both name that caller. What another caller sets meanwhile is not lost.
func testRaceSteer(f *fixture) {
	for round := range 10 {
		scope := batch.Only(batch.ServiceID(fmt.Sprint("lane", round)))
		if round%2 == 0 { // with and without an existing control
			f.setPolicy(scope.Service, batch.PolicyQuarantine)
		}
		var mu sync.Mutex
		var changed []string // the callers that changed the control
		pause := func(actor string) func() error {
			return func() error {
				_, is, err := f.store.Steer(f.ctx, store.Steering{Scope: scope, Action: batch.ActionPause, By: batch.By{Actor: actor}})
				if is {
					mu.Lock()
					changed = append(changed, actor)
					mu.Unlock()
				}
				return err
			}
		}
		for _, err := range runAtOnce(pause("a"), pause("b"), pause("c"), pause("d")) {
			require.NoError(f, err)
		}
		require.Len(f, changed, 1)
		assert.Equal(f, changed[0], must(f.store.Control(f.ctx, scope))(f).PausedBy.Actor)
		acts := must(f.store.LaneHistory(f.ctx, scope))(f)
		require.NotEmpty(f, acts)
		assert.Equal(f, changed[0], acts[len(acts)-1].Actor)
		assert.Len(f, acts, 2-round%2)
	}
}

// testRaceAll lets several instances deliver all batches, and counts claims and commits.
func testRaceAll(f *fixture) {
	services := []batch.ServiceID{"", "s", "t"}
	const adders, each, instances = 3, 10, 4
	var mu sync.Mutex
	claims := map[batch.ID]int{}
	commits := map[batch.ID]int{}
	began := time.Now()
	var fs []func() error
	for a := range adders {
		fs = append(fs, func() error {
			for i := range each {
				for _, s := range services {
					if err := f.store.Add(f.ctx, newBatch(s, batch.ID(fmt.Sprint(a, "/", i, "/", s)))); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	for range instances {
		fs = append(fs, func() error {
			for time.Since(began) < testTimeLimit {
				runtime.Gosched() // lets the other goroutines add batches
				done, err := f.runInstance(&mu, claims, commits, adders*each*len(services))
				if done || err != nil {
					return err
				}
			}
			return errors.New("it does not come to an end")
		})
	}
	for _, err := range runAtOnce(fs...) {
		require.NoError(f, err)
	}
	require.Len(f, claims, adders*each*len(services))
	if f.hasAbilities(store.CanList) {
		require.Len(f, f.storedIDs(), adders*each*len(services))
	}
	for id := range claims {
		r := must(f.store.Get(f.ctx, batch.Key{Service: batch.ServiceID(id[strings.LastIndex(string(id), "/")+1:]), ID: id}))(f)
		assert.Equal(f, batch.Committed, r.State)
		assert.Equal(f, 1, r.Attempt, "attempts of %s", r.Key)
		assert.Equal(f, int64(4), r.Version)
		assert.Equal(f, 1, claims[r.ID])
		assert.Equal(f, 1, commits[r.ID])
	}
}

// runInstance is one round of an engine: it claims, accepts, asks and commits.
func (f *fixture) runInstance(mu *sync.Mutex, claims, commits map[batch.ID]int, all int) (done bool, err error) {
	lanes, err := f.store.Lanes(f.ctx, store.LanesQuery{Start: true, Limit: 9})
	if err != nil {
		return false, err
	}
	got, err := f.store.Claim(f.ctx, store.ClaimQuery{Lanes: lanes, Limit: 3, Window: 4, TTL: f.units(90)}, chooseEveryReady)
	if err != nil {
		return false, err
	}
	var os []store.Outcome
	mu.Lock()
	for _, run := range got.Runs {
		for _, c := range run.Batches {
			claims[c.Key.ID]++
			os = append(os, store.Outcome{Ref: c.Ref, Version: c.Version, Was: c.Was, By: batch.BySubmitter, Finding: store.Accepted})
		}
	}
	mu.Unlock()
	if err := f.allWritten(os); err != nil {
		return false, err
	}
	due, err := f.store.Pending(f.ctx, store.PendingQuery{Limit: 5, Lease: f.units(90)})
	if err != nil {
		return false, err
	}
	os = nil
	for _, p := range due {
		os = append(os, store.Outcome{Ref: p.Ref, Version: p.Version, Was: p.Was, By: batch.ByMonitor, Finding: store.IsCommitted})
	}
	if err := f.allWritten(os); err != nil {
		return false, err
	}
	mu.Lock()
	defer mu.Unlock()
	for _, o := range os {
		commits[o.Key.ID]++
	}
	return len(commits) == all, nil
}

func (f *fixture) allWritten(os []store.Outcome) error {
	if len(os) == 0 {
		return nil
	}
	applied, err := f.store.Record(f.ctx, os)
	for _, a := range applied {
		if a.Result != store.Written {
			err = errors.Join(err, fmt.Errorf("%s: result %d: %w", a.Key, a.Result, a.Err))
		}
	}
	return err
}
