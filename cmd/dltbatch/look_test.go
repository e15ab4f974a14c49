package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/internal/texts"
	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// causes prints the batches that do not move, the reason, and the command that moves them.
func TestCauses(t *testing.T) {
	inStores(t, func(s *testCommand) {
		s.recordServing("shipments")
		s.add("shipments", "b1", "b2", "b3")
		_, _, err := s.st.Steer(s.Context(), store.Steering{Scope: batch.Only("shipments"), Action: batch.ActionPause, By: batch.By{Actor: "bob", Reason: "ticket 9"}})
		require.NoError(s, err)

		c := runJSON[causesAnswer](s, "causes")
		require.Len(s, c.Groups, 1)
		assert.Equal(s, batch.CausePaused, c.Groups[0].Cause)
		assert.Equal(s, 3, c.Groups[0].Batches)
		text := s.runOK("causes")
		assert.Regexp(s, `(?m)^1 lane is paused\. Since .*\n  3 batches in 1 lane, the oldest for 0s\n  By bob: ticket 9\.$`, text)
		assert.Contains(s, text, `service "shipments" was paused by bob (ticket 9)`)
		assert.Contains(s, text, "$ dltbatch resume shipments --reason WHY")

		e := runJSON[explainAnswer](s, "explain", "b2")
		assert.Equal(s, batch.CausePaused, e.Cause)
		assert.Contains(s, s.runOK("explain", "--service", "shipments", "b2"), "$ dltbatch resume shipments")
		assert.Regexp(s, `(?m)^shipments +[0-9:Z -]+ +bob +ticket 9 `, s.runOK("lanes"))
		assert.Contains(s, s.runOK("history", "--lane", "shipments"), "ticket 9")
	})
}

// explain follows the blocking batches to the front of the lane.
func TestExplainFollowsBlockers(t *testing.T) {
	inStores(t, func(s *testCommand) {
		s.recordServing("s")
		s.add("s", "b1", "b2")
		s.endAttempt("s", store.Failed)
		e := runJSON[explainAnswer](s, "explain", "b2")
		assert.Equal(s, batch.CauseBehind, e.Cause)
		require.Len(s, e.Row, 1)
		assert.Equal(s, batch.ID("b1"), e.Row[0].ID)
		assert.Equal(s, batch.CauseDelayed, e.Row[0].Cause)
		assert.Contains(s, s.runOK("explain", "b2"), "cause delayed, remedy wait")
	})
}

// Without a record of settings explain is refused with an exit code of its own, and says what to
// do.
func TestExplainWithoutRecord(t *testing.T) {
	inStores(t, func(s *testCommand) {
		s.add("s", "b1")
		assert.Contains(s, s.runFailing(exitSettings, "explain", "b1"), "not on record")
	})
}

func TestListAndShow(t *testing.T) {
	inStores(t, func(s *testCommand) {
		s.add("s", "b1", "b2", "b3")
		s.endAttempt("s", store.Refused)
		l := runJSON[batchesAnswer](s, "list", "--limit", "1")
		require.Len(s, l.Batches, 1)
		assert.Equal(s, batch.ID("b2"), l.Batches[0].ID)
		l = runJSON[batchesAnswer](s, "list", "--after", string(l.Next))
		require.Len(s, l.Batches, 1)
		assert.Equal(s, batch.ID("b3"), l.Batches[0].ID)
		assert.Len(s, runJSON[batchesAnswer](s, "list", "--all").Batches, 3)
		assert.Empty(s, runJSON[batchesAnswer](s, "list", "--service", "").Batches)
		l = runJSON[batchesAnswer](s, "list", "--state", "rejected,invalid")
		require.Len(s, l.Batches, 1)
		assert.Contains(s, s.runFailing(exitUsage, "list", "--state", "lost"), "lost")

		text := s.runOK("list", "--state", "rejected")
		assert.Regexp(s, `(?m)^s +b1 +rejected +1 .*Z +bad nonce$`, text, "in one line")
		assert.NotContains(s, text, "\x1b")

		one := runJSON[showAnswer](s, "show", "b1")
		assert.Equal(s, batch.Rejected, one.Batch.State)
		assert.Regexp(s, `(?m)^state +rejected, final$`, s.runOK("show", "b1"))
		assert.NotContains(s, s.runOK("show", "b1", "--json"), "payload")
		s.runFailing(exitNotFound, "show", "b4")
		s.runFailing(exitNotFound, "show", "b1", "--service", "other")
		s.runFailing(exitUsage, "show")
		var f failure
		require.NoError(s, json.Unmarshal([]byte(s.runFailing(exitUsage, "list", "--lost", "--json")), &f))
		assert.Equal(s, exitUsage, f.Code)
		s.runFailing(exitUsage, "show", "b1", "b2")
		s.runFailing(exitNotFound, "show", "--data-change-id", "x")
		s.runFailing(exitUsage, "show", "--data-change-id", "")
	})
}

// search finds open batches by properties that have no index.
func TestSearch(t *testing.T) {
	inStores(t, func(s *testCommand) {
		s.recordServing("s")
		s.add("s", "b1", "b2", "c1")
		s.endAttempt("s", store.Failed)
		found := runJSON[operator.SearchResult](s, "search", "--cause", "behind", "--older-than", "1ns")
		require.Len(s, found.Batches, 2)
		assert.Equal(s, batch.ID("b2"), found.Batches[0].ID)
		assert.Equal(s, 3, found.Examined)
		assert.Regexp(s, `(?m)^s +b1 +delayed +1 `, s.runOK("search", "--attempts", "1"))
		assert.Contains(s, s.runOK("search", "--limit", "1"), "there may be more")
		assert.Contains(s, s.runFailing(exitUsage, "search", "--cause", "bad luck"), "bad luck")
	})
}

// search finds the batches, orders and lanes whose name is a text or begins with it, open or
// final, and a caller's key without its lane.
func TestSearchForAText(t *testing.T) {
	inStores(t, func(s *testCommand) {
		require.NoError(s, s.st.Add(s.Context(), batch.Batch{Service: "lane-s", ID: "b1", Payload: []byte("x"), DataChangeID: "invoice 4711"}))
		require.NoError(s, s.st.(order.Store).AddOrders(s.Context(), order.Order{ID: "o1", Party: "lane-s", Payload: []byte("x"), Key: "invoice 5"}))
		s.add("lane-t", "b2")
		s.endAttempt("lane-s", store.Refused)
		assert.Regexp(s, `(?m)^batch key +invoice 4711 +b1 +lane-s +rejected `, s.runOK("search", "invoice 4711"))
		assert.Regexp(s, `(?m)^order key +invoice 5 +- +lane-s +queued `, s.runOK("search", "invoice"))
		assert.Regexp(s, `(?m)^lane +lane-t `, s.runOK("search", "lane-t"))
		assert.Len(s, runJSON[operator.Lookup](s, "search", "b").Hits, 2)
		assert.Contains(s, s.runOK("search", "lane", "--limit", "1"), "there are more")
		assert.Contains(s, s.runOK("search", "none"), "nothing has this")
		s.runFailing(exitUsage, "search", "")
		assert.Contains(s, s.runFailing(exitUsage, "search", "b", "--state", "queued"), "--state")
	})
}

// On a terminal tables have fewer than 100 columns, and ids are short enough to type; in a pipe
// ids are whole.
func TestShortIDsOnATerminal(t *testing.T) {
	inStores(t, func(s *testCommand) {
		long := batch.ID(strings.Repeat("0123456789abcdef", 8))
		s.add("s", long)
		s.endAttempt("s", store.Refused)
		for _, args := range [][]string{{"list", "--all"}, {"search", "0123"}} {
			assert.Contains(s, s.runOK(args...), string(long))
			s.width = terminalWidth
			text := s.runOK(args...)
			s.width = 0
			assert.NotContains(s, text, string(long))
			assert.Contains(s, text, string(long[:shortID]))
			for line := range strings.SplitSeq(text, "\n") {
				assert.LessOrEqual(s, len([]rune(line)), terminalWidth, line)
			}
		}
		assert.Equal(s, long, runJSON[showAnswer](s, "show", string(long[:shortID])).Batch.ID)

		next := "f" + long[1:]
		s.recordServing("s")
		s.add("s", next, next[:127]+"0") // the second batch waits behind the first
		for _, args := range [][]string{{"explain", string(next[:127]) + "0"}, {"causes"}} {
			s.width = terminalWidth
			short := s.runWithInput("", args...)
			s.width = 0
			for line := range strings.SplitSeq(short.out, "\n") {
				if !strings.HasPrefix(line, "  $ ") {
					assert.NotContains(s, line, string(next[:40]), "a sentence on a terminal")
				}
			}
		}
		assert.Contains(s, s.runOK("explain", string(next)), string(next))
	})
}

// The beginning of an id is enough if only one batch has it.
func TestBeginningOfAnID(t *testing.T) {
	inStores(t, func(s *testCommand) {
		require.NoError(s, s.st.Add(s.Context(), batch.Batch{Service: "s", ID: "abc1", Payload: []byte("x"), DataChangeID: "key"}))
		require.NoError(s, s.st.Add(s.Context(), batch.Batch{Service: "t", ID: "abd2", Payload: []byte("x"), DataChangeID: "key"}))
		assert.Equal(s, batch.ID("abc1"), runJSON[showAnswer](s, "show", "abc").Batch.ID)
		assert.Contains(s, s.runFailing(exitUsage, "show", "ab"), "more than one batch: abc1, abd2; give more of it")
		assert.Contains(s, s.runFailing(exitUsage, "show", "key"), "is the caller's key, or the beginning of the id, of more than one batch")
		s.add("s", "4711f00d")
		require.NoError(s, s.st.Add(s.Context(), batch.Batch{Service: "s", ID: "keyed", DataChangeID: "4711", Payload: []byte("x")},
			batch.Batch{Service: "s", ID: "other", DataChangeID: "815", Payload: []byte("x")}))
		assert.Contains(s, s.runFailing(exitUsage, "cancel", "4711", "--reason", "r", "--yes"), "give the whole id")
		assert.Contains(s, s.runWithInput("no\n", "cancel", "815", "--reason", "r").err, "You gave its caller's key. ")
		assert.Contains(s, s.runWithInput("no\n", "cancel", "4711f", "--reason", "r").err, "You gave the beginning of its id. ")
		assert.Contains(s, s.runFailing(exitUsage, "show", "--data-change-id", "key"), "s, t; give --service")
		assert.Equal(s, batch.ID("abd2"), runJSON[showAnswer](s, "show", "--data-change-id", "key", "--service", "t").Batch.ID)
	})
}

// laterClockStore is a store whose database clock is an hour ahead of this machine's.
type laterClockStore struct{ store.Store }

func (l laterClockStore) Survey(ctx context.Context, q store.SurveyQuery) (store.Survey, error) {
	s, err := l.Store.Survey(ctx, q)
	s.At = s.At.Add(time.Hour)
	return s, err
}

// show compares due times with the database's clock.
func TestShowUsesTheClockOfTheDatabase(t *testing.T) {
	at := func(st store.Store) time.Time {
		now, err := (&database{Store: st}).now(t.Context())
		require.NoError(t, err)
		return now
	}
	assert.Greater(t, time.Until(at(laterClockStore{memory.New()})), 50*time.Minute)
}

func TestStatusAndInstances(t *testing.T) {
	inStores(t, func(s *testCommand) {
		s.add("s", "b1", "b2")
		assert.Contains(s, s.runOK("status"), "nobody has counted yet")
		var host texts.Presence
		i := store.Instance{ID: "1", Name: "host-7", Version: "v0.1.0", Ledger: "ledger"}
		require.NoError(s, host.Show(s.Context(), s.st, i))
		stats := runJSON[statusAnswer](s, "status", "--refresh")
		assert.Equal(s, map[batch.State]int{batch.Queued: 2}, stats.Open)
		text := s.runOK("status")
		assert.Regexp(s, `(?m)^open batches +2 in 1 lane$`, text)
		assert.Regexp(s, `(?m)^instances +1 live of 1$`, text)
		assert.Len(s, runJSON[instanceList](s, "instances").Instances, 1)
		assert.Regexp(s, `(?m)^host-7 +live .* ledger +v0\.1\.0 +\d+$`, s.runOK("instances"))
		i.Unserved = []store.Unserved{{Service: "s", Why: "no route", For: time.Minute}}
		require.NoError(s, host.Show(s.Context(), s.st, i))
		assert.Regexp(s, `(?m)^host-7 +holds lanes .*\nhost-7 takes no batches of lane s for 1m0[0-9]s: no route$`, s.runOK("instances"))
		assert.Regexp(s, `(?m)^No instance takes batches of 1 lane\..*\n  2 batches in 1 lane.*\n.*host-7 has not served it since .*: no route$`, s.runOK("causes"))
		lanes := runJSON[laneList](s, "lanes")
		require.Len(s, lanes.Lanes, 1)
		assert.Equal(s, 2, lanes.Lanes[0].Waiting)
	})
}

// A cursor that no list returned is a usage error, even if it is a text that no database accepts.
func TestPlacesThatNoListReturned(t *testing.T) {
	s := newFile(t)
	for _, id := range []string{"\x00", "\xff"} {
		after := string(store.CursorAfter(time.UnixMicro(1), id))
		s.runFailing(exitUsage, "list", "--after", after)
		s.runFailing(exitUsage, "orders", "--after", after)
		s.runFailing(exitUsage, "lanes", "--after", id)
	}
}

// Text from others cannot send control sequences to a terminal, and colours do not shift columns.
func TestTables(t *testing.T) {
	p := &page{colour: true}
	tab := p.table("A", "B")
	tab.row(styleRed, "\x1b[2J\u202e", "x\ny")
	tab.row(stylePlain, "", 1)
	tab.finish()
	assert.Equal(t, styleBold+"A           B"+styleReset+"\n"+styleRed+` [2J\u202e  x y`+styleReset+"\n-           1\n", p.String())
	assert.Equal(t, `'it'\''s'`, quoteName("it's"))
	assert.Equal(t, "''", quoteName(""))
	assert.Equal(t, "'-x'", quoteName("-x"))
	assert.Equal(t, "a/b-1", quoteName("a/b-1"))
	assert.Equal(t, "0s", ageText(-1))
	assert.Equal(t, "1d01h", ageText(25*3600e9))
	assert.Empty(t, timeText(batch.Record{}.CreatedAt))
}

// show calls no batch in doubt that the ledger has, or whose first attempt is under way.
func TestShowSaysWhetherABatchIsInDoubt(t *testing.T) {
	at := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	record := func(s batch.State, attempt int, live bool) string {
		var p page
		p.printRecord(batch.Record{State: s, Attempt: attempt, DoubtSince: at}, live)
		return p.String()
	}
	for _, s := range []batch.State{batch.Pending, batch.Valid, batch.Invalid} {
		assert.Regexp(t, `(?m)^attempted at +2026-07-01 12:00:00Z$`, record(s, 2, false))
	}
	assert.Regexp(t, `(?m)^attempted since +2026`, record(batch.Submitting, 1, true))
	assert.Regexp(t, `(?m)^in doubt since +2026`, record(batch.Submitting, 2, true), "perhaps of the attempt before")
	assert.Regexp(t, `(?m)^in doubt since +2026`, record(batch.Submitting, 1, false))
	assert.Regexp(t, `(?m)^in doubt since +2026`, record(batch.Delayed, 1, false))
}

// status does not head old counts with NOW, such as those of an instance that has gone.
func TestCountsOfADeadInstance(t *testing.T) {
	at := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	status := func(age time.Duration, live bool) string {
		var p page
		p.printStatus(store.Stats{Totals: store.Totals{At: at, By: "one"}, Age: age, Instances: []store.Instance{{Name: "one", Live: live}}})
		return p.String()
	}
	assert.Regexp(t, `(?m)^WHAT +NOW\ncounted +15s ago, by one\n`, status(15*time.Second, true))
	assert.Regexp(t, `(?m)^WHAT +AT 2026-07-01 12:00:00Z\ncounted +5m00s ago, by one, which has gone; --refresh counts now\n`, status(5*time.Minute, false))
}
