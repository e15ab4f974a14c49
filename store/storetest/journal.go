package storetest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func journalTests() []test {
	return []test{
		{name: "a stream has one writer", run: testJournalLease},
		{name: "a lease that expired is another epoch, whoever takes it", run: testJournalEpoch},
		{name: "one of many gets the lease", run: testJournalRace},
		{name: "an entry of a lease that is over writes nothing", run: testJournalFenced},
		{name: "what was written is found, and the span it covers", run: testJournalFound},
		{name: "nothing is covered before the first entry", run: testJournalUncovered},
		{name: "the span grows forward only, and a restart begins it anew", run: testJournalSpan},
		{name: "the span outlives its writer", run: testJournalWriters},
		{name: "an id is written once", run: testJournalOnce},
		{name: "streams are apart, and names are bytes", run: testJournalApart},
		{name: "any number of ids", run: testJournalMany},
		{name: "all of an entry or nothing", run: testJournalWhole},
		{name: "bad input is named", run: testJournalBadInput},
		{name: "pruning shortens the span by what it takes", run: testJournalPrune},
		{name: "pruning goes up to its limit, oldest first", run: testJournalPruneLimit},
		{name: "a clock that steps back ends the span", run: testJournalClock, isInapplicable: hasNoClock},
		{name: "a lease from before a step back of the clock blocks nobody", run: testJournalLeaseAhead, isInapplicable: hasNoClock},
		{name: "it survives", run: testJournalReopen, isInapplicable: func(h Harness) bool { return h.Volatile }},
	}
}

// leaseStream takes or renews a lease, which must succeed.
func (f *fixture) leaseStream(stream, holder string, ttl float64) int64 {
	f.Helper()
	f.endWithout(store.CanKeepStreams)
	epoch, held := must2(f.store.LeaseStream(f.ctx, stream, holder, f.units(ttl)))(f)
	require.True(f, held, "the lease of %s for %s", stream, holder)
	require.Positive(f, epoch)
	return epoch
}

func (f *fixture) requireNotHeld(stream, holder string) {
	f.Helper()
	epoch, held := must2(f.store.LeaseStream(f.ctx, stream, holder, f.units(90.5)))(f)
	require.False(f, held)
	require.Zero(f, epoch)
}

func (f *fixture) appendEntry(e batch.StreamEntry) {
	f.Helper()
	require.True(f, must(f.store.AppendStream(f.ctx, e))(f))
}

func (f *fixture) findStream(stream string, ids ...string) batch.StreamFound {
	f.Helper()
	found := must(f.store.FindStream(f.ctx, stream, ids))(f)
	return found
}

// requireSpan checks the covered span, in units.
func (f *fixture) requireSpan(found batch.StreamFound, since, until float64) {
	f.Helper()
	require.True(f, found.Covered)
	assert.InDelta(f, since, float64(found.Since)/float64(f.timeUnit), 0.15, "since")
	assert.InDelta(f, until, float64(found.Until)/float64(f.timeUnit), 0.15, "until")
}

func testJournalLease(f *fixture) {
	epoch := f.leaseStream("events", "a", 2.5)
	f.requireNotHeld("events", "b")
	f.passUnits(2)
	f.requireNotHeld("events", "b")
	assert.Equal(f, epoch, f.leaseStream("events", "a", 2.5), "a renewal")
	f.passUnits(1)
	f.requireNotHeld("events", "b")
	f.leaseStream("others", "b", 1.5)
	f.passUnits(2)
	assert.Greater(f, f.leaseStream("events", "b", 1.5), epoch)
	f.requireNotHeld("events", "a")
}

func testJournalEpoch(f *fixture) {
	epoch := f.leaseStream("events", "a", 1.5)
	f.passUnits(2)
	next := f.leaseStream("events", "a", 1.5)
	assert.Greater(f, next, epoch)
	f.passUnits(2)
	assert.Greater(f, f.leaseStream("events", "b", 1.5), next)
}

func testJournalRace(f *fixture) {
	for round := range 4 {
		var wg sync.WaitGroup
		var mu sync.Mutex
		held := map[string]int64{}
		errs := make([]error, 8)
		for i := range errs {
			wg.Go(func() {
				holder := fmt.Sprint(i)
				epoch, ok, err := f.store.LeaseStream(f.ctx, "events", holder, f.units(1.5))
				if errs[i] = err; ok {
					mu.Lock()
					held[holder] = epoch
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		for _, err := range errs {
			require.NoError(f, err)
		}
		require.Len(f, held, 1)
		for _, epoch := range held {
			require.Equal(f, int64(round+1), epoch)
		}
		f.passUnits(2)
	}
}

func testJournalFenced(f *fixture) {
	none := func(stream string, epoch int64) {
		f.Helper()
		assert.False(f, must(f.store.AppendStream(f.ctx, batch.StreamEntry{Stream: stream, Epoch: epoch, IDs: []string{"a"}, Cursor: "x"}))(f))
		assert.Equal(f, batch.StreamFound{}, f.findStream(stream, "a"))
	}
	none("events", 0)
	none("events", 1)
	first := f.leaseStream("events", "me", 1.5)
	none("events", first+1)
	none("events", 0)
	f.passUnits(2)
	none("events", first)
	second := f.leaseStream("events", "other", 1.5)
	none("events", first)
	f.appendEntry(batch.StreamEntry{Stream: "events", Epoch: second, IDs: []string{"a"}})
	assert.Equal(f, []string{"a"}, f.findStream("events", "a").IDs)
}

func testJournalFound(f *fixture) {
	epoch := f.leaseStream("events", "me", 90.5)
	f.appendEntry(batch.StreamEntry{Stream: "events", Epoch: epoch, IDs: []string{"a", "b", "c"}, Cursor: "block 1"})
	f.passUnits(2)
	f.appendEntry(batch.StreamEntry{Stream: "events", Epoch: epoch, IDs: []string{"d"}, Cursor: "block 2", Age: f.units(1)})
	f.passUnits(3)
	found := f.findStream("events", "d", "none", "b", "d", "b")
	assert.ElementsMatch(f, []string{"d", "b"}, found.IDs)
	assert.Equal(f, "block 2", found.Cursor)
	f.requireSpan(found, 5, 4)
	found = f.findStream("events")
	assert.Empty(f, found.IDs)
	f.requireSpan(found, 5, 4)
	f.appendEntry(batch.StreamEntry{Stream: "events", Epoch: epoch})
	found = f.findStream("events", "none", "", "\x00", "\xff", strings.Repeat("x", 5000))
	assert.Empty(f, found.IDs, "what cannot be in a log is not")
	assert.Empty(f, found.Cursor, "the last entry's, whatever it is")
	f.requireSpan(found, 5, 0)
}

func testJournalUncovered(f *fixture) {
	assert.Equal(f, batch.StreamFound{}, f.findStream("events", "a"))
	epoch := f.leaseStream("events", "me", 90.5)
	assert.Equal(f, batch.StreamFound{}, f.findStream("events", "a"))
	f.appendEntry(batch.StreamEntry{Stream: "events", Epoch: epoch, Age: f.units(3)}) // the first entry of a stream begins the span, as one with Restart does
	f.requireSpan(f.findStream("events", "a"), 3, 3)
}

func testJournalSpan(f *fixture) {
	epoch := f.leaseStream("events", "me", 90.5)
	say := func(age float64, restart bool) batch.StreamFound {
		f.Helper()
		f.appendEntry(batch.StreamEntry{Stream: "events", Epoch: epoch, Age: f.units(age), Restart: restart, IDs: []string{"a"}})
		return f.findStream("events", "a")
	}
	f.requireSpan(say(1, false), 1, 1)
	f.passUnits(4)
	f.requireSpan(say(2, false), 5, 2)
	f.requireSpan(say(4, false), 5, 2) // an earlier entry has covered more
	f.requireSpan(say(9, false), 5, 2)
	f.requireSpan(say(1, false), 5, 1)
	f.passUnits(2)
	f.requireSpan(say(1, true), 1, 1)
	f.passUnits(1)
	found := say(0, false)
	f.requireSpan(found, 2, 0)
	assert.Equal(f, []string{"a"}, found.IDs, "from before the restart, and committed all the same")
	epochAgo := func() float64 { return float64(f.now().Sub(time.UnixMicro(0))) / float64(f.timeUnit) }
	found = say(epochAgo()+1000, true) // times before 1970 are not kept
	f.requireSpan(found, epochAgo(), epochAgo())
}

func testJournalWriters(f *fixture) {
	epoch := f.leaseStream("events", "a", 1.5)
	f.appendEntry(batch.StreamEntry{Stream: "events", Epoch: epoch, Cursor: "1"})
	f.passUnits(5)
	epoch = f.leaseStream("events", "b", 1.5)
	found := f.findStream("events")
	f.requireSpan(found, 5, 5)
	assert.Equal(f, "1", found.Cursor, "where to go on")
	f.appendEntry(batch.StreamEntry{Stream: "events", Epoch: epoch, Cursor: "2"})
	f.requireSpan(f.findStream("events"), 5, 0)
}

func testJournalOnce(f *fixture) {
	epoch := f.leaseStream("events", "a", 90.5)
	for range 3 {
		f.appendEntry(batch.StreamEntry{Stream: "events", Epoch: epoch, IDs: []string{"a", "b", "a"}})
	}
	assert.ElementsMatch(f, []string{"a", "b"}, f.findStream("events", "b", "a").IDs)
}

func testJournalApart(f *fixture) {
	names := []string{"s", "S", "s ", " s", "ä", "a\u0308", "'; drop table streams; --", "%", "_", `{"s"}`, strings.Repeat("é", batch.MaxIDLen/2)}
	for i, name := range names {
		f.appendEntry(batch.StreamEntry{
			Stream: name, Epoch: f.leaseStream(name, "me", 1.5), IDs: []string{fmt.Sprint("id", i), name}, Cursor: name, Age: f.units(float64(i)),
		})
	}
	all := append([]string{}, names...)
	for i := range names {
		all = append(all, fmt.Sprint("id", i))
	}
	for i, name := range names {
		found := f.findStream(name, all...)
		assert.ElementsMatch(f, []string{fmt.Sprint("id", i), name}, found.IDs)
		assert.Equal(f, name, found.Cursor)
		f.requireSpan(found, float64(i), float64(i))
	}
}

func testJournalMany(f *fixture) {
	var in, ask []string
	for i := range 1201 {
		in = append(in, fmt.Sprintf("in%04d", i))
		ask = append(ask, fmt.Sprintf("in%04d", i), fmt.Sprintf("out%04d", i))
	}
	f.appendEntry(batch.StreamEntry{Stream: "events", Epoch: f.leaseStream("events", "me", 1.5), IDs: in, Age: f.units(2)})
	found := f.findStream("events", ask...)
	assert.ElementsMatch(f, in, found.IDs)
	f.requireSpan(found, 2, 2)
}

func testJournalWhole(f *fixture) {
	epoch := f.leaseStream("events", "me", 1.5)
	_, err := f.store.AppendStream(f.ctx, batch.StreamEntry{Stream: "events", Epoch: epoch, IDs: []string{"a", "b\x00"}, Cursor: "1"})
	require.ErrorIs(f, err, batch.ErrInvalidInput)
	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	_, err = f.store.AppendStream(ctx, batch.StreamEntry{Stream: "events", Epoch: epoch, IDs: []string{"a"}, Cursor: "1"})
	require.ErrorIs(f, err, context.Canceled)
	assert.Equal(f, batch.StreamFound{}, f.findStream("events", "a"))
}

func testJournalBadInput(f *fixture) {
	named := func(field string, err error) {
		f.Helper()
		var inputErr *batch.InputError
		require.ErrorAs(f, err, &inputErr, field)
		require.ErrorIs(f, err, batch.ErrInvalidInput)
		assert.Equal(f, field, inputErr.Field)
	}
	epoch := f.leaseStream("events", "me", 1.5)
	for _, bad := range []string{"", strings.Repeat("x", batch.MaxIDLen+1), "a\x00", "\xff", "a\nb"} {
		_, _, err := f.store.LeaseStream(f.ctx, bad, "me", f.units(1))
		named("Stream", err)
		_, _, err = f.store.LeaseStream(f.ctx, "events", bad, f.units(1))
		named("Holder", err)
		_, err = f.store.AppendStream(f.ctx, batch.StreamEntry{Stream: bad, Epoch: epoch})
		named("Stream", err)
		_, err = f.store.AppendStream(f.ctx, batch.StreamEntry{Stream: "events", Epoch: epoch, IDs: []string{"good", bad}})
		named("IDs", err)
		_, err = f.store.FindStream(f.ctx, bad, nil)
		named("Stream", err)
		if bad != "" {
			_, err = f.store.AppendStream(f.ctx, batch.StreamEntry{Stream: "events", Epoch: epoch, Cursor: bad})
			named("Cursor", err)
		}
	}
	for _, ttl := range []time.Duration{0, -1} {
		_, _, err := f.store.LeaseStream(f.ctx, "events", "me", ttl)
		named("TTL", err)
	}
	_, err := f.store.AppendStream(f.ctx, batch.StreamEntry{Stream: "events", Epoch: epoch, Age: -1})
	named("Age", err)
	assert.Equal(f, batch.StreamFound{}, f.findStream("events", "good"))
}

func testJournalPrune(f *fixture) {
	epoch, other := f.leaseStream("events", "me", 90.5), f.leaseStream("others", "me", 90.5)
	f.appendEntry(batch.StreamEntry{Stream: "others", Epoch: other, Age: f.units(1)})
	f.appendEntry(batch.StreamEntry{Stream: "events", Epoch: epoch, IDs: []string{"old", "old too"}, Age: f.units(3)})
	f.passUnits(5)
	f.appendEntry(batch.StreamEntry{Stream: "events", Epoch: epoch, IDs: []string{"new", "old"}, Cursor: "c"})
	f.appendEntry(batch.StreamEntry{Stream: "others", Epoch: other, IDs: []string{"new"}})
	p := must(f.store.Prune(f.ctx, store.PruneQuery{OlderThan: f.units(6)}))(f)
	assert.Zero(f, p)
	f.requireSpan(f.findStream("events", "old"), 8, 0)
	p = must(f.store.Prune(f.ctx, store.PruneQuery{OlderThan: f.units(2)}))(f)
	assert.Equal(f, store.Pruned{StreamIDs: 2}, p)
	found := f.findStream("events", "old", "old too", "new")
	assert.Equal(f, []string{"new"}, found.IDs)
	assert.Equal(f, "c", found.Cursor)
	f.requireSpan(found, 2, 0)
	found = f.findStream("others", "new")
	assert.Equal(f, []string{"new"}, found.IDs)
	f.requireSpan(found, 6, 0) // nothing was removed from this span
	f.passUnits(3)
	must(f.store.Prune(f.ctx, store.PruneQuery{OlderThan: f.units(1)}))(f)
	assert.False(f, f.findStream("events", "new").Covered, "nothing is left of the span")
	f.appendEntry(batch.StreamEntry{Stream: "events", Epoch: epoch})
	f.requireSpan(f.findStream("events", "new"), 1, 0) // from the time up to which Prune has removed, and without a gap
}

func testJournalPruneLimit(f *fixture) {
	epoch := f.leaseStream("events", "me", 90.5)
	var all []string
	for i := range 3 {
		var some []string
		for j := range 400 {
			some = append(some, fmt.Sprintf("%d/%03d", i, j))
		}
		f.appendEntry(batch.StreamEntry{Stream: "events", Epoch: epoch, IDs: some})
		all = append(all, some...)
		f.passUnits(1)
	}
	removed := 0
	left := func(q store.PruneQuery) []string {
		p := must(f.store.Prune(f.ctx, q))(f)
		removed += p.StreamIDs
		ids := f.findStream("events", all...).IDs
		require.Equal(f, len(all)-len(ids), removed)
		require.Equal(f, q.Limit < 2000, p.More(q))
		return ids
	}
	assert.Len(f, left(store.PruneQuery{Limit: 7}), 1193)
	assert.Len(f, f.findStream("events", all[400:]...).IDs, 800, "oldest first")
	assert.Len(f, left(store.PruneQuery{}), 693, "the default is 500")
	assert.ElementsMatch(f, all[800:], left(store.PruneQuery{Limit: 2000, OlderThan: f.units(1.5)}))
	assert.Empty(f, left(store.PruneQuery{Limit: 2000}))
}

func testJournalClock(f *fixture) {
	epoch := f.leaseStream("events", "me", 90.5)
	f.appendEntry(batch.StreamEntry{Stream: "events", Epoch: epoch, IDs: []string{"a"}, Cursor: "1"})
	f.passUnits(-5)
	found := f.findStream("events", "a")
	assert.False(f, found.Covered, "the entries until a time that is still to come are not all there yet")
	assert.Equal(f, []string{"a"}, found.IDs, "it was committed all the same")
	assert.Equal(f, "1", found.Cursor)
	f.appendEntry(batch.StreamEntry{Stream: "events", Epoch: epoch})
	f.passUnits(1)
	f.requireSpan(f.findStream("events", "a"), 1, 1)
	f.passUnits(9)
	f.appendEntry(batch.StreamEntry{Stream: "events", Epoch: epoch})
	f.requireSpan(f.findStream("events", "a"), 10, 0)
}

func testJournalLeaseAhead(f *fixture) {
	first := f.leaseStream("events", "dead", 2.5)
	f.appendEntry(batch.StreamEntry{Stream: "events", Epoch: first, IDs: []string{"a"}, Cursor: "1"})
	f.passUnits(-50)
	second := f.leaseStream("events", "alive", 2.5)
	assert.Greater(f, second, first)
	held := must(f.store.AppendStream(f.ctx, batch.StreamEntry{Stream: "events", Epoch: first, IDs: []string{"b"}}))(f)
	assert.False(f, held, "its lease was given to another holder")
	f.requireNotHeld("events", "dead")
	f.appendEntry(batch.StreamEntry{Stream: "events", Epoch: second, IDs: []string{"c"}})
	assert.ElementsMatch(f, []string{"a", "c"}, f.findStream("events", "a", "b", "c").IDs)
}

func testJournalReopen(f *fixture) {
	epoch := f.leaseStream("events", "me", 4.5)
	f.appendEntry(batch.StreamEntry{Stream: "events", Epoch: epoch, IDs: []string{"a"}, Cursor: "1", Age: f.units(2)})
	f.reopen()
	f.requireNotHeld("events", "another")
	found := f.findStream("events", "a", "b")
	assert.Equal(f, []string{"a"}, found.IDs)
	assert.Equal(f, "1", found.Cursor)
	f.requireSpan(found, 2, 2)
	f.appendEntry(batch.StreamEntry{Stream: "events", Epoch: epoch, IDs: []string{"b"}})
	f.requireSpan(f.findStream("events", "b"), 2, 0)
}
