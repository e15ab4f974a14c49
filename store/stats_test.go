package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/store"
)

func TestStatsTurn(t *testing.T) {
	q, err := store.RefreshQuery{}.Bounded()
	require.NoError(t, err)
	require.Equal(t, 15*time.Second, q.OlderThan)
	var turn store.StatsTurn
	require.True(t, turn.Due(testStart, q), "nobody has counted yet")

	taken := turn.Take(testStart)
	assert.False(t, taken.Due(testStart.Add(20*time.Second-1), q), "somebody counts")
	assert.True(t, taken.Due(testStart.Add(20*time.Second), q), "who counts has died")

	took := 100 * time.Millisecond
	counted := taken.End(testStart.Add(took), testStart, took)
	assert.Equal(t, testStart, counted.At)
	assert.False(t, counted.Due(testStart.Add(15*time.Second-1), q))
	assert.True(t, counted.Due(testStart.Add(15*time.Second), q))

	took = 2 * time.Second
	end := testStart.Add(took)
	slow := taken.End(end, testStart, took)
	assert.False(t, slow.Due(end.Add(100*time.Second-1), q), "a fiftieth of the time")
	assert.True(t, slow.Due(end.Add(100*time.Second), q))

	failed := counted.Take(testStart.Add(time.Minute)).End(testStart.Add(70*time.Second), time.Time{}, 10*time.Second)
	assert.Equal(t, counted.At, failed.At, "the counts before stay")
	assert.False(t, failed.Due(testStart.Add(9*time.Minute), q))
	assert.True(t, failed.Due(testStart.Add(10*time.Minute), q))
	longest := counted.End(testStart, testStart, time.Hour)
	assert.True(t, longest.Due(testStart.Add(500*time.Second), q))
	assert.Equal(t, testStart, counted.End(testStart, testStart, -time.Hour).Rest)

	for name, stepped := range map[string]store.StatsTurn{"taken": taken, "counted": counted, "slow": slow, "failed": failed} {
		assert.True(t, stepped.Due(testStart.Add(-time.Hour), q), "%s: the clock has stepped back", name)
	}
	for _, back := range []time.Duration{time.Microsecond, time.Minute, 5 * time.Minute, time.Hour} {
		now := testStart.Add(-back)
		assert.True(t, slow.Due(now, q), "a rest of before the clock stepped back by %s", back)
		mine := slow.Take(now)
		assert.False(t, mine.Due(now.Add(20*time.Second-1), q), "somebody counts since the clock stepped back by %s", back)
		assert.True(t, mine.Due(now.Add(20*time.Second), q))
		failed := mine.End(now.Add(10*time.Second), time.Time{}, 10*time.Second)
		assert.False(t, failed.Due(now.Add(510*time.Second-1), q), "the count failed after the clock stepped back by %s", back)
		assert.True(t, failed.Due(now.Add(510*time.Second), q))
	}
	assert.Equal(t, counted.At, counted.Take(testStart.Add(time.Minute)).At, "counts stay while somebody counts")
}

func TestStatsAsOf(t *testing.T) {
	at := func(s int) time.Time { return testStart.Add(time.Duration(s) * time.Second) }
	s := store.Stats{Instances: []store.Instance{
		{ID: "3", Name: "b", Since: at(30), Seen: at(60)},
		{ID: "2", Name: "b", Since: at(10), Seen: at(20)},
		{ID: "1", Name: "b", Since: at(0), Seen: at(40)},
		{ID: "4", Name: "b", Since: at(70), Seen: at(80), Shared: true},
		{ID: "5", Name: "a", Since: at(0), Seen: at(200)},
		{ID: "6", Name: "c", Since: at(60), Seen: at(90)},
		{ID: "7", Name: "c", Since: at(70), Seen: at(95)},
	}}
	s.Totals.At = at(50)
	got := s.AsOf(at(100))
	assert.Equal(t, 50*time.Second, got.Age)
	type shownInstance struct {
		id               string
		unseen           time.Duration
		isLive, isShared bool
	}
	var all []shownInstance
	for _, i := range got.Instances {
		all = append(all, shownInstance{i.ID, i.Unseen, i.Live, i.Shared})
	}
	assert.Equal(t, []shownInstance{
		{"5", 100 * time.Second, false, false}, // seen in the future, before the clock was put back, and not since
		{"1", 60 * time.Second, false, false},  // not live, so no instance shares its name
		{"2", 80 * time.Second, false, false},
		{"3", 40 * time.Second, true, false},
		{"4", 20 * time.Second, true, false},
		{"6", 10 * time.Second, true, true},
		{"7", 5 * time.Second, true, true},
	}, all)
	assert.Equal(t, "3", s.Instances[0].ID, "the argument stays")
	assert.Zero(t, s.AsOf(at(0)).Age)
	assert.Zero(t, store.Stats{}.AsOf(testStart).Age)
}

func TestRowInDoubt(t *testing.T) {
	want := map[string]bool{
		"expired": true, "doubt": true, "undecided": true, "unknown": true, "live again": true, "delayed again": true, "refused in doubt": true,
	}
	for name, row := range rowsByStanding(t) {
		assert.Equal(t, want[name], row.InDoubt(testStart), name)
	}
	live := store.NewRow().Claim(testStart, time.Minute, hourResend)
	assert.False(t, live.InDoubt(testStart.Add(time.Minute-1)))
	assert.True(t, live.InDoubt(testStart.Add(time.Minute)))
}
