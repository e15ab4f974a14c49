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
		{name: "what the monitor owns and nothing else", run: pendingOwned},
		{name: "a claim that expires becomes due by itself", run: pendingExpired},
		{name: "not before its next check", run: pendingCheck},
		{name: "leased to one", run: pendingLease},
		{name: "least recently asked first, then in order", run: pendingOrder},
		{name: "concurrent calls share no row", run: pendingConcurrent},
		{name: "checked sets the next time and raises no version", run: pendingChecked},
		{name: "checked leaves what has moved on alone", run: pendingMovedOn},
		{name: "ages and times left", run: pendingAges},
		{name: "only looked at", run: pendingLooked},
		{name: "of the services named, due or not", run: pendingServices},
		{name: "of the services named, up to the limit and in the same order", run: pendingServicesOrder},
		{name: "of services that cannot be", run: pendingServicesNever},
	}
}

func pendingOwned(f *fixture) {
	named := f.oneOfEach()
	f.pass(1)
	f.add(bt("live", "live"))
	f.take("live")
	var want []batch.ID
	for _, name := range []string{
		"submitting and expired", "in doubt", "needing a decision", "pending", "valid", "invalid, not settled", "invalid, about to settle",
		"pending, an earlier attempt in doubt", "refused, an earlier attempt in doubt",
		"submitting", "submitting again, an earlier attempt in doubt", // by now
	} {
		want = append(want, named[name])
	}
	assert.ElementsMatch(f, want, inFlightIDs(f.pending(100, f.u(1.5))))
}

func pendingExpired(f *fixture) {
	f.add(bt("s", "a"))
	f.take("a")
	assert.Empty(f, f.pending(1, f.u(1.5)), "a live claim is the submitter's")
	f.pass(1)
	assert.Empty(f, f.pending(1, f.u(1.5)))
	f.pass(1)
	got := f.pending(1, f.u(1.5))
	require.Equal(f, []batch.ID{"a"}, inFlightIDs(got))
	assert.Equal(f, batch.Submitting, got[0].State)
	assert.Equal(f, int64(2), got[0].Version)
}

func pendingCheck(f *fixture) {
	f.add(bt("s", "a"))
	f.take("a")
	o := f.submitted("a", store.Accepted)
	o.Check = f.u(2.5)
	f.written(o)
	f.pass(2)
	assert.Empty(f, f.pending(1, f.u(1.5)))
	f.pass(1)
	assert.Len(f, f.pending(1, f.u(1.5)), 1)
}

func pendingLease(f *fixture) {
	f.add(bt("s", "a"))
	f.take("a")
	f.each(f.submitted, store.Accepted, "a")
	f.pass(1)
	first := f.pending(10, f.u(2.5))
	require.Len(f, first, 1)
	assert.Empty(f, f.pending(10, f.u(2.5)))
	f.pass(2)
	assert.Empty(f, f.pending(10, f.u(2.5)))
	f.pass(1)
	second := f.pending(10, f.u(2.5))
	require.Len(f, second, 1)
	assert.Equal(f, first[0].Version, second[0].Version)
	f.written(f.monitored("a", store.IsValid))
}

// Without a lease nothing is written, so that looking costs no write, and keeps no other
// caller from asking.
func pendingLooked(f *fixture) {
	f.add(bt("s", "a"), bt("t", "b"))
	f.take("a", "b")
	f.each(f.submitted, store.Accepted, "a", "b")
	f.checked(f.u(5.5), "a")
	f.checked(f.u(0.5), "b")
	f.pass(1)
	for range 2 {
		got := f.pendingOf(9, 0, "s", "t")
		require.Equal(f, []batch.ID{"a", "b"}, inFlightIDs(got), "due or not, and in the same order again")
		assert.InDelta(f, 4.5, float64(got[0].CheckIn)/float64(f.unit), 0.2, "check in: %s", got[0].CheckIn)
		assert.InDelta(f, -0.5, float64(got[1].CheckIn)/float64(f.unit), 0.2, "check in: %s", got[1].CheckIn)
		assert.Equal(f, []batch.ID{"b"}, inFlightIDs(f.pending(9, 0)))
	}
	assert.InDelta(f, 2.5, float64(f.pending(9, f.u(2.5))[0].CheckIn)/float64(f.unit), 0.2, "it is leased")
	assert.Empty(f, f.pending(9, 0))
	f.written(f.monitored("a", store.IsCommitted)) // the version is as it was
}

func pendingOrder(f *fixture) {
	bs := many("s", "b", 5)
	f.add(bs[:2]...)
	f.tick()
	f.add(many("t", "t", 1)...)
	f.tick()
	f.add(bs[2:]...)
	all := []batch.ID{"b00005", "b00004", "t00001", "b00003", "b00002", "b00001"}
	f.take("b00001", "t00001", "b00003", "b00005", "b00002", "b00004")
	f.each(f.submitted, store.Accepted, "b00002", "b00001", "b00005", "t00001", "b00003", "b00004")
	f.pass(1)
	next := func(n int, in float64) []batch.ID {
		got := inFlightIDs(f.pending(n, f.u(9.5)))
		f.checked(f.u(in), got...)
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

func pendingConcurrent(f *fixture) {
	bs := many("s", "b", 60)
	f.add(bs...)
	f.take(ids(bs)...)
	f.each(f.submitted, store.Accepted, ids(bs)...)
	f.pass(1)
	var wg sync.WaitGroup
	var mu sync.Mutex
	times := map[batch.ID]int{}
	errs := make([]error, 6)
	for i := range errs {
		wg.Go(func() {
			for range 6 {
				got, err := f.st.Pending(f.ctx, store.PendingQuery{Limit: 7, Lease: f.u(90)})
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
	got := must(f.st.Pending(f.ctx, store.PendingQuery{Limit: 100, Lease: f.u(90)}))(f)
	assert.Len(f, times, len(bs)-len(got), "all were leased, or still can be")
}

func pendingChecked(f *fixture) {
	f.add(bt("s", "a"), bt("s", "b"), bt("s", "c"))
	f.take("a", "b", "c")
	f.each(f.submitted, store.Accepted, "a", "b", "c")
	f.pass(1)
	f.pending(3, f.u(9.5))
	f.checked(f.u(2.5), "a")
	f.checked(f.u(0.5), "b", "c")
	f.pass(1)
	assert.Equal(f, []batch.ID{"b", "c"}, inFlightIDs(f.pending(9, f.u(9.5))))
	f.pass(2)
	assert.Equal(f, []batch.ID{"a"}, inFlightIDs(f.pending(9, f.u(9.5))))
	for _, id := range []batch.ID{"a", "b", "c"} {
		assert.Equal(f, int64(3), f.get(id).Version)
	}
	require.NoError(f, f.st.Checked(f.ctx, nil))
	bs := many("m", "m", 1200)
	f.add(bs...)
	f.take(ids(bs)...)
	f.each(f.submitted, store.Accepted, ids(bs)...)
	f.checked(f.u(2.5), ids(bs)...)
	f.pass(1)
	assert.Empty(f, f.pending(2000, f.u(0.5)))
	f.pass(2)
	assert.Len(f, f.pending(2000, f.u(0.5)), 1200)
}

// A Checked carries no version, so that it may come late.
func pendingMovedOn(f *fixture) {
	f.oneOfEach()
	f.add(bt("s", "live"))
	f.take("live")
	var all []batch.ID
	for _, s := range f.inOrder(func(*shadow) bool { return true }) {
		all = append(all, s.b.ID)
	}
	f.checked(f.u(900), all...)
	require.NoError(f, f.st.Checked(f.ctx, []store.Due{{Ref: store.Ref{Key: batch.Key{Service: "s", ID: "none"}}}}))
	for _, id := range all {
		f.get(id)
	}
	f.pass(2)
	assert.Contains(f, inFlightIDs(f.pending(100, f.u(0.5))), batch.ID("live"), "its expiry is noticed in time")
}

func pendingAges(f *fixture) {
	b := bt("s", "a")
	b.Budget = batch.Budget{Attempts: 9, EveryTry: true}
	f.add(b)
	rule := resend(f.u(20), f.u(0.5))
	f.takeBy(rule, "a")
	f.each(f.submitted, store.Doubtful, "a")
	f.pass(1)
	f.each(f.monitored, store.NoTrace, "a")
	f.takeBy(rule, "a")
	f.pass(3)
	got := f.pending(1, 0)[0]
	assert.Equal(f, 1, got.Resends)
	assert.Equal(f, 1, got.DoubtAttempt)
	assert.Equal(f, 2, got.Attempt)
	assert.Equal(f, b.Budget, got.Budget)
	for what, d := range map[string][2]float64{
		"posted ago: " + fmt.Sprint(got.PostedAgo):   {1.5, float64(got.PostedAgo) / float64(f.unit)},
		"resend left: " + fmt.Sprint(got.ResendLeft): {16, float64(got.ResendLeft) / float64(f.unit)},
	} {
		assert.InDelta(f, d[0], d[1], 0.2, what)
	}
	f.each(f.monitored, store.Undecidable, "a")
	f.pass(1)
	assert.True(f, f.pending(1, 0)[0].Undecided)
	f.each(f.monitored, store.IsInvalid, "a")
	f.pass(1)
	got = f.pending(1, 0)[0]
	assert.InDelta(f, 4.5, float64(got.SettleLeft)/float64(f.unit), 0.2, "settle left: %s", got.SettleLeft)
}

func pendingServices(f *fixture) {
	named := f.oneOfEach()
	f.add(bt("live", "live"))
	f.take("live")
	for _, s := range f.inOrder(func(*shadow) bool { return true }) {
		owned := s.row.Monitored(f.now())
		got := f.pendingOf(100, f.u(0.5), s.b.Service)
		assert.Equal(f, owned, len(got) == 1, "%s", s.b.Service)
		assert.Equal(f, owned, len(f.pendingOf(100, f.u(0.5), s.b.Service)) == 1, "%s, leased", s.b.Service)
	}
	assert.Empty(f, f.pendingOf(100, f.u(0.5)), "none named")
	f.checked(f.u(99.5), named["pending"], named["valid"])
	all := f.pendingOf(100, f.u(0.5), "valid", "live", "none", "pending", "pending", "queued", "committed")
	assert.ElementsMatch(f, []batch.ID{named["pending"], named["valid"]}, inFlightIDs(all))
	f.written(f.monitored(named["pending"], store.IsCommitted)) // the version is as it was
	f.pass(2)
	assert.Equal(f, []batch.ID{"live"}, inFlightIDs(f.pendingOf(9, f.u(2.5), "live")), "its claim has expired")
	assert.NotContains(f, inFlightIDs(f.pending(100, f.u(0.5))), batch.ID("live"), "leased")
	assert.Equal(f, []batch.ID{"live"}, inFlightIDs(f.pendingOf(9, f.u(0.5), "live")), "leased or not")
	f.pass(1)
	assert.Contains(f, inFlightIDs(f.pending(100, f.u(0.5))), batch.ID("live"))
}

func pendingServicesOrder(f *fixture) {
	f.add(many("s", "b", 3)...)
	f.tick()
	f.add(many("t", "t", 2)...)
	f.tick()
	f.add(many("u", "u", 1)...)
	is := []batch.ID{"b00003", "b00002", "b00001", "t00002", "t00001", "u00001"}
	f.take(is...)
	f.each(f.submitted, store.Accepted, is...)
	assert.Equal(f, is[:2], inFlightIDs(f.pendingOf(2, f.u(9.5), "t", "s")))
	assert.Equal(f, append([]batch.ID{is[2]}, is[3:5]...), inFlightIDs(f.pendingOf(3, f.u(9.5), "t", "s")))
	assert.Equal(f, is[:4], inFlightIDs(f.pendingOf(4, f.u(9.5), "s", "t")), "least recently asked first")
	f.add(bt("v", "live"), bt("v", "retried"), bt("v", "pending"))
	f.take("live", "retried", "pending")
	f.each(f.submitted, store.Accepted, "pending")
	f.each(f.submitted, store.Failed, "retried")
	assert.Equal(f, []batch.ID{"pending"}, inFlightIDs(f.pendingOf(1, f.u(9.5), "v")), "what is not the monitor's takes no place")
}

func pendingServicesNever(f *fixture) {
	f.add(bt("s", "a"), bt("\ufffd", "b"))
	f.take("a", "b")
	f.each(f.submitted, store.Accepted, "a", "b")
	got := f.pendingOf(9, f.u(0.5), "\xff", "\x00", "s", batch.ServiceID(strings.Repeat("s", 5000)), "{}", `"`)
	assert.Equal(f, []batch.ID{"a"}, inFlightIDs(got))
}
