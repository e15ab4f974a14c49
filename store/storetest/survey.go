package storetest

import (
	"fmt"
	"slices"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func surveyTests() []test {
	return []test{
		{name: "every lane from its front, as a claim would see it", run: testSurveyLanes},
		{name: "lanes in byte order, page by page", run: testSurveyPages},
		{name: "named lanes, in their order", run: testSurveyNamed},
		{name: "what holds them, closed ones included", run: testSurveyControls, needs: store.CanControl},
		{name: "who serves them", run: testSurveyServed, needs: store.CanKeepTexts},
		{name: "defaults and bounds", run: testSurveyBounds},
		{name: "briefly, with what decides whether a batch waits", run: testBriefSurvey},
		{name: "briefly, page by page", run: testSurveyBriefPages},
		{name: "changes nothing", run: testSurveyNothing},
	}
}

// survey calls Survey, and compares the result with the model.
func (f *fixture) survey(q store.SurveyQuery) store.Survey {
	f.Helper()
	f.endWithout(store.CanSurvey)
	got := must(f.store.Survey(f.ctx, q))(f)
	bounded := q.Bounded()
	require.True(f, f.isNear(f.now(), got.At), "%s", got.At)
	waiting := map[batch.ServiceID]int{}
	for _, s := range f.batches {
		if service := s.batch.Service; !s.row.Final() && (q.Start || service > q.After || q.Services != nil) {
			if _, is := waiting[service]; !is {
				waiting[service] = 0
			}
			if !s.row.Attempted() {
				waiting[service]++
			}
		}
	}
	var want []batch.ServiceID
	if q.Services == nil {
		for s := range waiting {
			want = append(want, s)
		}
		slices.Sort(want)
		want = want[:min(len(want), bounded.Limit)]
	}
	for _, s := range q.Services {
		if _, open := waiting[s]; open && !slices.Contains(want, s) {
			want = append(want, s)
		}
	}
	f.requireSameControlAs(f.control(batch.Everything()), got.Everything)
	var lanes []batch.ServiceID
	for _, l := range got.Lanes {
		lanes = append(lanes, l.Service)
		require.Equal(f, min(waiting[l.Service], bounded.Cap), l.Waiting)
		f.requireSameLane(f.window(l.Service, bounded.Window), l.Rows)
		require.Equal(f, batch.Only(l.Service), l.Control.Scope)
		f.requireSameControlAs(f.control(l.Control.Scope), l.Control)
	}
	require.Equal(f, want, lanes)
	return got
}

func testSurveyLanes(f *fixture) {
	assert.Empty(f, f.survey(store.SurveyQuery{Start: true}).Lanes)
	f.makeOneOfEach()
	bs := newBatches("lane", "b", 9)
	bs[4].Footprint = batch.Footprint{Reads: []string{"00"}, Writes: []string{"11"}}
	f.add(bs...)
	f.makeCommitted(newBatch("final", "d"))
	f.claimExactly("b00009", "b00007", "b00005", "b00003")
	f.recordEach(f.submitterOutcome, store.Accepted, "b00009", "b00003")
	f.recordEach(f.submitterOutcome, store.Failed, "b00005")
	for _, window := range []int{1, 2, 5, 9} {
		got := f.survey(store.SurveyQuery{Start: true, Window: window})
		i := slices.IndexFunc(got.Lanes, func(l store.LaneSurvey) bool { return l.Service == "lane" })
		require.Len(f, got.Lanes[i].Rows, 4+min(5, window))
	}
}

func testSurveyPages(f *fixture) {
	var want []batch.ServiceID
	for i, s := range []batch.ServiceID{"b", "", "ä", "B", "a", "aa", "a ", "'"} {
		f.add(newBatches(s, fmt.Sprint(i, "/"), i+1)...)
		want = append(want, s)
	}
	slices.Sort(want)
	f.claimExactly("2/00001")
	for limit := 1; limit < 11; limit += 3 {
		var got []batch.ServiceID
		for q := (store.SurveyQuery{Start: true, Limit: limit}); ; q.Start = false {
			page := f.survey(q)
			for _, l := range page.Lanes {
				got = append(got, l.Service)
			}
			if len(page.Lanes) < limit {
				break
			}
			q.After = got[len(got)-1]
		}
		assert.Equal(f, want, got)
	}
}

func testSurveyNamed(f *fixture) {
	f.add(newBatch("s", "a"), newBatch("t", "b"), newBatch("", "c"))
	f.makeCommitted(newBatch("final", "d"))
	got := f.survey(store.SurveyQuery{Services: []batch.ServiceID{"t", "none", "final", "", "t", "\xff", "\x00", "s"}, Limit: 1, After: "z"})
	assert.Len(f, got.Lanes, 3, "a limit is for pages")
	assert.Empty(f, f.survey(store.SurveyQuery{Services: []batch.ServiceID{}, Start: true}).Lanes)
}

func testSurveyControls(f *fixture) {
	f.add(newBatch("s", "a"), newBatch("s", "b"), newBatch("t", "c"))
	f.claimExactly("a")
	f.refuseClaimed("a", batch.PolicyHalt)
	f.pause(batch.Everything())
	f.pause(batch.Only("t"))
	got := f.survey(store.SurveyQuery{Start: true})
	require.Len(f, got.Lanes, 2)
	assert.True(f, got.Everything.Closed())
	assert.Equal(f, batch.ID("a"), got.Lanes[0].Control.HaltedBy)
	assert.Equal(f, "somebody", got.Lanes[1].Control.PausedBy.Actor)
}

func testSurveyServed(f *fixture) {
	f.add(newBatch("s", "a"), newBatch("t", "b"))
	require.True(f, f.swapTexts(
		store.Text{Kind: store.TextServed, Name: "t", Body: "one"}, store.Text{Kind: store.TextServed, Name: "other", Body: "two"},
		store.Text{Kind: store.TextInstance, Name: "s", Body: "of another kind"}))
	got := f.survey(store.SurveyQuery{Start: true})
	assert.Empty(f, got.Lanes[0].Ledger)
	assert.Equal(f, "one", got.Lanes[1].Ledger)
	got = must(f.store.Survey(f.ctx, store.SurveyQuery{Start: true, Brief: true}))(f)
	assert.Empty(f, got.Lanes[0].Ledger)
	assert.Equal(f, "one", got.Lanes[1].Ledger)
}

func testSurveyBounds(f *fixture) {
	f.add(newBatches("a lane", "b", 1100)...)
	var bs []batch.Batch
	for i := range 1001 {
		bs = append(bs, newBatch(batch.ServiceID(fmt.Sprintf("lane %04d", i)), batch.ID(fmt.Sprint(i))))
	}
	f.add(bs...)
	got := f.survey(store.SurveyQuery{Start: true})
	assert.Len(f, got.Lanes, 1000)
	assert.Len(f, got.Lanes[0].Rows, 1)
	assert.Equal(f, 1000, got.Lanes[0].Waiting)
	got = f.survey(store.SurveyQuery{Start: true, Limit: 1_000_000, Cap: 1_000_000, Window: 1_000_000})
	assert.Len(f, got.Lanes, 1000)
	assert.Len(f, got.Lanes[0].Rows, 1000)
	assert.Equal(f, 1100, got.Lanes[0].Waiting)
	assert.Equal(f, 100_000, store.SurveyQuery{Cap: 1_000_000}.Bounded().Cap)
}

// brief calls Survey with Brief, and compares the result with the model.
func (f *fixture) brief(q store.SurveyQuery) []store.LaneSurvey {
	f.Helper()
	q.Brief = true
	got := must(f.store.Survey(f.ctx, q))(f)
	require.True(f, f.isNear(f.now(), got.At), "%s", got.At)
	f.requireSameControlAs(f.control(batch.Everything()), got.Everything)
	for _, l := range got.Lanes {
		all := f.window(l.Service, 1_000_000)
		tried := slices.IndexFunc(all, func(r store.LaneRow) bool { return !r.Row.Attempted() })
		if tried < 0 {
			tried = len(all)
		}
		require.Equal(f, min(len(all)-tried, q.Bounded().Cap), l.Waiting)
		want := all[:min(len(all), tried+1)]
		require.Len(f, l.Rows, len(want), "lane %q", l.Service)
		for i, g := range l.Rows {
			f.briefRow(want[i].Row, g.Row)
			late := g.Created.Sub(want[i].Created)
			require.True(f, late == 0 || i == tried && i > 0 && late < 0, "%s", late)
			require.Equal(f, l.Service, g.Key.Service)
			if g.Key.ID != "" {
				require.Equal(f, want[i].Key, g.Key)
			}
		}
		require.Equal(f, batch.Only(l.Service), l.Control.Scope)
		f.requireSameControlAs(f.control(l.Control.Scope), l.Control)
	}
	return got.Lanes
}

// briefRow compares the fields that decide whether a batch waits.
func (f *fixture) briefRow(want, got store.Row) {
	f.Helper()
	type deciding struct {
		State                         batch.State
		Attempted, Undecided          bool
		Kind                          batch.ErrorKind
		Doubt                         int
		Expires, Before, Settles, End bool
	}
	of := func(r, like store.Row) deciding {
		d := deciding{State: r.State, Attempted: r.Attempted(), Undecided: r.Undecided(), Doubt: r.DoubtAttempt}
		if r.Error != nil {
			d.Kind = r.Error.Kind
		}
		d.Expires, d.Before = f.isNear(like.ClaimExpires, r.ClaimExpires), f.isNear(like.NotBefore, r.NotBefore)
		d.Settles, d.End = f.isNear(like.SettlesAt, r.SettlesAt), f.isNear(like.ResendUntil, r.ResendUntil)
		return d
	}
	require.Equal(f, of(want, want), of(got, want))
}

func testBriefSurvey(f *fixture) {
	require.Empty(f, f.brief(store.SurveyQuery{Start: true}))
	f.makeOneOfEach()
	f.add(newBatches("lane", "b", 9)...)
	f.makeCommitted(newBatch("final", "d"))
	f.claimExactly("b00009", "b00007", "b00005", "b00003")
	f.recordEach(f.submitterOutcome, store.Accepted, "b00009", "b00003")
	f.recordEach(f.submitterOutcome, store.Failed, "b00005")
	full := f.survey(store.SurveyQuery{Start: true})
	for _, most := range []int{1, 3, 1000} {
		lanes := f.brief(store.SurveyQuery{Start: true, Cap: most})
		require.Len(f, lanes, len(full.Lanes))
		for i, l := range full.Lanes {
			require.Equal(f, l.Service, lanes[i].Service)
			require.Equal(f, l.Ledger, lanes[i].Ledger)
		}
	}
	named := f.brief(store.SurveyQuery{Services: []batch.ServiceID{"lane", "none"}})
	require.Len(f, named, 1)
}

func testSurveyBriefPages(f *fixture) {
	var want []batch.ServiceID
	for i, s := range []batch.ServiceID{"b", "", "ä", "B", "a", "aa", "a ", "'"} {
		f.add(newBatches(s, fmt.Sprint(i, "/"), i+1)...)
		want = append(want, s)
	}
	slices.Sort(want)
	f.claimExactly("1/00001", "2/00001", "0/00001")
	for limit := 1; limit < 11; limit += 3 {
		var got []batch.ServiceID
		for q := (store.SurveyQuery{Start: true, Limit: limit}); ; q.Start = false {
			page := f.brief(q)
			for _, l := range page {
				got = append(got, l.Service)
			}
			if len(page) < limit {
				break
			}
			q.After = got[len(got)-1]
		}
		require.Equal(f, want, got)
	}
	require.Equal(f, 10_000, store.SurveyQuery{Brief: true, Limit: 1_000_000}.Bounded().Limit)
}

func testSurveyNothing(f *fixture) {
	f.add(newBatch("s", "a"), newBatch("s", "b"))
	f.claimExactly("a")
	before := f.get("a")
	first := f.survey(store.SurveyQuery{Start: true})
	first.Lanes[0].Rows[0].Row.State = batch.Committed // the result belongs to the caller
	f.survey(store.SurveyQuery{Start: true})
	assert.Equal(f, before, f.get("a"))
	assert.Equal(f, []batch.ID{"b"}, laneIDs(f.viewLane("s", 9))[1:], "it locks nothing and takes nothing")
}
