package storetest

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func statsTests() []test {
	return []test{
		{name: "every standing counts", run: testStatsStandings},
		{name: "what is final counts no more", run: testStatsFinal},
		{name: "the lanes with the oldest batches", run: testStatsOldest},
		{name: "lanes that are held", run: testStatsControls, needs: store.CanControl},
	}
}

// countOpen calls CountOpen, and compares the result with the model.
func (f *fixture) countOpen() store.Totals {
	f.Helper()
	f.tick()
	now := f.now()
	got := must(f.store.CountOpen(f.ctx))(f)
	want := store.Totals{Open: map[batch.State]int{}, Orders: map[string]int{}}
	lanes := map[batch.ServiceID]*store.LaneAge{}
	for _, s := range f.modelBatches(func(s *modelBatch) bool { return true }) {
		if s.row.Quarantined {
			want.Quarantined++
		}
		if s.row.Final() {
			continue
		}
		want.Open[s.row.State]++
		if s.row.InDoubt(now) {
			want.InDoubt++
			rec := must(f.store.Get(f.ctx, s.batch.Key()))(f)
			if since := rec.DoubtSince; want.OldestDoubt.IsZero() || since.Before(want.OldestDoubt) {
				want.OldestDoubt = since
			}
		}
		if s.row.Decision != "" {
			want.Undecided++
		}
		l := lanes[s.batch.Service]
		if l == nil {
			l = &store.LaneAge{Service: s.batch.Service, Oldest: s.created}
			lanes[s.batch.Service] = l
		}
		l.Open++
	}
	want.Lanes = len(lanes)
	for _, l := range lanes {
		want.OldestLanes = append(want.OldestLanes, *l)
	}
	slices.SortFunc(want.OldestLanes, func(a, b store.LaneAge) int {
		return cmp.Or(a.Oldest.Compare(b.Oldest), cmp.Compare(a.Service, b.Service))
	})
	want.OldestLanes = want.OldestLanes[:min(len(want.OldestLanes), store.OldestLanes)]
	if len(want.OldestLanes) > 0 {
		want.Oldest = want.OldestLanes[0].Oldest
	}
	for _, c := range f.controls {
		switch {
		case c.All:
			want.AllPaused = !c.PausedAt.IsZero()
			continue
		case !c.PausedAt.IsZero():
			want.Paused++
		}
		if !c.HaltedAt.IsZero() {
			want.Halted++
		}
	}
	require.True(f, f.isNear(now, got.At), "%s, want nearly %s", got.At, now)
	if len(got.OldestLanes) == 0 {
		got.OldestLanes = nil
	}
	read := got
	read.At, read.Schema, read.Sizes = want.At, want.Schema, want.Sizes
	require.Equal(f, want, read)
	return got
}

func testStatsStandings(f *fixture) {
	f.countOpen()
	named := f.makeOneOfEach()
	f.add(newBatches("s", "b", 9)...)
	f.passUnits(1) // the claims of makeOneOfEach expire in the middle of a unit
	got := f.countOpen()
	assert.Positive(f, got.InDoubt)
	assert.Positive(f, got.Undecided)
	assert.Less(f, got.Lanes, len(named)+1)
	f.passUnits(2)
	assert.Greater(f, f.countOpen().InDoubt, got.InDoubt, "a claim that has ended leaves a doubt")
	for _, s := range got.Sizes {
		assert.NotEmpty(f, s.Name)
		assert.GreaterOrEqual(f, s.Bytes, int64(0))
		assert.GreaterOrEqual(f, s.Dead, int64(0))
	}
}

func testStatsFinal(f *fixture) {
	f.add(newBatch("s", "a"), newBatch("s", "b"), newBatch("t", "c"))
	assert.Equal(f, map[batch.State]int{batch.Queued: 3}, f.countOpen().Open)
	f.claimExactly("a")
	assert.Equal(f, map[batch.State]int{batch.Queued: 2, batch.Submitting: 1}, f.countOpen().Open)
	f.recordEach(f.submitterOutcome, store.Accepted, "a")
	f.recordEach(f.monitorOutcome, store.IsCommitted, "a")
	f.makeRefused("c")
	got := f.countOpen()
	assert.Equal(f, map[batch.State]int{batch.Queued: 1}, got.Open)
	assert.Equal(f, 1, got.Lanes)
	f.makeRefused("b")
	got = f.countOpen()
	assert.Zero(f, got.Lanes)
	assert.True(f, got.Oldest.IsZero())
}

func testStatsOldest(f *fixture) {
	for i := range store.OldestLanes + 3 {
		f.add(newBatches(batch.ServiceID(fmt.Sprintf("lane %02d", 50-i)), fmt.Sprint(i, "/"), i%3+1)...)
		f.tick()
	}
	got := f.countOpen()
	assert.Len(f, got.OldestLanes, store.OldestLanes)
	assert.Equal(f, batch.ServiceID("lane 50"), got.OldestLanes[0].Service)
	// An attempted batch keeps its place, whichever table it is in.
	f.claimExactly("0/00001")
	f.claimExactly("1/00002")
	f.recordEach(f.submitterOutcome, store.Doubtful, "1/00002")
	f.add(newBatch("lane 50", "new"))
	got = f.countOpen()
	assert.Equal(f, store.LaneAge{Service: "lane 50", Oldest: f.batches["0/00001"].created, Open: 2}, got.OldestLanes[0])
	f.recordEach(f.submitterOutcome, store.Accepted, "0/00001")
	f.recordEach(f.monitorOutcome, store.IsCommitted, "0/00001")
	assert.Equal(f, batch.ServiceID("lane 49"), f.countOpen().OldestLanes[0].Service)
}

func testStatsControls(f *fixture) {
	f.add(newBatch("s", "a"), newBatch("t", "b"))
	f.pause(batch.Only("s"))
	f.pause(batch.Only("none"))
	f.setPolicy("t", batch.PolicyQuarantine) // this policy holds nothing
	got := f.countOpen()
	assert.Equal(f, 2, got.Paused)
	assert.False(f, got.AllPaused)
	f.pause(batch.Everything())
	f.resume(batch.Only("none"))
	got = f.countOpen()
	assert.Equal(f, 1, got.Paused)
	assert.True(f, got.AllPaused)
	f.resume(batch.Everything())
	f.resume(batch.Only("s"))
	f.claimExactly("a")
	f.refuseClaimed("a", batch.PolicyHalt)
	f.claimExactly("b")
	f.refuseClaimed("b", batch.PolicyHalt) // the lane has another policy of its own
	got = f.countOpen()
	assert.Equal(f, 1, got.Halted)
	assert.Equal(f, 1, got.Quarantined)
	assert.Zero(f, got.Paused)
	f.release("s")
	assert.Zero(f, f.countOpen().Halted)
}
