package store_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func newLaneRow(id batch.ID, r store.Row) store.LaneRow {
	return store.LaneRow{
		Ref: store.Ref{Key: batch.Key{Service: "s", ID: id}, Row: int64(id[0])}, Row: r, Budget: batch.Budget{Attempts: 5},
		Footprint: batch.Footprint{Writes: []string{string(id)}},
	}
}

func chooseRuns(runs ...batch.Run) store.Choose { return func(batch.Lane) []batch.Run { return runs } }

func laneQuery(rule store.Resend) store.ClaimQuery {
	return store.ClaimQuery{TTL: ttl, Window: 9, Resend: func(batch.ServiceID) store.Resend { return rule }}
}

func plannedIDs(p store.Plan) (ids []string) {
	for _, run := range p.Runs {
		s := ""
		for _, c := range run.Batches {
			s += string(c.Key.ID)
		}
		ids = append(ids, s)
	}
	return ids
}

func TestPlanLaneShowsTheLane(t *testing.T) {
	rows := rowsByStanding(t)
	in := []store.LaneRow{newLaneRow("a", rows["pending"]), newLaneRow("b", rows["delayed"]), newLaneRow("c", rows["queued"])}
	asked := 0
	p := store.PlanLane("s", in, testStart.Add(time.Second), laneQuery(hourResend), 9, func(l batch.Lane) []batch.Run {
		asked++
		assert.Equal(t, batch.Lane{Service: "s", Batches: []batch.LaneBatch{
			{ID: "a", State: batch.Pending, Attempt: 1, Footprint: batch.Footprint{Writes: []string{"a"}}},
			{ID: "b", State: batch.Delayed, Attempt: 1, Failed: true, Footprint: batch.Footprint{Writes: []string{"b"}}},
			{ID: "c", State: batch.Queued, Ready: true, Footprint: batch.Footprint{Writes: []string{"c"}}},
		}}, l)
		return nil
	})
	assert.Equal(t, 1, asked)
	assert.Equal(t, store.Plan{NextReady: 59 * time.Second}, p)
}

// TestPlanLaneShowsWhichFailed: a batch whose last attempt failed must not follow accepted
// batches, unless the error shows that the ledger is up and cannot take the batch now.
func TestPlanLaneShowsWhichFailed(t *testing.T) {
	delayed := rowsByStanding(t)["delayed"]
	for kind, want := range map[batch.ErrorKind]bool{
		"": true, batch.KindUnavailable: true, batch.KindMisconfigured: true, "new": true,
		batch.KindBusy: false, batch.KindNotYet: false, batch.KindFailed: false,
	} {
		delayed.Error = nil
		if kind != "" {
			delayed.Error = &batch.SubmissionError{Kind: kind}
		}
		store.PlanLane("s", []store.LaneRow{newLaneRow("a", delayed)}, testStart, laneQuery(hourResend), 9, func(l batch.Lane) []batch.Run {
			assert.Equal(t, want, l.Batches[0].Failed, "%q", kind)
			return nil
		})
	}
}

func TestPlanLaneClaims(t *testing.T) {
	rows := rowsByStanding(t)
	in := []store.LaneRow{newLaneRow("a", rows["unknown"]), newLaneRow("b", rows["queued"]), newLaneRow("c", rows["queued"])}
	in[0].Row.Spent, in[0].Row.Failures = 2, 3
	p := store.PlanLane("s", in, testStart, laneQuery(hourResend), 9, chooseRuns(batch.Run{0, 1}, batch.Run{}, batch.Run{2}))
	assert.Equal(t, []string{"ab", "c"}, plannedIDs(p))
	assert.Equal(t, 3, p.Claims)
	assert.False(t, p.More)
	assert.Equal(t, store.Claim{
		Ref: in[0].Ref, Version: rows["unknown"].Version + 1, From: batch.Unknown, Attempt: 2, Spent: 2, Failures: 3,
		Budget: batch.Budget{Attempts: 5}, Doubt: true, Again: true, Was: &in[0].Row,
	}, p.Runs[0].Batches[0])
	assert.Equal(t, store.Claim{
		Ref: in[1].Ref, Version: 2, From: batch.Queued, Attempt: 1, Budget: batch.Budget{Attempts: 5}, Was: &in[1].Row,
	}, p.Runs[0].Batches[1])
	require.Len(t, p.Changed, 3)
	assert.Equal(t, store.NewRow().Claim(testStart, ttl, hourResend), p.Changed[1].Row)
}

// Again is set for a batch that was posted and may have been taken. It is not set for a batch that
// was never posted, or that a person has requeued since.
func TestPlanLaneSaysWhatIsSentAgain(t *testing.T) {
	row := store.Row{State: batch.Delayed, Version: 3, Attempt: 1}
	sent, requeued := row, row
	sent.LastPost = testStart.Add(-time.Minute)
	requeued.LastPost, requeued.Requeued = sent.LastPost, true
	p := store.PlanLane("s", []store.LaneRow{newLaneRow("a", row), newLaneRow("b", sent), newLaneRow("c", requeued)}, testStart, laneQuery(hourResend), 9, chooseRuns(batch.Run{0, 1, 2}))
	var sentAgain []bool
	for _, c := range p.Runs[0].Batches {
		sentAgain = append(sentAgain, c.Again)
	}
	assert.Equal(t, []bool{false, true, false}, sentAgain)
}

func TestPlanLaneLimit(t *testing.T) {
	q := store.NewRow()
	for _, c := range []struct {
		limit   int
		runs    []batch.Run
		want    []string
		hasMore bool
	}{
		{4, []batch.Run{{0, 1, 2, 3}}, []string{"abcd"}, false},
		{3, []batch.Run{{0, 1, 2, 3}}, []string{"abc"}, true},
		{3, []batch.Run{{0, 1, 2}}, []string{"abc"}, false},
		{2, []batch.Run{{0}, {1}, {2}, {3}}, []string{"a", "b"}, true},
		{1, []batch.Run{{0, 1}, {2, 3}}, []string{"a"}, true},
		{1, nil, nil, false},
	} {
		in := []store.LaneRow{newLaneRow("a", q), newLaneRow("b", q), newLaneRow("c", q), newLaneRow("d", q)}
		p := store.PlanLane("s", in, testStart, laneQuery(hourResend), c.limit, chooseRuns(c.runs...))
		assert.Equal(t, c.want, plannedIDs(p), "%+v", c)
		assert.Equal(t, c.hasMore, p.More, "%+v", c)
		assert.Len(t, p.Changed, p.Claims)
	}
}

// Claimed.Add goes on until Limit or Bytes is used up. It names the lanes that a bound cut short
// in Left, and keeps the shortest NextReady.
func TestClaimedAdd(t *testing.T) {
	run := store.ClaimedRun{Service: "a"}
	for name, c := range map[string]struct {
		bytes     int
		plan      store.Plan
		limitLeft int
	}{
		"no bound of bytes": {0, store.Plan{Claims: 2, Bytes: 9}, 3},
		"bytes are left":    {10, store.Plan{Claims: 2, Bytes: 9}, 3},
		"the last byte":     {9, store.Plan{Claims: 2, Bytes: 9}, 0},
		"more than bytes":   {1, store.Plan{Claims: 2, Bytes: 9}, 0},
		"the last batch":    {0, store.Plan{Claims: 5}, 0},
	} {
		var claimed store.Claimed
		q := store.ClaimQuery{Bytes: c.bytes}
		assert.Equal(t, c.limitLeft, claimed.Add("a", c.plan, &q, 5), name)
		assert.Empty(t, claimed, name)
	}
	q := store.ClaimQuery{Bytes: 10}
	var claimed store.Claimed
	claimed.Add("a", store.Plan{Runs: []store.ClaimedRun{run}, Bytes: 4, More: true}, &q, 9)
	claimed.Add("b", store.Plan{NextReady: 2 * time.Second}, &q, 9)
	claimed.Add("c", store.Plan{NextReady: time.Second}, &q, 9)
	claimed.Add("d", store.Plan{NextReady: 3 * time.Second, More: true}, &q, 9)
	assert.Equal(t, store.Claimed{Runs: []store.ClaimedRun{run}, Left: []batch.ServiceID{"a", "d"}, NextReady: time.Second}, claimed)
	assert.Equal(t, 6, q.Bytes)
}

// MaxInFlight bounds the batches of a lane that are under way. A lane at this bound does not set
// More, since it goes on only when one of its batches is final.
func TestPlanLaneInFlight(t *testing.T) {
	states := []batch.State{batch.Submitting, batch.Pending, batch.Valid, batch.Invalid, batch.Delayed, batch.Unknown}
	in := make([]store.LaneRow, 0, 10)
	for _, s := range states { // four of these are under way
		r := store.NewRow()
		r.State, r.Attempt = s, 1
		in = append(in, newLaneRow(batch.ID(s.String()), r))
	}
	for _, id := range []string{"a", "b", "c", "d"} {
		in = append(in, newLaneRow(batch.ID(id), store.NewRow()))
	}
	for i := range in {
		in[i].Created = testStart.Add(time.Duration(i))
	}
	for _, c := range []struct {
		maxInFlight, limit int
		want               []string
		hasMore            bool
	}{
		{3, 9, nil, false},
		{4, 9, nil, false},
		{5, 9, []string{"a"}, false},
		{7, 9, []string{"a", "bc"}, false},
		{6, 2, []string{"a", "b"}, false}, // both bounds are reached, and MaxInFlight makes more false
		{7, 2, []string{"a", "b"}, true},
		{8, 9, []string{"a", "bcd"}, false},
		{0, 9, []string{"a", "bcd"}, false},
		{-1, 9, []string{"a", "bcd"}, false},
	} {
		q := laneQuery(hourResend)
		q.MaxInFlight = func(s batch.ServiceID) int {
			assert.Equal(t, batch.ServiceID("s"), s)
			return c.maxInFlight
		}
		p := store.PlanLane("s", slices.Clone(in), testStart, q, c.limit, chooseRuns(batch.Run{6}, batch.Run{7, 8, 9}))
		assert.Equal(t, c.want, plannedIDs(p), "%+v", c)
		assert.Equal(t, c.hasMore, p.More, "%+v", c)
		assert.Len(t, p.Changed, p.Claims)
	}
}

// A batch that is not ready is not claimed, whatever the strategy picks, and neither are the
// batches after it in its run.
func TestPlanLaneBadAnswers(t *testing.T) {
	for name, r := range rowsByStanding(t) {
		if r.IsReady(testStart.Add(time.Second)) {
			continue
		}
		in := []store.LaneRow{newLaneRow("a", r), newLaneRow("b", store.NewRow())}
		p := store.PlanLane("s", in, testStart.Add(time.Second), laneQuery(hourResend), 9, chooseRuns(batch.Run{0, 1}))
		assert.Empty(t, p.Runs, name)
		assert.Empty(t, p.Changed, name)
	}
	q := store.NewRow()
	for _, c := range []struct {
		runs []batch.Run
		want []string
	}{
		{[]batch.Run{{-1, 0}}, nil},
		{[]batch.Run{{3, 0}}, nil},
		{[]batch.Run{{0, 0, 1}}, []string{"a"}},
		{[]batch.Run{{0}, {0, 1}}, []string{"a"}},
		{[]batch.Run{{0}, {0, 1}, {2}}, []string{"a", "c"}},
	} {
		in := []store.LaneRow{newLaneRow("a", q), newLaneRow("b", q), newLaneRow("c", q)}
		assert.Equal(t, c.want, plannedIDs(store.PlanLane("s", in, testStart, laneQuery(hourResend), 9, chooseRuns(c.runs...))), "%v", c.runs)
	}
}

// A claim returns a batch that may no longer be sent again to the monitor.
func TestPlanLaneReturns(t *testing.T) {
	r := rowsByStanding(t)["unknown"]
	last := r.ResendUntil.Add(-ttl - hourResend.LateArrival)
	for _, late := range []bool{false, true} {
		now := last
		if late {
			now = now.Add(1)
		}
		in := []store.LaneRow{newLaneRow("a", r), newLaneRow("b", store.NewRow())}
		var ready bool
		p := store.PlanLane("s", in, now, laneQuery(hourResend), 9, func(l batch.Lane) []batch.Run {
			ready = l.Batches[0].Ready
			return []batch.Run{{0}}
		})
		assert.Equal(t, !late, ready)
		require.Len(t, p.Changed, 1)
		if late {
			assert.Empty(t, p.Runs)
			assert.Equal(t, r.BackToMonitor(now), p.Changed[0].Row)
		} else {
			assert.Equal(t, []string{"a"}, plannedIDs(p))
		}
	}
	delayed := rowsByStanding(t)["delayed again"] // not ready: its NotBefore is in the future
	p := store.PlanLane("s", []store.LaneRow{newLaneRow("a", delayed)}, testStart, laneQuery(store.Resend{}), 9, chooseRuns())
	assert.Empty(t, p.Changed)
	q := laneQuery(hourResend)
	q.Resend = nil
	in := []store.LaneRow{newLaneRow("a", store.NewRow())}
	p = store.PlanLane("s", in, testStart, q, 9, chooseRuns(batch.Run{0}))
	require.Len(t, p.Changed, 1, "the first attempt needs no rule")
	assert.Equal(t, testStart, p.Changed[0].Row.ResendUntil, "and nothing after it is harmless")
}

func TestPlanLaneNextReady(t *testing.T) {
	rows := rowsByStanding(t)
	soon, later := rows["delayed"], rows["requeued"]
	later.NotBefore = testStart.Add(time.Hour)
	in := []store.LaneRow{newLaneRow("a", later), newLaneRow("b", soon), newLaneRow("c", rows["live"]), newLaneRow("d", rows["queued"])}
	assert.Equal(t, time.Minute, store.PlanLane("s", in, testStart, laneQuery(hourResend), 9, chooseRuns()).NextReady)
	assert.Equal(t, 59*time.Minute, store.PlanLane("s", in, testStart.Add(time.Minute), laneQuery(hourResend), 9, chooseRuns()).NextReady)
	assert.Zero(t, store.PlanLane("s", in, testStart.Add(time.Hour), laneQuery(hourResend), 9, chooseRuns()).NextReady)
}

// Wants gets the lane as PlanLane will show it: a batch that may no longer be sent again is shown
// as in doubt.
func TestWanted(t *testing.T) {
	q := laneQuery(store.Resend{})
	assert.Equal(t, 9, store.Wanted("s", nil, testStart, q), "nobody says")
	delayed := store.NewRow().Claim(testStart, ttl, store.Resend{HarmlessFor: time.Hour})
	delayed.State = batch.Delayed
	in := []store.LaneRow{newLaneRow("a", delayed), newLaneRow("b", store.NewRow())}
	for answer, want := range map[int]int{-1: 0, 0: 0, 3: 3, 9: 9, 10: 9} {
		var shownLane batch.Lane
		q.Wants = func(l batch.Lane) int { shownLane = l; return answer }
		before := slices.Clone(in)
		assert.Equal(t, want, store.Wanted("s", in[:1], testStart.Add(time.Hour), q))
		assert.Equal(t, before, in, "it changes nothing")
		store.PlanLane("s", before, testStart.Add(time.Hour), q, 9, func(l batch.Lane) []batch.Run {
			assert.Equal(t, l.Batches[:1], shownLane.Batches)
			assert.Equal(t, batch.Submitting, l.Batches[0].State)
			return nil
		})
	}
	q.Wants = func(batch.Lane) int { return 0 }
	assert.Equal(t, 1, store.Wanted("s", in[:1], testStart, laneQueryWithWants(q, hourResend)), "what stands in front of what waits again")
}

func laneQueryWithWants(q store.ClaimQuery, rule store.Resend) store.ClaimQuery {
	wants := q.Wants
	q = laneQuery(rule)
	q.Wants = wants
	return q
}

// A batch that waits again keeps its place by its order key. Batches under way come before waiting
// batches. A batch is not shown if waiting batches that were not read may come before it.
func TestInOrder(t *testing.T) {
	under, again, waits := store.Row{State: batch.Pending, Attempt: 1}, store.Row{State: batch.Delayed, Attempt: 1}, store.NewRow()
	back, lost := again, again
	back.State, lost.State = batch.Queued, batch.Unknown
	kinds := map[byte]store.Row{'u': under, 'd': again, 'q': back, 'l': lost, 'w': waits}
	for _, c := range []struct {
		lane   string // the kinds of the rows, in the order of their keys
		window int
		want   string // the order that is shown, by the numbers of the rows in lane; 1 is the first
	}{
		{"www", 9, "123"},
		{"wwu", 9, "312"}, // row 3 was claimed first, or rows 1 and 2 became visible late
		{"wwd", 9, "123"}, // row 3 waits again at its place
		{"wwq", 9, "123"},
		{"wwl", 9, "123"},
		{"dww", 9, "123"},
		{"wdw", 9, "123"},
		{"udw", 9, "123"},
		{"duw", 9, "123"}, // row 1, which waits again, stays before row 2, which is under way
		{"wdu", 9, "123"}, // row 1, which waits, stays before both
		{"wud", 9, "213"},
		{"wudwdw", 9, "213456"},
		{"wwd", 2, "12"}, // waiting batches that were not read may come before row 3
		{"wwd", 1, "1"},
		{"wwud", 1, "31"},
		{"wdwd", 1, "1"},
		{"wwdu", 2, "124"},
		{"dw", 1, "12"},
		{"wd", 2, "12"}, // all waiting batches were read
		{"du", 0, "12"},
	} {
		var in []store.LaneRow
		for _, tried := range []bool{true, false} {
			waiting := 0
			for i, k := range []byte(c.lane) {
				r := newLaneRow(batch.ID(fmt.Sprint(i+1)), kinds[k])
				r.Created = testStart.Add(time.Duration(i / 2)) // two rows have the same time, and their ids decide
				if r.Row.Attempted() != tried {
					continue
				}
				if waiting++; tried || waiting <= c.window {
					in = append(in, r)
				}
			}
		}
		got := ""
		for _, r := range (store.ClaimQuery{Window: c.window}).InOrder("s", in) {
			got += string(r.Key.ID)
		}
		assert.Equal(t, c.want, got, "%s, window %d", c.lane, c.window)
	}
}

// If prepared bytes are numbers, the batches that keep bytes go before all others, in the order of
// the bytes. A batch that became visible late, or has lost its number, gets a later number, and
// would wait for the batches behind it.
func TestPlanLaneNumbered(t *testing.T) {
	tried := store.NewRow().Claim(testStart, time.Minute, hourResend)
	tried.State = batch.Unknown
	kept := func(number byte) store.Row {
		r := tried
		r.Prepared = []byte{1, number}
		return r
	}
	lane := func() []store.LaneRow {
		return []store.LaneRow{
			newLaneRow("a", tried), newLaneRow("c", kept(8)), newLaneRow("d", kept(6)), newLaneRow("e", kept(7)),
			newLaneRow("b", store.NewRow()),
		}
	}
	q := laneQuery(hourResend)
	var seen []batch.ID
	q.Wants = func(l batch.Lane) int {
		seen = seen[:0]
		for _, b := range l.Batches {
			seen = append(seen, b.ID)
		}
		return 9
	}
	for numbered, want := range map[bool][]batch.ID{true: {"d", "e", "c", "a", "b"}, false: {"a", "b", "c", "d", "e"}} {
		q.Numbered = func(batch.ServiceID) bool { return numbered }
		p := store.PlanLane("s", lane(), testStart.Add(time.Second), q, 9, chooseRuns(batch.Run{0, 1, 2, 3, 4}))
		require.Len(t, p.Runs, 1)
		var got []batch.ID
		for _, c := range p.Runs[0].Batches {
			got = append(got, c.Key.ID)
		}
		assert.Equal(t, want, got, "numbered %t", numbered)
		shown := slices.DeleteFunc(slices.Clone(want), func(id batch.ID) bool { return id == "b" })
		assert.Equal(t, shown, seen, "numbered %t", numbered)
		store.Wanted("s", lane()[:4], testStart.Add(time.Second), q)
		assert.Equal(t, shown, seen, "numbered %t", numbered)
	}
}
