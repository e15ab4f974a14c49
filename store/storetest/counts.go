package storetest

import (
	"fmt"
	"slices"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func countsTests() []test {
	return []test{
		{name: "what was attempted by state, and what waits", run: testCountsStates},
		{name: "lanes in byte order, page by page", run: testCountsPages},
		{name: "what waits is counted up to the cap", run: testCountsCap},
		{name: "one lane", run: testCountsLane},
		{name: "defaults and bounds", run: testCountsBounds},
	}
}

// counts calls Counts, and compares the result with the model.
func (f *fixture) counts(q store.CountsQuery) []store.LaneCounts {
	f.Helper()
	f.endWithout(store.CanCount)
	got := must(f.store.Counts(f.ctx, q))(f)
	bounded := q.Bounded()
	byLane := map[batch.ServiceID]*store.LaneCounts{}
	var order []batch.ServiceID
	for _, s := range f.batches {
		service := s.batch.Service
		selected := q.Start || service > q.After
		if q.Service != nil {
			selected = service == *q.Service
		}
		if !selected || s.row.Final() {
			continue
		}
		if byLane[service] == nil {
			byLane[service] = &store.LaneCounts{Service: service, Attempted: map[batch.State]int{}}
			order = append(order, service)
		}
		if c := byLane[service]; s.row.Attempted() {
			c.Attempted[s.row.State]++
		} else if c.Waiting < bounded.Cap {
			c.Waiting++
		}
	}
	slices.Sort(order)
	want := []store.LaneCounts{}
	for _, service := range order[:min(len(order), bounded.Limit)] {
		want = append(want, *byLane[service])
	}
	require.Equal(f, want, append([]store.LaneCounts{}, got...))
	return got
}

func testCountsStates(f *fixture) {
	assert.Empty(f, f.counts(store.CountsQuery{Start: true}))
	f.makeOneOfEach()
	f.counts(store.CountsQuery{Start: true})
	f.add(newBatches("s", "b", 9)...)
	f.claimExactly("b00009", "b00007", "b00005", "b00003", "b00001")
	f.recordEach(f.submitterOutcome, store.Accepted, "b00009", "b00003")
	f.recordEach(f.submitterOutcome, store.Failed, "b00005")
	f.recordEach(f.submitterOutcome, store.Unposted, "b00001") // queued again, and still an attempted batch
	s := batch.ServiceID("s")
	assert.Equal(f, []store.LaneCounts{{Service: "s", Waiting: 4, Attempted: map[batch.State]int{
		batch.Pending: 2, batch.Delayed: 1, batch.Submitting: 1, batch.Queued: 1,
	}}}, f.counts(store.CountsQuery{Service: &s}))
	f.recordEach(f.monitorOutcome, store.IsCommitted, "b00009", "b00003")
	require.NoError(f, f.cancel("b00008", ""))
	got := f.counts(store.CountsQuery{Service: &s})
	assert.Equal(f, 3, got[0].Waiting)
	assert.NotContains(f, got[0].Attempted, batch.Pending)
}

func testCountsPages(f *fixture) {
	var want []batch.ServiceID
	for i, s := range []batch.ServiceID{"b", "", "ä", "B", "ä", "a", "aa", "a ", "'"} {
		f.add(newBatches(s, fmt.Sprint(i, "/"), i+1)...)
		want = append(want, s)
	}
	slices.Sort(want)
	f.claimExactly("2/00001")
	for limit := 1; limit < 11; limit += 3 {
		var got []batch.ServiceID
		for q := (store.CountsQuery{Start: true, Limit: limit}); ; q.Start = false {
			page := f.counts(q)
			for _, c := range page {
				got = append(got, c.Service)
			}
			if len(page) < limit {
				break
			}
			q.After = got[len(got)-1]
		}
		assert.Equal(f, want, got)
	}
}

func testCountsCap(f *fixture) {
	f.add(newBatches("s", "b", 20)...)
	f.add(newBatches("t", "t", 5)...)
	f.claimExactly("b00020", "b00019", "b00018")
	for _, c := range []int{1, 5, 6, 16, 17, 18} {
		got := f.counts(store.CountsQuery{Start: true, Cap: c})
		assert.Equal(f, min(c, 17), got[0].Waiting)
		assert.Equal(f, 3, got[0].Attempted[batch.Submitting], "exactly, whatever the cap")
		assert.Equal(f, min(c, 5), got[1].Waiting)
	}
}

func testCountsLane(f *fixture) {
	f.add(newBatch("s", "a"), newBatch("", "b"), newBatch("\ufffd", "c"))
	f.makeCommitted(newBatch("final", "d"))
	for service, want := range map[batch.ServiceID]int{"s": 1, "": 1, "none": 0, "final": 0, "\xff": 0, "\x00": 0} {
		assert.Len(f, f.counts(store.CountsQuery{Service: &service, After: "z"}), want, "%q", service)
	}
}

func testCountsBounds(f *fixture) {
	f.add(newBatches("a lane", "b", 1100)...)
	var bs []batch.Batch
	for i := range 1001 {
		bs = append(bs, newBatch(batch.ServiceID(fmt.Sprintf("lane %04d", i)), batch.ID(fmt.Sprint(i))))
	}
	f.add(bs...)
	got := f.counts(store.CountsQuery{Start: true})
	assert.Len(f, got, 100)
	assert.Equal(f, 1000, got[0].Waiting)
	got = f.counts(store.CountsQuery{Start: true, Limit: 1_000_000, Cap: 1_000_000})
	assert.Len(f, got, 1000)
	assert.Equal(f, 1100, got[0].Waiting)
	assert.Equal(f, 100_000, store.CountsQuery{Cap: 1_000_000}.Bounded().Cap)
}
