package storetest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func statsTests() []test {
	return []test{
		{name: "every standing counts", run: statsStandings},
		{name: "what is final counts no more", run: statsFinal},
		{name: "the counts before", run: statsEarlier},
		{name: "the lanes with the oldest batches", run: statsOldest},
		{name: "lanes that are held", run: statsControls, needs: store.CanControl},
		{name: "nobody counts before the counts are old", run: statsAge},
		{name: "one of many counts", run: statsOne},
		{name: "a clock that steps back", run: statsBack, not: func(h Harness) bool { return h.NoClock }},
		{name: "an instance, from its start to its stop", run: statsInstance},
		{name: "instances of one name", run: statsShared},
		{name: "an instance that died is forgotten", run: statsForgotten},
		{name: "only so many instances are kept", run: statsMany},
		{name: "bad input", run: statsBad},
		{name: "counts and instances outlive the process", run: statsReopen, not: func(h Harness) bool { return h.Volatile }},
	}
}

// stats reads what is kept.
func (f *fixture) stats() store.Stats {
	f.Helper()
	f.needs(store.CanKeepStats)
	s := must(f.st.Stats(f.ctx))(f)
	return s
}

// refresh counts, once the rest after the count before is over.
func (f *fixture) refresh(forget time.Duration) {
	f.Helper()
	for range 1000 {
		did := must(f.st.RefreshStats(f.ctx, store.RefreshQuery{OlderThan: time.Microsecond, By: "me", Forget: forget}))(f)
		if did {
			return
		}
		f.pass(1)
	}
	require.Fail(f, "nobody counts")
}

// counted counts, and compares with the model.
func (f *fixture) counted() store.Stats {
	f.Helper()
	f.tick()
	f.refresh(0)
	now := f.now()
	got := f.stats()
	want := store.Totals{Open: map[batch.State]int{}, Orders: map[string]int{}}
	lanes := map[batch.ServiceID]*store.LaneAge{}
	for _, s := range f.inOrder(func(s *shadow) bool { return true }) {
		if s.row.Quarantined {
			want.Quarantined++
		}
		if s.row.Final() {
			continue
		}
		want.Open[s.row.State]++
		if s.row.InDoubt(now) {
			want.InDoubt++
			rec := must(f.st.Get(f.ctx, s.b.Key()))(f)
			if since := rec.DoubtSince; want.OldestDoubt.IsZero() || since.Before(want.OldestDoubt) {
				want.OldestDoubt = since
			}
		}
		if s.row.Decision != "" {
			want.Undecided++
		}
		l := lanes[s.b.Service]
		if l == nil {
			l = &store.LaneAge{Service: s.b.Service, Oldest: s.created}
			lanes[s.b.Service] = l
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
	require.True(f, f.near(now, got.At), "%s, want nearly %s", got.At, now)
	require.True(f, f.nearly(got.Age, 0), "%s", got.Age)
	require.Equal(f, "me", got.By)
	require.GreaterOrEqual(f, got.Took, time.Duration(0))
	if len(got.OldestLanes) == 0 {
		got.OldestLanes = nil
	}
	if n := len(got.Earlier); n > 0 {
		require.True(f, got.Earlier[n-1].At.Before(got.At))
	}
	read := got.Totals
	read.Earlier = nil
	read.At, read.Took, read.By, read.Schema, read.Sizes = want.At, want.Took, want.By, want.Schema, want.Sizes
	require.Equal(f, want, read)
	return got
}

// statsEarlier counts often: the counts before stay, so many of them.
func statsEarlier(f *fixture) {
	var want []store.OpenAt
	for n := range store.MaxFlows + 3 {
		f.add(bt("s", batch.ID(fmt.Sprintf("b%02d", n))))
		f.tick()
		f.refresh(0)
		got := f.stats()
		require.Equal(f, n+1, got.OpenAt().Open)
		require.Len(f, got.Earlier, min(n, store.MaxFlows))
		for i, o := range got.Earlier {
			was := want[len(want)-len(got.Earlier)+i]
			require.Equal(f, was.Open, o.Open)
			require.True(f, was.At.Equal(o.At), "%s, want %s", o.At, was.At)
		}
		want = append(want, got.OpenAt())
	}
}

func statsStandings(f *fixture) {
	empty := f.stats()
	assert.True(f, empty.At.IsZero())
	assert.Zero(f, empty.Age)
	f.counted()
	named := f.oneOfEach()
	f.add(many("s", "b", 9)...)
	f.pass(1) // claims of oneOfEach end in the middle of a unit
	got := f.counted()
	assert.Positive(f, got.InDoubt)
	assert.Positive(f, got.Undecided)
	assert.Less(f, got.Lanes, len(named)+1)
	f.pass(2)
	assert.Greater(f, f.counted().InDoubt, got.InDoubt, "a claim that has ended leaves a doubt")
	for _, s := range got.Sizes {
		assert.NotEmpty(f, s.Name)
		assert.GreaterOrEqual(f, s.Bytes, int64(0))
		assert.GreaterOrEqual(f, s.Dead, int64(0))
	}
}

func statsFinal(f *fixture) {
	f.add(bt("s", "a"), bt("s", "b"), bt("t", "c"))
	assert.Equal(f, map[batch.State]int{batch.Queued: 3}, f.counted().Open)
	f.take("a")
	assert.Equal(f, map[batch.State]int{batch.Queued: 2, batch.Submitting: 1}, f.counted().Open)
	f.each(f.submitted, store.Accepted, "a")
	f.each(f.monitored, store.IsCommitted, "a")
	f.refused("c")
	got := f.counted()
	assert.Equal(f, map[batch.State]int{batch.Queued: 1}, got.Open)
	assert.Equal(f, 1, got.Lanes)
	f.refused("b")
	got = f.counted()
	assert.Zero(f, got.Lanes)
	assert.True(f, got.Oldest.IsZero())
}

func statsOldest(f *fixture) {
	for i := range store.OldestLanes + 3 {
		f.add(many(batch.ServiceID(fmt.Sprintf("lane %02d", 50-i)), fmt.Sprint(i, "/"), i%3+1)...)
		f.tick()
	}
	got := f.counted()
	assert.Len(f, got.OldestLanes, store.OldestLanes)
	assert.Equal(f, batch.ServiceID("lane 50"), got.OldestLanes[0].Service)
	// An attempted batch keeps its place, wherever it is stored.
	f.take("0/00001")
	f.take("1/00002")
	f.each(f.submitted, store.Doubtful, "1/00002")
	f.add(bt("lane 50", "new"))
	got = f.counted()
	assert.Equal(f, store.LaneAge{Service: "lane 50", Oldest: f.rows["0/00001"].created, Open: 2}, got.OldestLanes[0])
	f.each(f.submitted, store.Accepted, "0/00001")
	f.each(f.monitored, store.IsCommitted, "0/00001")
	assert.Equal(f, batch.ServiceID("lane 49"), f.counted().OldestLanes[0].Service)
}

func statsControls(f *fixture) {
	f.add(bt("s", "a"), bt("t", "b"))
	f.pause(batch.Only("s"))
	f.pause(batch.Only("none"))
	f.setPolicy("t", batch.PolicyQuarantine) // holds nothing
	got := f.counted()
	assert.Equal(f, 2, got.Paused)
	assert.False(f, got.AllPaused)
	f.pause(batch.Everything())
	f.resume(batch.Only("none"))
	got = f.counted()
	assert.Equal(f, 1, got.Paused)
	assert.True(f, got.AllPaused)
	f.resume(batch.Everything())
	f.resume(batch.Only("s"))
	f.take("a")
	f.ends("a", batch.PolicyHalt)
	f.take("b")
	f.ends("b", batch.PolicyHalt) // the lane's own policy is another
	got = f.counted()
	assert.Equal(f, 1, got.Halted)
	assert.Equal(f, 1, got.Quarantined)
	assert.Zero(f, got.Paused)
	f.release("s")
	assert.Zero(f, f.counted().Halted)
}

func statsAge(f *fixture) {
	f.add(bt("s", "a"))
	f.counted()
	first := f.stats()
	f.add(bt("s", "b"))
	assert.False(f, must(f.st.RefreshStats(f.ctx, store.RefreshQuery{OlderThan: f.u(5.5), By: "other"}))(f))
	f.pass(2)
	got := f.stats()
	assert.Equal(f, first.Totals, got.Totals, "as they were")
	assert.True(f, f.nearly(got.Age, f.u(2)), "%s", got.Age)
	assert.Equal(f, 2, f.counted().Open[batch.Queued])
}

func statsOne(f *fixture) {
	f.add(bt("s", "a"))
	f.counted()
	var counted atomic.Int64
	for counted.Load() == 0 { // while the count before has earned a rest
		f.pass(3)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				did, err := f.st.RefreshStats(f.ctx, store.RefreshQuery{OlderThan: f.u(1.5)})
				assert.NoError(f, err)
				if did {
					counted.Add(1)
				}
			})
		}
		all.Wait()
	}
	assert.Equal(f, int64(1), counted.Load())
	assert.Equal(f, 1, f.stats().Open[batch.Queued])
}

func statsBack(f *fixture) {
	f.add(bt("s", "a"))
	require.NoError(f, f.st.KeepInstance(f.ctx, store.Instance{ID: "i", Name: "i"}))
	f.counted()
	f.pass(-3)
	got := f.stats()
	assert.Zero(f, got.Age)
	assert.True(f, f.nearly(f.u(3), got.Instances[0].Unseen), "%s", got.Instances[0].Unseen)
	assert.False(f, got.Instances[0].Live, "nobody has seen it since")
	did := must(f.st.RefreshStats(f.ctx, store.RefreshQuery{By: "me", Forget: f.u(0.5)}))(f)
	assert.True(f, did, "nobody waits until the clock is where it was")
	got = f.stats()
	assert.True(f, f.near(f.now(), got.At))
	assert.Len(f, got.Instances, 1)
	require.NoError(f, f.st.KeepInstance(f.ctx, store.Instance{ID: "i", Name: "i"}))
	assert.True(f, f.stats().Instances[0].Live)
	f.step(-5 * time.Minute) // less than the longest rest
	did = must(f.st.RefreshStats(f.ctx, store.RefreshQuery{By: "me"}))(f)
	assert.True(f, did, "nor for the rest after the count")
	assert.True(f, f.stats().At.Before(got.At))
}

// whom are the ids of the instances, in their order.
func (f *fixture) whom() (ids []string) {
	f.Helper()
	for _, i := range f.stats().Instances {
		ids = append(ids, i.ID)
	}
	return ids
}

func statsInstance(f *fixture) {
	i := store.Instance{
		ID: "id", Name: "näme", Host: "höst", Version: "v1.2.3", Ledger: "ledger", Claims: 7, Paused: true, PausedKind: batch.KindMisconfigured, PausedWhy: "401",
		Settings: map[string]string{"strategy": "queuer.Serial", "odd": "a'\"\\\n\x00\xff"}, Loops: map[string]time.Duration{"queuer": time.Second},
		Flows: []store.Flow{{Ago: time.Second, Took: 15 * time.Second, Final: 3, Queue: store.Times{N: 2, Sum: 3, Max: 2}}, {Took: 15 * time.Second}},
	}
	require.NoError(f, f.st.KeepInstance(f.ctx, i))
	began := f.now()
	f.pass(2)
	i.Claims, i.Paused, i.PausedKind = 0, false, ""
	require.NoError(f, f.st.KeepInstance(f.ctx, i))
	seen := f.now()
	i.Settings["strategy"], i.Flows[0].Final = "not kept", 7
	f.pass(1)
	all := f.stats().Instances
	require.Len(f, all, 1)
	got := all[0]
	assert.True(f, f.near(began, got.Since), "%s, want %s", got.Since, began)
	assert.True(f, f.near(seen, got.Seen), "%s, want %s", got.Seen, seen)
	assert.True(f, f.nearly(f.u(1), got.Unseen), "%s", got.Unseen)
	assert.Equal(f, f.unit < time.Minute, got.Live)
	assert.Equal(f, "queuer.Serial", got.Settings["strategy"])
	assert.True(f, strings.HasPrefix(got.Settings["odd"], "a'\"\\\n"), "%q", got.Settings["odd"])
	assert.Equal(f, 3, got.Flows[0].Final)
	want := i
	want.Flows = got.Flows
	want.Since, want.Seen, want.Unseen, want.Live, want.Settings, want.Schema = got.Since, got.Seen, got.Unseen, got.Live, got.Settings, got.Schema
	assert.Equal(f, want, got)

	require.NoError(f, f.st.KeepInstance(f.ctx, store.Instance{ID: "other", Name: "a"}))
	assert.Equal(f, []string{"other", "id"}, f.whom(), "by name")
	assert.True(f, f.stats().Instances[0].Live)
	for range 2 { // again is harmless
		require.NoError(f, f.st.KeepInstance(f.ctx, store.Instance{ID: "id", Stopped: true}))
		assert.Equal(f, []string{"other"}, f.whom())
	}
}

func statsShared(f *fixture) {
	keep := func(id, name string) {
		require.NoError(f, f.st.KeepInstance(f.ctx, store.Instance{ID: id, Name: name}))
		f.tick()
	}
	keep("1", "host")
	keep("2", "other")
	keep("1", "host")
	keep("3", "host") // a restart
	for _, i := range f.stats().Instances {
		assert.False(f, i.Shared, i.ID)
	}
	keep("1", "host") // it is there yet
	shared := map[string]bool{}
	for _, i := range f.stats().Instances {
		shared[i.ID] = i.Shared
	}
	assert.Equal(f, map[string]bool{"1": true, "2": false, "3": true}, shared)
}

func statsForgotten(f *fixture) {
	for _, id := range []string{"dead", "alive"} {
		require.NoError(f, f.st.KeepInstance(f.ctx, store.Instance{ID: id, Name: id}))
	}
	f.pass(3)
	require.NoError(f, f.st.KeepInstance(f.ctx, store.Instance{ID: "alive", Name: "alive"}))
	f.counted()
	assert.Equal(f, []string{"alive", "dead"}, f.whom(), "for ever, unless somebody says otherwise")
	f.pass(1)
	f.refresh(f.u(3.5))
	assert.Equal(f, []string{"alive"}, f.whom())
}

func statsMany(f *fixture) {
	const more = 3
	for i := range store.MaxInstances + more {
		require.NoError(f, f.st.KeepInstance(f.ctx, store.Instance{ID: fmt.Sprintf("%05d", i), Name: "n"}))
		if i < more {
			f.tick()
		}
	}
	f.refresh(0)
	ids := f.whom()
	assert.Len(f, ids, store.MaxInstances)
	slices.Sort(ids)
	assert.Equal(f, fmt.Sprintf("%05d", more), ids[0], "those that were seen last")
}

func statsBad(f *fixture) {
	long := strings.Repeat("x", 2000)
	for name, i := range map[string]store.Instance{
		"no id":          {Name: "n"},
		"an odd id":      {ID: "a\x00"},
		"a long name":    {ID: "i", Name: long},
		"an odd name":    {ID: "i", Name: "a\x00b"},
		"a long version": {ID: "i", Version: long},
		"a long host":    {ID: "i", Host: long},
		"a long setting": {ID: "i", Settings: map[string]string{"s": long}},
		"a long loop":    {ID: "i", Loops: map[string]time.Duration{long: 0}},
		"many settings":  {ID: "i", Settings: numbered(100)},
		"many flows":     {ID: "i", Flows: make([]store.Flow, store.MaxFlows+1)},
	} {
		assert.ErrorIs(f, f.st.KeepInstance(f.ctx, i), batch.ErrInvalidInput, name)
	}
	_, err := f.st.RefreshStats(f.ctx, store.RefreshQuery{By: long})
	require.ErrorIs(f, err, batch.ErrInvalidInput)
	got := f.stats()
	assert.Empty(f, got.Instances)
	assert.True(f, got.At.IsZero())
}

func numbered(n int) map[string]string {
	m := map[string]string{}
	for i := range n {
		m[fmt.Sprint(i)] = ""
	}
	return m
}

func statsReopen(f *fixture) {
	f.add(bt("s", "a"), bt("t", "b"))
	require.NoError(f, f.st.KeepInstance(f.ctx, store.Instance{ID: "i", Name: "n", Ledger: "l"}))
	before := f.counted()
	f.reopen()
	after := f.stats()
	assert.Equal(f, before.Totals, after.Totals)
	require.Len(f, after.Instances, 1)
	assert.Equal(f, "l", after.Instances[0].Ledger)
}
