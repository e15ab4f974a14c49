package inhand_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/inhand"
	"github.com/dltbatch/dltbatch/store"
)

var phases = map[inhand.Phase]string{
	inhand.None: "none", inhand.Claimed: "claimed", inhand.Accepted: "accepted", inhand.Writing: "writing",
	inhand.Open: "open", inhand.Committing: "committing", inhand.Watched: "watched",
}

var now = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// entryIn returns an entry in phase p.
func entryIn(p inhand.Phase) inhand.Entry {
	e := inhand.Entry{Phase: p}
	switch p {
	case inhand.Accepted:
		e.Unwritten, e.WriteAt = acceptedOutcome("a"), now.Add(maxHold)
	case inhand.Open:
		e.Row = store.InFlight{Ref: store.Ref{Key: key("a"), Row: 7}, Version: 3, State: batch.Pending, Attempt: 1}
		e.ReadAt, e.PostBegan, e.CheckAt = now, now, now.Add(pollInterval/2)
	case inhand.Watched:
		e.WatchUntil = now.Add(time.Minute)
	}
	return e
}

// earlyCommitEntry returns an entry in phase p, with a commit that was reported early.
func earlyCommitEntry(p inhand.Phase) inhand.Entry {
	e := entryIn(p)
	e.Unwritten, e.WriteAt = eventCommit("a"), now.Add(maxHold)
	return e
}

func answerEvent(f store.Finding) inhand.Event {
	o := acceptedOutcome("a")
	o.Finding = f
	return inhand.Event{Kind: inhand.AttemptEnded, Outcome: o, MayWait: true, Took: time.Millisecond}
}

func writtenEvent(o store.Outcome, s batch.State) inhand.Event {
	o.Check = pollInterval
	row := store.Row{State: s, Version: 3, Attempt: 1, LastPost: now}
	if s == batch.Committed {
		row.FinalAt = now
	}
	return inhand.Event{Kind: inhand.OutcomeWritten, Outcome: o, Applied: store.Applied{
		Ref: store.Ref{Key: key("a"), Row: 7}, Result: store.Written, Row: row,
	}}
}

var events = map[string]inhand.Event{
	"claimed":              {Kind: inhand.BatchClaimed},
	"accepted":             answerEvent(store.Accepted),
	"in doubt":             answerEvent(store.Doubtful),
	"streamed":             {Kind: inhand.CommitStreamed, Outcome: eventCommit("a")},
	"found commit":         {Kind: inhand.OutcomeFound, Outcome: findingOutcome("a", store.IsCommitted)},
	"found pending":        {Kind: inhand.OutcomeFound, Outcome: findingOutcome("a", store.IsPending)},
	"left":                 {Kind: inhand.LeftToScan},
	"waited":               {Kind: inhand.StillAccepted},
	"unasked":              {Kind: inhand.NotAsked, NextIn: firstPoll},
	"said":                 {Kind: inhand.StateSame, NextIn: pollInterval, StateSaid: true},
	"written valid":        writtenEvent(findingOutcome("a", store.IsValid), batch.Valid),
	"same":                 {Kind: inhand.StateSame, NextIn: firstPoll},
	"same for long":        {Kind: inhand.StateSame, NextIn: 2 * pollInterval},
	"seen":                 {Kind: inhand.RowRead, Row: store.InFlight{Ref: store.Ref{Key: key("a")}, Version: 9}, NextIn: pollInterval},
	"due":                  {Kind: inhand.WriteDue},
	"written pending":      writtenEvent(acceptedOutcome("a"), batch.Pending),
	"written doubt":        writtenEvent(answerEvent(store.Doubtful).Outcome, batch.Submitting),
	"written queued":       writtenEvent(findingOutcome("a", store.NotCommitted), batch.Queued),
	"written committed":    writtenEvent(eventCommit("a"), batch.Committed),
	"written elsewhere":    {Kind: inhand.OutcomeWritten, Outcome: acceptedOutcome("a"), Applied: store.Applied{Result: store.Fenced}},
	"held":                 {Kind: inhand.OutcomeWritten, Outcome: eventCommit("a"), Applied: store.Applied{Result: store.Held}},
	"could not be written": {Kind: inhand.OutcomeLost, Outcome: acceptedOutcome("a")},
}

// The table has the result of every event in every phase, without an event stream. A cell has the
// phase after the event, the outcomes to write, and when the ledger is asked.
func TestEveryPhaseWithEveryEvent(t *testing.T) {
	table := `
		event                | none                | claimed             | accepted                       | writing             | open                    | committing            | watched
		claimed              | claimed             | claimed             | claimed; accepted              | claimed             | claimed                 | claimed               | claimed
		accepted             | accepted; ask       | accepted; ask       | accepted; accepted; ask        | accepted; ask       | accepted; ask           | committing; accepted  | accepted; ask
		in doubt             | writing; doubtful   | writing; doubtful   | writing; accepted, doubtful    | writing; doubtful   | writing; doubtful       | committing; doubtful  | writing; doubtful
		streamed             | none; waits         | claimed; waits      | committing; is committed       | writing; waits      | committing; is committed | committing           | watched
		found commit         | committing; is committed | committing; is committed | committing; is committed | committing; is committed | committing; is committed | committing; is committed | committing; is committed
		found pending        | writing; is pending | writing; is pending | writing; accepted, is pending  | writing; is pending | writing; is pending     | committing; is pending | writing; is pending
		same                 | none                | claimed             | accepted; waits                | writing             | open; ask               | committing            | watched
		same for long        | none                | claimed             | accepted; waits                | writing             | none; due               | committing            | watched
		unasked              | none                | claimed             | writing; accepted              | writing             | open; ask               | committing            | watched
		left                 | none                | claimed             | accepted; waits                | writing             | none; due               | committing            | watched
		waited               | none                | claimed             | writing; accepted              | writing             | open                    | committing            | watched
		seen                 | none                | claimed             | accepted; waits                | writing             | open                    | committing            | watched
		due                  | none                | claimed             | writing; accepted              | writing             | open                    | committing            | watched
		written pending      | open; ask           | open; ask           | open; accepted; ask            | open; ask           | open; ask               | committing; due       | open; ask
		written valid        | none; due           | none; due           | none; accepted; due            | none; due           | none; due               | committing; due       | none; due
		written doubt        | none; due           | none; due           | none; accepted; due            | none; due           | none; due               | none; due             | none; due
		written queued       | none                | none                | none; accepted                 | none                | none                    | none                  | none
		written committed    | none                | none                | none; accepted                 | none                | none                    | none                  | none
		written elsewhere    | none                | none                | none; accepted                 | none                | none                    | none                  | none
		held                 | committing; waits   | committing; waits   | committing; is committed       | committing; waits   | committing; waits       | committing; waits     | committing; waits
		could not be written | none                | none                | none; accepted                 | none                | none                    | none                  | none`
	checkTable(t, table, inhand.Facts{}, entryIn)
	checkTable(t, `
		event | none | accepted                 | committing
		held  | none | committing; is committed | none`, inhand.Facts{Crowded: true}, entryIn)
}

// If an event reported a commit before the acceptance was written, the commit is written with the
// acceptance, or after it, or at last alone. The same holds for a commit that a live claim holds
// back.
func TestAStreamedCommitThatComesEarly(t *testing.T) {
	table := `
		event                | none                            | claimed                         | writing                         | committing
		claimed              | claimed; waits                  | claimed; waits                  | claimed; waits                  | claimed; waits
		accepted             | committing; is committed        | committing; is committed        | committing; is committed        | committing; is committed
		in doubt             | committing; doubtful, is committed | committing; doubtful, is committed | committing; doubtful, is committed | committing; doubtful, is committed
		streamed             | none; waits                     | claimed; waits                  | writing; waits                  | committing; waits
		found commit         | committing; is committed; waits | committing; is committed; waits | committing; is committed; waits | committing; is committed; waits
		due                  | committing; is committed        | committing; is committed        | committing; is committed        | committing; is committed
		written pending      | committing; is committed        | committing; is committed        | committing; is committed        | committing; is committed
		written doubt        | none; is committed; due         | none; is committed; due         | none; is committed; due         | none; is committed; due
		written committed    | none                            | none                            | none                            | none
		written elsewhere    | none; is committed              | none; is committed              | none; is committed              | none; is committed
		held                 | committing; waits               | committing; waits               | committing; waits               | committing; waits
		could not be written | none; is committed              | none; is committed              | none; is committed              | none; is committed`
	checkTable(t, table, inhand.Facts{}, earlyCommitEntry)
}

// A commit has the prepared bytes by which it was found, even if it is one write with the
// acceptance.
func TestACommitNamesWhatWasPrepared(t *testing.T) {
	for _, p := range []inhand.Phase{inhand.None, inhand.Accepted, inhand.Open} {
		e := entryIn(p)
		ev := inhand.Event{Kind: inhand.OutcomeFound, Outcome: findingOutcome("a", store.IsCommitted)}
		ev.Outcome.Prepared, e.Row.Prepared = []byte("kept"), []byte("kept")
		out := e.Step(&ev, now, inhand.Facts{}, rules)
		for _, o := range out.Write() {
			assert.Equal(t, "kept", string(o.Prepared), phases[p])
		}
		assert.Len(t, out.Write(), 1, phases[p])
	}
}

// If a stream reports events, the events cause the questions.
func TestPhasesWithALiveStream(t *testing.T) {
	table := `
		event           | none                | claimed             | accepted                    | open
		accepted        | writing; accepted   | writing; accepted   | writing; accepted, accepted | writing; accepted
		same            | none                | claimed             | accepted; waits             | open
		said            | none                | claimed             | accepted; waits             | open; put off
		unasked         | none                | claimed             | writing; accepted           | open; ask
		left            | none                | claimed             | accepted; waits             | none; due
		written valid   | none; due           | none; due           | none; accepted; due         | open; due
		seen            | open                | claimed             | accepted; waits             | open
		written pending | open; ask; due      | open; ask; due      | open; accepted; ask; due    | open; ask; due`
	checkTable(t, table, inhand.Facts{StreamLive: true, HeardAt: now.Add(-time.Hour)}, entryIn)
	names := inhand.Facts{StreamLive: true, StreamNamesIDs: true, HeardAt: now.Add(-time.Hour)}
	checkTable(t, `
		event           | claimed
		accepted        | accepted; waits`, names, entryIn)
}

// checkTable compares Step with a table.
func checkTable(t *testing.T, table string, f inhand.Facts, start func(inhand.Phase) inhand.Entry) {
	t.Helper()
	var heads []string
	for i, line := range strings.Split(strings.TrimSpace(table), "\n") {
		var cells []string
		for c := range strings.SplitSeq(line, "|") {
			cells = append(cells, strings.TrimSpace(c))
		}
		if i == 0 {
			heads = cells
			continue
		}
		ev, known := events[cells[0]]
		if !assert.True(t, known, cells[0]) {
			continue
		}
		for j, want := range cells[1:] {
			var e inhand.Entry
			for p, name := range phases {
				if name == heads[j+1] {
					e = start(p)
				}
			}
			out := e.Step(&ev, now, f, rules)
			assert.Equal(t, want, cellText(e, out), "%s, %s", cells[0], heads[j+1])
		}
	}
}

// cellText returns the text of a cell in the tables above.
func cellText(e inhand.Entry, out inhand.Effects) string {
	words := []string{phases[e.Phase]}
	var writes []string
	for _, o := range out.Write() {
		writes = append(writes, fmt.Sprint(o.Finding))
	}
	if len(writes) > 0 {
		words = append(words, strings.Join(writes, ", "))
	}
	switch {
	case !e.AskAt.IsZero():
		words = append(words, "ask")
	case !e.WriteAt.IsZero():
		words = append(words, "waits")
	}
	if out.HasDueIn {
		words = append(words, "due")
	}
	if out.PutOffCheck {
		words = append(words, "put off")
	}
	return strings.Join(words, "; ")
}
