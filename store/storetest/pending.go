package storetest

import (
	"fmt"
	"strings"
	"sync"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func pendingTests() []test {
	return []test{
		{name: "what the monitor owns and nothing else", run: testPendingOwned},
		{name: "a claim that expires becomes due by itself", run: testPendingExpired},
		{name: "not before its next check", run: testPendingCheck},
		{name: "leased to one", run: testPendingLease},
		{name: "least recently asked first, then in order", run: testPendingOrder},
		{name: "concurrent calls share no row", run: testPendingConcurrent},
		{name: "checked sets the next time and raises no version", run: testPendingChecked},
		{name: "checked leaves what has moved on alone", run: testPendingMovedOn},
		{name: "ages and times left", run: testPendingAges},
		{name: "only looked at", run: testPendingLooked},
		{name: "of the services named, due or not", run: testPendingServices},
		{name: "of the services named, up to the limit and in the same order", run: testPendingServicesOrder},
		{name: "of services that cannot be", run: testPendingServicesNever},
	}
}

func testPendingOwned(f *fixture) {
	named := f.makeOneOfEach()
	f.passUnits(1)
	f.add(newBatch("live", "live"))
	f.claimExactly("live")
	var want []batch.ID
	for _, name := range []string{
		"submitting and expired", "in doubt", "needing a decision", "pending", "valid", "invalid, not settled", "invalid, about to settle",
		"pending, an earlier attempt in doubt", "refused, an earlier attempt in doubt",
		"submitting", "submitting again, an earlier attempt in doubt", // their claims have expired by now
	} {
		want = append(want, named[name])
	}
	assert.ElementsMatch(f, want, inFlightIDs(f.pending(100, f.units(1.5))))
}

func testPendingExpired(f *fixture) {
	f.add(newBatch("s", "a"))
	f.claimExactly("a")
	assert.Empty(f, f.pending(1, f.units(1.5)), "a live claim is the submitter's")
	f.passUnits(1)
	assert.Empty(f, f.pending(1, f.units(1.5)))
	f.passUnits(1)
	got := f.pending(1, f.units(1.5))
	require.Equal(f, []batch.ID{"a"}, inFlightIDs(got))
	assert.Equal(f, batch.Submitting, got[0].State)
	assert.Equal(f, int64(2), got[0].Version)
}

func testPendingCheck(f *fixture) {
	f.add(newBatch("s", "a"))
	f.claimExactly("a")
	o := f.submitterOutcome("a", store.Accepted)
	o.Check = f.units(2.5)
	f.recordAll(o)
	f.passUnits(2)
	assert.Empty(f, f.pending(1, f.units(1.5)))
	f.passUnits(1)
	assert.Len(f, f.pending(1, f.units(1.5)), 1)
}

func testPendingLease(f *fixture) {
	f.add(newBatch("s", "a"))
	f.claimExactly("a")
	f.recordEach(f.submitterOutcome, store.Accepted, "a")
	f.passUnits(1)
	first := f.pending(10, f.units(2.5))
	require.Len(f, first, 1)
	assert.Empty(f, f.pending(10, f.units(2.5)))
	f.passUnits(2)
	assert.Empty(f, f.pending(10, f.units(2.5)))
	f.passUnits(1)
	second := f.pending(10, f.units(2.5))
	require.Len(f, second, 1)
	assert.Equal(f, first[0].Version, second[0].Version)
	f.recordAll(f.monitorOutcome("a", store.IsValid))
}

// testPendingLooked: a call of Pending without a lease writes nothing, and keeps no other caller
// from asking.
func testPendingLooked(f *fixture) {
	f.add(newBatch("s", "a"), newBatch("t", "b"))
	f.claimExactly("a", "b")
	f.recordEach(f.submitterOutcome, store.Accepted, "a", "b")
	f.setNextCheck(f.units(5.5), "a")
	f.setNextCheck(f.units(0.5), "b")
	f.passUnits(1)
	for range 2 {
		got := f.pendingOf(9, 0, "s", "t")
		require.Equal(f, []batch.ID{"a", "b"}, inFlightIDs(got), "due or not, and in the same order again")
		assert.InDelta(f, 4.5, float64(got[0].CheckIn)/float64(f.timeUnit), 0.2, "check in: %s", got[0].CheckIn)
		assert.InDelta(f, -0.5, float64(got[1].CheckIn)/float64(f.timeUnit), 0.2, "check in: %s", got[1].CheckIn)
		assert.Equal(f, []batch.ID{"b"}, inFlightIDs(f.pending(9, 0)))
	}
	assert.InDelta(f, 2.5, float64(f.pending(9, f.units(2.5))[0].CheckIn)/float64(f.timeUnit), 0.2, "it is leased")
	assert.Empty(f, f.pending(9, 0))
	f.recordAll(f.monitorOutcome("a", store.IsCommitted)) // the version has not changed
}

func testPendingOrder(f *fixture) {
	bs := newBatches("s", "b", 5)
	f.add(bs[:2]...)
	f.tick()
	f.add(newBatches("t", "t", 1)...)
	f.tick()
	f.add(bs[2:]...)
	all := []batch.ID{"b00005", "b00004", "t00001", "b00003", "b00002", "b00001"}
	f.claimExactly("b00001", "t00001", "b00003", "b00005", "b00002", "b00004")
	f.recordEach(f.submitterOutcome, store.Accepted, "b00002", "b00001", "b00005", "t00001", "b00003", "b00004")
	f.passUnits(1)
	next := func(n int, in float64) []batch.ID {
		got := inFlightIDs(f.pending(n, f.units(9.5)))
		f.setNextCheck(f.units(in), got...)
		return got
	}
	assert.Equal(f, all[:2], next(2, -0.5))
	assert.Equal(f, all[2:4], next(2, -0.5), "those that were not asked about come first")
	assert.Equal(f, all[4:], next(2, -0.5))
	assert.Equal(f, all[:4], next(4, -0.5))
	assert.Equal(f, []batch.ID{all[4], all[5], all[0]}, next(3, -0.5))
	assert.Equal(f, []batch.ID{all[1], all[2], all[3], all[0], all[4], all[5]}, next(10, -0.5),
		"asked together, they come in their order again")
}

func testPendingConcurrent(f *fixture) {
	bs := newBatches("s", "b", 60)
	f.add(bs...)
	f.claimExactly(batchIDs(bs)...)
	f.recordEach(f.submitterOutcome, store.Accepted, batchIDs(bs)...)
	f.passUnits(1)
	var wg sync.WaitGroup
	var mu sync.Mutex
	times := map[batch.ID]int{}
	errs := make([]error, 6)
	for i := range errs {
		wg.Go(func() {
			for range 6 {
				got, err := f.store.Pending(f.ctx, store.PendingQuery{Limit: 7, Lease: f.units(90)})
				if err != nil {
					errs[i] = err
					return
				}
				mu.Lock()
				for _, id := range inFlightIDs(got) {
					times[id]++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(f, err)
	}
	for id, n := range times {
		require.Equal(f, 1, n, "leases of %s", id)
	}
	got := must(f.store.Pending(f.ctx, store.PendingQuery{Limit: 100, Lease: f.units(90)}))(f)
	assert.Len(f, times, len(bs)-len(got), "all were leased, or still can be")
}

func testPendingChecked(f *fixture) {
	f.add(newBatch("s", "a"), newBatch("s", "b"), newBatch("s", "c"))
	f.claimExactly("a", "b", "c")
	f.recordEach(f.submitterOutcome, store.Accepted, "a", "b", "c")
	f.passUnits(1)
	f.pending(3, f.units(9.5))
	f.setNextCheck(f.units(2.5), "a")
	f.setNextCheck(f.units(0.5), "b", "c")
	f.passUnits(1)
	assert.Equal(f, []batch.ID{"b", "c"}, inFlightIDs(f.pending(9, f.units(9.5))))
	f.passUnits(2)
	assert.Equal(f, []batch.ID{"a"}, inFlightIDs(f.pending(9, f.units(9.5))))
	for _, id := range []batch.ID{"a", "b", "c"} {
		assert.Equal(f, int64(3), f.get(id).Version)
	}
	require.NoError(f, f.store.Checked(f.ctx, nil))
	bs := newBatches("m", "m", 1200)
	f.add(bs...)
	f.claimExactly(batchIDs(bs)...)
	f.recordEach(f.submitterOutcome, store.Accepted, batchIDs(bs)...)
	f.setNextCheck(f.units(2.5), batchIDs(bs)...)
	f.passUnits(1)
	assert.Empty(f, f.pending(2000, f.units(0.5)))
	f.passUnits(2)
	assert.Len(f, f.pending(2000, f.units(0.5)), 1200)
}

// testPendingMovedOn: Checked has no version, so it may come after the row has changed.
func testPendingMovedOn(f *fixture) {
	f.makeOneOfEach()
	f.add(newBatch("s", "live"))
	f.claimExactly("live")
	var all []batch.ID
	for _, s := range f.modelBatches(func(*modelBatch) bool { return true }) {
		all = append(all, s.batch.ID)
	}
	f.setNextCheck(f.units(900), all...)
	require.NoError(f, f.store.Checked(f.ctx, []store.Due{{Ref: store.Ref{Key: batch.Key{Service: "s", ID: "none"}}}}))
	for _, id := range all {
		f.get(id)
	}
	f.passUnits(2)
	assert.Contains(f, inFlightIDs(f.pending(100, f.units(0.5))), batch.ID("live"), "its expiry is noticed in time")
}

func testPendingAges(f *fixture) {
	b := newBatch("s", "a")
	b.Budget = batch.Budget{Attempts: 9, EveryTry: true}
	f.add(b)
	rule := resendRule(f.units(20), f.units(0.5))
	f.claimExactlyBy(rule, "a")
	f.recordEach(f.submitterOutcome, store.Doubtful, "a")
	f.passUnits(1)
	f.recordEach(f.monitorOutcome, store.NoTrace, "a")
	f.claimExactlyBy(rule, "a")
	f.passUnits(3)
	got := f.pending(1, 0)[0]
	assert.Equal(f, 1, got.Resends)
	assert.Equal(f, 1, got.DoubtAttempt)
	assert.Equal(f, 2, got.Attempt)
	assert.Equal(f, b.Budget, got.Budget)
	for what, d := range map[string][2]float64{
		"posted ago: " + fmt.Sprint(got.PostedAgo):   {1.5, float64(got.PostedAgo) / float64(f.timeUnit)},
		"resend left: " + fmt.Sprint(got.ResendLeft): {16, float64(got.ResendLeft) / float64(f.timeUnit)},
	} {
		assert.InDelta(f, d[0], d[1], 0.2, what)
	}
	f.recordEach(f.monitorOutcome, store.Undecidable, "a")
	f.passUnits(1)
	assert.True(f, f.pending(1, 0)[0].Undecided)
	f.recordEach(f.monitorOutcome, store.IsInvalid, "a")
	f.passUnits(1)
	got = f.pending(1, 0)[0]
	assert.InDelta(f, 4.5, float64(got.SettleLeft)/float64(f.timeUnit), 0.2, "settle left: %s", got.SettleLeft)
}

func testPendingServices(f *fixture) {
	named := f.makeOneOfEach()
	f.add(newBatch("live", "live"))
	f.claimExactly("live")
	for _, s := range f.modelBatches(func(*modelBatch) bool { return true }) {
		owned := s.row.Monitored(f.now())
		got := f.pendingOf(100, f.units(0.5), s.batch.Service)
		assert.Equal(f, owned, len(got) == 1, "%s", s.batch.Service)
		assert.Equal(f, owned, len(f.pendingOf(100, f.units(0.5), s.batch.Service)) == 1, "%s, leased", s.batch.Service)
	}
	assert.Empty(f, f.pendingOf(100, f.units(0.5)), "none named")
	f.setNextCheck(f.units(99.5), named["pending"], named["valid"])
	all := f.pendingOf(100, f.units(0.5), "valid", "live", "none", "pending", "pending", "queued", "committed")
	assert.ElementsMatch(f, []batch.ID{named["pending"], named["valid"]}, inFlightIDs(all))
	f.recordAll(f.monitorOutcome(named["pending"], store.IsCommitted)) // the version has not changed
	f.passUnits(2)
	assert.Equal(f, []batch.ID{"live"}, inFlightIDs(f.pendingOf(9, f.units(2.5), "live")), "its claim has expired")
	assert.NotContains(f, inFlightIDs(f.pending(100, f.units(0.5))), batch.ID("live"), "leased")
	assert.Equal(f, []batch.ID{"live"}, inFlightIDs(f.pendingOf(9, f.units(0.5), "live")), "leased or not")
	f.passUnits(1)
	assert.Contains(f, inFlightIDs(f.pending(100, f.units(0.5))), batch.ID("live"))
}

func testPendingServicesOrder(f *fixture) {
	f.add(newBatches("s", "b", 3)...)
	f.tick()
	f.add(newBatches("t", "t", 2)...)
	f.tick()
	f.add(newBatches("u", "u", 1)...)
	is := []batch.ID{"b00003", "b00002", "b00001", "t00002", "t00001", "u00001"}
	f.claimExactly(is...)
	f.recordEach(f.submitterOutcome, store.Accepted, is...)
	assert.Equal(f, is[:2], inFlightIDs(f.pendingOf(2, f.units(9.5), "t", "s")))
	assert.Equal(f, append([]batch.ID{is[2]}, is[3:5]...), inFlightIDs(f.pendingOf(3, f.units(9.5), "t", "s")))
	assert.Equal(f, is[:4], inFlightIDs(f.pendingOf(4, f.units(9.5), "s", "t")), "least recently asked first")
	f.add(newBatch("v", "live"), newBatch("v", "retried"), newBatch("v", "pending"))
	f.claimExactly("live", "retried", "pending")
	f.recordEach(f.submitterOutcome, store.Accepted, "pending")
	f.recordEach(f.submitterOutcome, store.Failed, "retried")
	assert.Equal(f, []batch.ID{"pending"}, inFlightIDs(f.pendingOf(1, f.units(9.5), "v")), "what is not the monitor's takes no place")
}

func testPendingServicesNever(f *fixture) {
	f.add(newBatch("s", "a"), newBatch("\ufffd", "b"))
	f.claimExactly("a", "b")
	f.recordEach(f.submitterOutcome, store.Accepted, "a", "b")
	got := f.pendingOf(9, f.units(0.5), "\xff", "\x00", "s", batch.ServiceID(strings.Repeat("s", 5000)), "{}", `"`)
	assert.Equal(f, []batch.ID{"a"}, inFlightIDs(got))
}
