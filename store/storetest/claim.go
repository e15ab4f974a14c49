package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func claimTests() []test {
	return []test{
		{name: "an attempt is counted before it is made", run: testClaimCounts},
		{name: "the window is all attempted ones and the first queued", run: testClaimWindow},
		{name: "no more is shown than is wanted", run: testClaimWants},
		{name: "footprints are shown", run: testClaimFootprints},
		{name: "limit and left", run: testClaimLimit},
		{name: "a claim takes so many bytes", run: testClaimBytes},
		{name: "no more under way than the ledger takes", run: testClaimInFlight},
		{name: "not before its time", run: testClaimNotBefore},
		{name: "a bad position is ignored", run: testClaimBadPosition},
		{name: "nothing is claimed twice", run: testClaimOnce},
		{name: "a claim is put back by a version of its own", run: testClaimSalt},
		{name: "what cannot be resent goes back in doubt", run: testClaimReturns},
		{name: "without a rule nothing is resent", run: testClaimNoRule},
		{name: "a panic in choose claims nothing", run: testClaimPanic},
		{name: "payloads in the order of refs", run: testClaimPayloads},
	}
}

func testClaimCounts(f *fixture) {
	b := newBatch("s", "a")
	b.Budget = batch.Budget{Attempts: 5, EveryTry: true}
	f.add(b)
	c := f.claimExactly("a")[0]
	assert.Equal(f, store.Claim{Ref: c.Ref, Version: 2, From: batch.Queued, Attempt: 1, Spent: 1, Budget: b.Budget, Was: c.Was}, c)
	r := f.get("a")
	assert.Equal(f, batch.Submitting, r.State)
	assert.Equal(f, 1, r.Attempt)
	assert.Equal(f, 1, r.Spent, "every try spends, one that a crash cuts off, too")
	assert.True(f, f.isNear(f.now().Add(f.units(1.5)), r.ClaimExpires))
	assert.True(f, f.isNear(f.now(), r.DoubtSince), "in doubt from the claim on, so that a crash needs no writing")
	o := f.submitterOutcome("a", store.Failed)
	o.Refund, o.Error = true, &batch.SubmissionError{Kind: batch.KindMisconfigured}
	f.recordAll(o)
	assert.Equal(f, 0, f.get("a").Spent, "but one that was not posted")
	f.passUnits(3)
	c = f.claimExactly("a")[0]
	assert.Equal(f, store.Claim{
		Ref: c.Ref, Version: 4, From: batch.Delayed, Attempt: 2, Spent: 1, Failures: 1, Budget: b.Budget, Was: c.Was,
	}, c)
	f.recordEach(f.submitterOutcome, store.Doubtful, "a")
	f.recordEach(f.monitorOutcome, store.NoTrace, "a")
	c = f.claimExactly("a")[0]
	assert.True(f, c.Doubt)
	assert.Equal(f, batch.Unknown, c.From)
}

func testClaimWindow(f *fixture) {
	bs := newBatches("s", "b", 9)
	f.add(bs...)
	is := batchIDs(bs)
	f.claimExactly(is[1], is[3], is[5], is[7])
	f.recordEach(f.submitterOutcome, store.Accepted, is[1])
	f.recordEach(f.submitterOutcome, store.Failed, is[3])
	f.recordEach(f.submitterOutcome, store.Unposted, is[7]) // queued again, and still an attempted batch
	// Batches under way come first. A batch that waits again stands at its place, if that is
	// within the window.
	for n, want := range [][]batch.ID{
		{is[1], is[0], is[5]},
		{is[1], is[0], is[2], is[5]},
		{is[1], is[0], is[2], is[3], is[5], is[4]},
		{is[1], is[0], is[2], is[3], is[5], is[4], is[6]},
		{is[1], is[0], is[2], is[3], is[5], is[4], is[6], is[7], is[8]},
	} {
		require.Equal(f, want, laneIDs(f.viewLane("s", n+1)), "window %d", n+1)
	}
	_, err := f.store.Claim(f.ctx, store.ClaimQuery{Lanes: []batch.ServiceID{"s"}, Limit: 1, TTL: f.units(1.5)}, func(l batch.Lane) []batch.Run {
		assert.Equal(f, []batch.ID{is[1], is[0], is[5]}, laneIDs(l), "no window is a window of one")
		return nil
	})
	require.NoError(f, err)
	l := f.viewLane("s", 9)
	assert.Equal(f, batch.LaneBatch{ID: is[1], State: batch.Pending, Attempt: 1}, l.Batches[0])
	assert.Equal(f, batch.LaneBatch{ID: is[0], State: batch.Queued, Ready: true}, l.Batches[1])
	assert.Equal(f, batch.LaneBatch{ID: is[3], State: batch.Delayed, Attempt: 1, Failed: true}, l.Batches[3])
	assert.Equal(f, batch.LaneBatch{ID: is[5], State: batch.Submitting, Attempt: 1}, l.Batches[4])
	assert.Equal(f, batch.LaneBatch{ID: is[7], State: batch.Queued, Attempt: 1, Ready: true}, l.Batches[7])
	f.recordEach(f.monitorOutcome, store.IsCommitted, is[1], is[3])
	assert.Equal(f, []batch.ID{is[5], is[0]}, laneIDs(f.viewLane("s", 1)), "final ones are gone")
}

// testClaimWants: a claim shows each lane with as many waiting batches after its attempted batches
// as the lane wants. It skips no lane because another lane wants more batches than it has.
func testClaimWants(f *fixture) {
	for _, s := range []batch.ServiceID{"v", "w", "x", "y", "z"} {
		f.add(newBatches(s, string(s), map[batch.ServiceID]int{"v": 1, "w": 1, "x": 6, "y": 6, "z": 6}[s])...)
	}
	f.claimExactly("x00006", "y00006", "y00005", "z00006")
	f.recordEach(f.submitterOutcome, store.Accepted, "y00006")
	f.recordEach(f.submitterOutcome, store.Failed, "y00005")
	f.recordEach(f.submitterOutcome, store.Refused, "z00006")
	q := store.ClaimQuery{
		Lanes: []batch.ServiceID{"v", "x", "none", "w", "y", "z"}, Limit: 6, Window: 5, TTL: f.units(1.5), Resend: resendRule(f.units(1000.5), 0),
		Wants: func(attempted batch.Lane) int { return 3 - len(attempted.Batches) },
	}
	choose := func(l batch.Lane) []batch.Run { // takes all ready batches among the first three
		return chooseEveryReady(batch.Lane{Batches: l.Batches[:min(3, len(l.Batches))]})
	}
	got := f.claim(q, choose) // compares the claim and the lanes that it shows with the model
	assert.Equal(f, []batch.ID{"v00001", "x00005", "x00004", "w00001", "y00004", "z00005"}, claimedIDs(got))
	assert.Equal(f, []batch.ServiceID{"z"}, got.Left, "the limit cut it short; y waits for one that failed")
	got = f.claim(q, choose)
	assert.Equal(f, []batch.ID{"z00004", "z00003"}, claimedIDs(got))
	assert.Empty(f, f.claim(q, choose).Runs, "three of each are under way")
	q.Wants = func(batch.Lane) int { return 1000 }
	assert.Equal(f, []batch.ID{"x00003", "x00002", "x00001", "y00003", "y00002", "y00001"}, claimedIDs(f.claim(q, chooseEveryReady)), "no more than the window")
	assert.Equal(f, []batch.ID{"z00002", "z00001"}, claimedIDs(f.claim(q, chooseEveryReady)))
}

func testClaimFootprints(f *fixture) {
	b := newBatch("s", "a")
	b.Footprint = batch.Footprint{Reads: []string{"00aa", "00"}, Writes: []string{"11", "", "ü"}}
	f.add(b, newBatch("s", "b"))
	f.viewLane("s", 10) // compares the lane with the model
	f.claimExactly("a")
	f.viewLane("s", 10)
}

func testClaimLimit(f *fixture) {
	for _, s := range []batch.ServiceID{"x", "y", "z"} {
		f.add(newBatches(s, string(s), 3)...)
	}
	q := store.ClaimQuery{Lanes: []batch.ServiceID{"z", "x", "none", "y"}, Limit: 4, Window: 10, TTL: f.units(1.5)}
	got := f.claim(q, chooseEveryReady)
	assert.Equal(f, []batch.ID{"z00003", "z00002", "z00001", "x00003"}, claimedIDs(got))
	assert.Equal(f, []batch.ServiceID{"x", "none", "y"}, got.Left)
	q.Limit = 2
	got = f.claim(q, chooseEveryReady)
	assert.Equal(f, []batch.ID{"x00002", "x00001"}, claimedIDs(got), "a lane with nothing to take uses nothing up")
	assert.NotContains(f, got.Left, batch.ServiceID("x"))
	q.Limit = 100
	got = f.claim(q, chooseEveryReady)
	assert.Equal(f, []batch.ID{"y00003", "y00002", "y00001"}, claimedIDs(got))
	assert.Empty(f, got.Left)
	assert.Empty(f, f.claim(q, chooseEveryReady).Runs)
}

// testClaimBytes claims payloads that are together larger than Bytes: of batches that were never
// attempted, and of batches that wait again.
func testClaimBytes(f *fixture) {
	const size = 10_000
	all := slices.Concat(newBatches("a", "a", 3), newBatches("b", "b", 2), newBatches("c", "c", 1))
	for i := range all {
		all[i].Payload = fmt.Appendf(nil, "%0*d", size, i)
	}
	f.add(all...)
	is := batchIDs(all)
	lanes := []batch.ServiceID{"a", "b", "c"}
	q := store.ClaimQuery{Lanes: lanes, Limit: 99, Window: 9, TTL: f.units(1.5), Bytes: 2*size + size/2}
	for range 2 { // in the second round the batches were attempted before
		got := f.claim(q, chooseEveryReady)
		require.Equal(f, []batch.ID{is[0], is[1], is[3]}, claimedIDs(got), "the rest of a lane waits, and once it is full the next lane")
		assert.Equal(f, lanes, got.Left)
		f.recordEach(f.submitterOutcome, store.Unposted, is[0], is[1], is[3])
	}
	q.Bytes = 1
	got := f.claim(q, chooseEveryReady)
	require.Equal(f, []batch.ID{is[0]}, claimedIDs(got), "at least one")
	f.recordEach(f.submitterOutcome, store.Unposted, is[0])
	q.Bytes = 0
	require.Len(f, claimedIDs(f.claim(q, chooseEveryReady)), len(all))
}

// testClaimInFlight: a lane at its bound of batches in flight is not in Left, since another claim
// would find nothing before a batch is final. Another lane has its own bound, and a final batch
// makes room.
func testClaimInFlight(f *fixture) {
	for _, s := range []batch.ServiceID{"x", "y", "z"} {
		f.add(newBatches(s, string(s), 4)...)
	}
	q := store.ClaimQuery{
		Lanes: []batch.ServiceID{"x", "y", "z"}, Limit: 6, Window: 10, TTL: f.units(1.5), Resend: resendRule(f.units(1000.5), 0),
		MaxInFlight: func(s batch.ServiceID) int { return map[batch.ServiceID]int{"x": 2, "y": 3}[s] },
	}
	got := f.claim(q, chooseEveryReady)
	assert.Equal(f, []batch.ID{"x00004", "x00003", "y00004", "y00003", "y00002", "z00004"}, claimedIDs(got))
	assert.Equal(f, []batch.ServiceID{"z"}, got.Left, "the limit cut it short; the others are full")
	q.Limit = 9
	got = f.claim(q, chooseEveryReady)
	assert.Equal(f, []batch.ID{"z00003", "z00002", "z00001"}, claimedIDs(got), "z has no bound")
	assert.Empty(f, got.Left)

	f.recordEach(f.submitterOutcome, store.Accepted, "x00004", "x00003")
	f.recordEach(f.submitterOutcome, store.Doubtful, "y00004")
	assert.Empty(f, f.claim(q, chooseEveryReady).Runs, "accepted, or in doubt, is under way")
	f.recordEach(f.monitorOutcome, store.IsCommitted, "x00004")
	f.recordEach(f.monitorOutcome, store.NoTrace, "y00004")
	f.passUnits(3) // enough time for a resend
	got = f.claim(q, chooseEveryReady)
	assert.Equal(f, []batch.ID{"x00002", "y00004"}, claimedIDs(got), "what is final, or known not to be there, is not")
	assert.Empty(f, got.Left)
}

func testClaimNotBefore(f *fixture) {
	f.add(newBatch("s", "a"), newBatch("t", "b"), newBatch("u", "c"))
	f.claimExactly("a", "b")
	a, b := f.submitterOutcome("a", store.Failed), f.submitterOutcome("b", store.Failed)
	a.Delay, b.Delay = f.units(4.5), f.units(2.5)
	f.recordAll(a, b)
	q := store.ClaimQuery{Lanes: []batch.ServiceID{"s", "t"}, Limit: 9, Window: 9, TTL: f.units(1.5)}
	got := f.claim(q, chooseOnly("a", "b"))
	assert.Empty(f, got.Runs)
	assert.True(f, f.areNear(f.units(2.5), got.NextReady), "%s", got.NextReady)
	f.passUnits(2)
	assert.Empty(f, f.claim(q, chooseOnly("a", "b")).Runs)
	f.passUnits(1)
	got = f.claim(q, chooseOnly("a", "b"))
	assert.Equal(f, []batch.ID{"b"}, claimedIDs(got))
	assert.True(f, f.areNear(f.units(1.5), got.NextReady), "%s", got.NextReady)
	q.Lanes = []batch.ServiceID{"u"}
	assert.Zero(f, f.claim(q, chooseNothing).NextReady)
	for i, finding := range []store.Finding{store.NoTrace, store.NotCommitted, store.IsVoid} {
		id := batch.ID(fmt.Sprint("m", i))
		q.Lanes = []batch.ServiceID{batch.ServiceID(id)}
		f.add(newBatch(q.Lanes[0], id))
		f.claimExactly(id)
		f.recordAll(f.submitterOutcome(id, store.Accepted))
		o := f.monitorOutcome(id, finding)
		o.Delay = f.units(1.5)
		f.recordAll(o)
		got = f.claim(q, chooseOnly(id))
		assert.Empty(f, got.Runs, finding)
		assert.True(f, f.areNear(f.units(1.5), got.NextReady), "%s: %s", finding, got.NextReady)
		f.passUnits(2)
		assert.Equal(f, []batch.ID{id}, claimedIDs(f.claim(q, chooseOnly(id))), finding)
	}
}

func testClaimBadPosition(f *fixture) {
	f.add(newBatches("s", "b", 4)...)
	f.claimExactly("b00003")
	q := store.ClaimQuery{Lanes: []batch.ServiceID{"s"}, Limit: 9, Window: 9, TTL: f.units(1.5)}
	got := f.claim(q, func(batch.Lane) []batch.Run { return []batch.Run{{-1}, {99}, {0}, {1, 1, 2}, {}, {3, 0, 2}} })
	assert.Equal(f, []batch.ID{"b00004", "b00001"}, claimedIDs(got), "position 0 is Submitting; a run ends at its first bad position")
	require.Len(f, got.Runs, 2)
}

func testClaimOnce(f *fixture) {
	services := []batch.ServiceID{"x", "y", "z"}
	const each, claimers = 20, 6
	for _, s := range services {
		f.add(newBatches(s, string(s), each)...)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	times := map[batch.ID]int{}
	errs := make([]error, claimers)
	began := time.Now()
	for c := range claimers {
		wg.Go(func() {
			lanes := services
			for len(lanes) > 0 {
				if time.Since(began) > testTimeLimit {
					errs[c] = errors.New("there is always more to claim")
					return
				}
				got, err := f.store.Claim(f.ctx, store.ClaimQuery{Lanes: lanes, Limit: 3, Window: 2, TTL: f.units(9)}, chooseEveryReady)
				if err != nil {
					errs[c] = err
					return
				}
				mu.Lock()
				for _, id := range claimedIDs(got) {
					times[id]++
				}
				mu.Unlock()
				lanes = slices.Concat(got.Locked, got.Left)
				for _, r := range got.Runs {
					lanes = append(lanes, r.Service)
				}
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(f, err)
	}
	assert.Len(f, times, each*len(services), "all are claimed")
	for id, n := range times {
		require.Equal(f, 1, n, "claims of %s", id)
	}
	for id, s := range f.batches {
		r := must(f.store.Get(f.ctx, s.batch.Key()))(f)
		require.Equal(f, 1, r.Attempt, "attempts of %s", id)
		require.Equal(f, int64(2), r.Version)
	}
}

// testClaimReturns: a TTL of 1.5 and a LateArrival of 0.75 units must end within 6 units of the
// first attempt.
func testClaimReturns(f *fixture) {
	rule := resendRule(f.units(6), f.units(0.75))
	f.add(newBatch("s", "a"), newBatch("s", "b"), newBatch("t", "c"))
	f.claimExactlyBy(rule, "a", "b", "c")
	f.recordEach(f.submitterOutcome, store.Doubtful, "a", "b", "c")
	f.recordEach(f.monitorOutcome, store.NoTrace, "a", "b", "c")
	f.passUnits(3)
	f.claimExactlyBy(rule, "a")
	assert.Equal(f, batch.Submitting, f.get("a").State, "3 + 1.5 + 0.75 is before 6")
	f.passUnits(1)
	got := f.claim(store.ClaimQuery{Lanes: []batch.ServiceID{"s", "t"}, Limit: 9, Window: 9, TTL: f.units(1.5), Resend: rule}, chooseEveryReady)
	assert.Empty(f, got.Runs, "4 + 1.5 + 0.75 is not")
	for _, id := range []batch.ID{"b", "c"} {
		r := f.get(id)
		assert.Equal(f, batch.Submitting, r.State)
		assert.Equal(f, 1, r.Attempt)
		assert.Equal(f, int64(5), r.Version)
	}
	due := f.pending(10, f.units(1.5))
	require.ElementsMatch(f, []batch.ID{"b", "c"}, inFlightIDs(due), "they are the monitor's at once")
	assert.Equal(f, 1, due[0].DoubtAttempt)
	assert.True(f, f.areNear(f.units(4), due[0].PostedAgo), "the age is that of the attempt: %s", due[0].PostedAgo)
	late := f.submitterOutcome("b", store.Accepted)
	late.Version = 4
	assert.Equal(f, store.Fenced, f.record(late)[0].Result)
}

func testClaimNoRule(f *fixture) {
	f.add(newBatch("s", "a"), newBatch("s", "b"))
	f.claimExactlyBy(nil, "a")
	f.recordEach(f.submitterOutcome, store.Doubtful, "a")
	f.recordEach(f.monitorOutcome, store.NoTrace, "a")
	got := f.claim(store.ClaimQuery{Lanes: []batch.ServiceID{"s"}, Limit: 9, Window: 9, TTL: f.units(1.5)}, chooseEveryReady)
	assert.Equal(f, []batch.ID{"b"}, claimedIDs(got), "a first attempt needs no rule")
	assert.Equal(f, batch.Submitting, f.get("a").State)
	assert.Equal(f, 1, f.get("a").Attempt)
}

func testClaimPanic(f *fixture) {
	f.add(newBatch("s", "a"), newBatch("t", "b"))
	func() {
		defer func() { _ = recover() }() // a store may pass the panic on or return an error
		_, err := f.store.Claim(f.ctx, store.ClaimQuery{Lanes: []batch.ServiceID{"s", "t"}, Limit: 9, Window: 9, TTL: f.units(1.5)},
			func(l batch.Lane) []batch.Run {
				if l.Service == "t" {
					panic("strategy")
				}
				return chooseEveryReady(l)
			})
		assert.Error(f, err, "Claim says nothing of a panic of choose")
	}()
	f.get("a")
	f.get("b")
	f.claimExactly("a", "b")
}

// payloadsOf checks that each payload that came with a claim is the payload of its batch.
func (f *fixture) payloadsOf(claimed store.Claimed) {
	f.Helper()
	for _, r := range claimed.Runs {
		for _, c := range r.Batches {
			if payload, has := claimed.Payloads[c.Row]; has {
				require.Equal(f, f.batches[c.Key.ID].batch.Payload, payload, "payload of %s", c.Key)
			}
		}
	}
}

func testClaimPayloads(f *fixture) {
	f.add(newBatch("s", "a"), newBatch("s", "b"), newBatch("t", "c"))
	cs := f.claimExactly("c", "a")
	got, err := f.store.Payloads(f.ctx, []store.Ref{
		cs[0].Ref, {Key: batch.Key{Service: "s", ID: "none"}}, cs[1].Ref, {Key: batch.Key{Service: "t", ID: "b"}}, {Key: newBatch("s", "a").Key()},
	})
	require.NoError(f, err)
	assert.Equal(f, [][]byte{newBatch("", "c").Payload, nil, newBatch("", "a").Payload, nil, newBatch("", "a").Payload}, got)
	got, err = f.store.Payloads(f.ctx, nil)
	require.NoError(f, err)
	assert.Empty(f, got)

	other := store.Ref{Key: cs[0].Key, Row: cs[1].Row}
	got, err = f.store.Payloads(f.ctx, []store.Ref{other, {Key: batch.Key{Service: "t", ID: "a"}, Row: cs[1].Row}})
	require.NoError(f, err)
	for i, p := range got { // a store that numbers its rows also compares the key
		assert.NotEqual(f, newBatch("", "a").Payload, p, "%d: the payload of another key", i)
	}

	bs := newBatches("m", "m", 1500)
	for i := range bs {
		bs[i].Payload = fmt.Appendf(nil, "%d", i)
	}
	f.add(bs...)
	refs := make([]store.Ref, len(bs))
	for i, c := range f.claimExactly(batchIDs(bs)...) {
		refs[i] = c.Ref
	}
	got, err = f.store.Payloads(f.ctx, refs)
	require.NoError(f, err)
	for i, p := range got {
		require.Equal(f, bs[i].Payload, p)
	}
}
