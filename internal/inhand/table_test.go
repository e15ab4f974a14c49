package inhand_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/inhand"
	"github.com/dltbatch/dltbatch/store"
)

// A quick commit and its acceptance are one write: the submitter's, at the version of its claim.
func TestACommitAndItsAcceptanceAreOneWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		r.claimAll("a")
		want := acceptedOutcome("a")
		want.Post.Took = time.Millisecond
		r.Answered(want)
		assert.Empty(t, r.takeList(&r.writes))
		time.Sleep(firstPoll)
		assert.Equal(t, []string{"10ms: a"}, r.takeList(&r.askedLists))
		r.Put([]store.Outcome{findingOutcome("x", store.IsPending), eventCommit("a")})
		assert.Equal(t, []string{"10ms: is pending x, is committed a"}, r.takeList(&r.writes))
		want.Finding, want.Receipts, want.Check = store.IsCommitted, eventCommit("a").Receipts, pollInterval
		assert.Equal(t, want, r.outcomes[1])
		time.Sleep(10 * pollInterval)
		assert.Empty(t, r.takeList(&r.askedLists), "while it is being written")
		r.writeOutcome(want, batch.Committed, 3)
		time.Sleep(10 * pollInterval)
		assert.Empty(t, r.takeList(&r.askedLists))
		assert.Empty(t, r.takeList(&r.writes))
		r.stop()
	})
}

// An acceptance is written when there is nothing left to wait for, and after MaxHold in any case.
func TestAnAcceptanceThatWaitsIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		for _, id := range []string{"a", "b"} {
			r.Answered(acceptedOutcome(id))
			time.Sleep(5 * time.Millisecond)
		}
		time.Sleep(10 * time.Millisecond)
		assert.Equal(t, []string{"10ms: a", "15ms: b"}, r.takeList(&r.askedLists))
		r.Asked([]inhand.Answer{answerTo(key("b"), inhand.StillAccepted), answerTo(key("none"), inhand.StillAccepted)})
		assert.Equal(t, []string{"20ms: accepted b"}, r.takeList(&r.writes))
		time.Sleep(time.Second)
		assert.Equal(t, []string{"50ms: accepted a"}, r.takeList(&r.writes))
		r.Answered(acceptedOutcome("c"))
		r.Answered(acceptedOutcome("d"))
		r.stream.Commits([]store.Outcome{eventCommit("e")})
		r.stop()
		assert.Len(t, r.takeList(&r.writes), 1, "all together")
		assert.Len(t, r.outcomes, 5)
		r.Answered(acceptedOutcome("late"))
		r.stream.Commits([]store.Outcome{eventCommit("later")})
		assert.Len(t, r.takeList(&r.writes), 2, "nothing waits for a table that does not run")
	})
}

// If the ledger reports a commit before it has answered the POST, the commit is one write with the
// acceptance that follows, or is written after another answer, or alone.
func TestACommitThatOvertakesItsAcceptance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		r.claimAll("a", "b", "c")
		r.stream.Commits([]store.Outcome{eventCommit("a"), eventCommit("b"), eventCommit("c"), eventCommit("c"), eventCommit("another's")})
		time.Sleep(5 * time.Millisecond)
		r.Answered(acceptedOutcome("a"))
		doubt := acceptedOutcome("b")
		doubt.Finding = store.Doubtful
		r.Answered(doubt)
		assert.Equal(t, []string{"5ms: is committed a", "5ms: doubtful b, is committed b"}, r.takeList(&r.writes))
		time.Sleep(time.Second)
		writes := r.takeList(&r.writes)
		assert.Len(t, writes, 1)
		assert.Contains(t, writes[0], "20ms: ")
		assert.Contains(t, writes[0], "is committed c")
		assert.Contains(t, writes[0], "is committed another's")
		r.Answered(acceptedOutcome("c"))
		assert.Equal(t, []string{"1.005s: accepted c"}, r.takeList(&r.writes), "its commit is being written: it waits for nothing")
		r.stop()
	})
}

// commitHeld tells the table that a live claim holds a commit back.
func (r *tableTest) commitHeld(o store.Outcome) {
	r.Written([]inhand.Recorded{{Outcome: o, Applied: store.Applied{Ref: o.Ref, Result: store.Held}}})
}

// A commit that a live claim holds back is written again a few times a second. If the claim is
// this process's, the commit is written with the answer of that claim.
func TestACommitThatIsHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		r.claimAll("a", "b", "c")
		old := eventCommit("a")
		old.Version = 1 // the question was about the row before the claim
		r.commitHeld(old)
		r.commitHeld(eventCommit("b"))
		r.Answered(acceptedOutcome("c"))
		r.commitHeld(eventCommit("c"))
		require.Equal(t, []string{"0s: is committed c"}, r.takeList(&r.writes))
		time.Sleep(5 * time.Millisecond)
		r.Answered(acceptedOutcome("a"))
		doubt := acceptedOutcome("b")
		doubt.Finding = store.Doubtful
		r.Answered(doubt)
		require.Equal(t, []string{"5ms: is committed a", "5ms: doubtful b, is committed b"}, r.takeList(&r.writes))
		assert.Equal(t, batch.BySubmitter, r.outcomes[1].By)

		r.commitHeld(r.outcomes[1]) // the claim of a has ended, and another process has claimed it
		r.takeList(&r.lanes)
		for range 3 {
			time.Sleep(250 * time.Millisecond)
			require.Len(t, r.takeList(&r.writes), 1)
			r.commitHeld(r.outcomes[len(r.outcomes)-1])
			assert.Empty(t, r.takeList(&r.lanes), "its lane cannot go on")
		}
		r.stop()
		require.Equal(t, []string{"755ms: is committed a"}, r.takeList(&r.writes))
		r.commitHeld(r.outcomes[1])
		time.Sleep(time.Minute)
		assert.Empty(t, r.takeList(&r.writes), "the monitor finds it once that claim has ended")
	})
}

// If MaxHold is 0, commits that events report are written at once.
func TestWithoutHoldNothingWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(o *inhand.Options) { o.MaxHold = 0 })
		r.stream.Commits([]store.Outcome{eventCommit("a")})
		r.Answered(acceptedOutcome("b"))
		assert.Equal(t, []string{"0s: is committed a", "0s: accepted b"}, r.takeList(&r.writes))
		r.stop()
	})
}

// A ledger may report all commits that it ever made, and may accept many batches at once: the
// number of outcomes that wait and of batches asked about from memory is bounded.
func TestWhatIsInHandIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		for i := range 5000 {
			r.stream.Commits([]store.Outcome{eventCommit(fmt.Sprint("streamed", i))})
		}
		assert.Len(t, r.takeList(&r.writes), 5000-4096, "the others are written at once")
		time.Sleep(time.Second)
		r.takeList(&r.writes)
		for i := range 12_000 {
			id := fmt.Sprint(i)
			o := acceptedOutcome(id)
			r.Answered(o)
			r.Asked([]inhand.Answer{answerTo(o.Key, inhand.StillAccepted)})
			o.Check = r.outcomes[len(r.outcomes)-1].Check
			r.writeOutcome(o, batch.Pending, 3)
		}
		last := r.outcomes[len(r.outcomes)-1]
		assert.Equal(t, firstPoll, last.Check, "it is left to the store")
		time.Sleep(pollInterval / 2)
		asked := 0
		for _, a := range r.takeList(&r.askedLists) {
			asked += 1 + strings.Count(a, ",")
		}
		assert.Equal(t, 10_000, asked)
		r.stop()
	})
}

// The store's answer about an older version, or about another process's, does not end the entry of
// a newer claim.
func TestALateAnswerOfTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		r.claimAll("a") // version 2 of the row
		r.stream.Commits([]store.Outcome{eventCommit("a")})
		time.Sleep(30 * time.Millisecond)
		assert.Equal(t, []string{"20ms: is committed a"}, r.takeList(&r.writes))
		old := acceptedOutcome("a")
		old.Version = 1
		r.Written([]inhand.Recorded{{Outcome: old, Applied: store.Applied{Ref: old.Ref, Result: store.Fenced, Row: store.Row{Version: 2}}}})
		r.Answered(acceptedOutcome("a"))
		assert.Equal(t, []string{"30ms: accepted a"}, r.takeList(&r.writes), "its commit is being written, so it waits for nothing")
		r.stop()
	})
}

// The table writes nothing while the recorder reports what it has written, because the recorder
// would wait for itself.
func TestNothingIsWrittenByTheRecordersOwnCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		block := make(chan struct{})
		wrote := 0
		r := start(t, func(o *inhand.Options) {
			o.Write = func(first store.Outcome, rest ...store.Outcome) {
				if first.Finding == store.Doubtful {
					return // written in the submitter's call
				}
				<-block
				wrote += 1 + len(rest)
			}
		})
		r.Answered(acceptedOutcome("a"))
		r.claimAll("b", "c")
		doubt := acceptedOutcome("b")
		doubt.Finding = store.Doubtful
		r.Answered(doubt)
		r.stream.Commits([]store.Outcome{eventCommit("b"), eventCommit("c")})
		r.writeOutcome(acceptedOutcome("a"), batch.Pending, 3)
		r.writeOutcome(doubt, batch.Pending, 3)
		r.Lost([]store.Outcome{acceptedOutcome("c")})
		close(block)
		synctest.Wait()
		assert.Equal(t, 3, wrote, "Run writes it")
		r.stop()
	})
}

// An event reports the commit of a batch while another verdict about it is being written. The
// commit is written, because it is a fact.
func TestAStreamedCommitWhileTheBatchIsRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		r.claimAll("a")
		o := acceptedOutcome("a")
		o.Finding = store.Refused
		r.Answered(o)
		r.stream.Commits([]store.Outcome{eventCommit("a")})
		row := store.Row{State: batch.Rejected, Version: 3, Attempt: 1, FinalAt: time.Now()}
		r.Written([]inhand.Recorded{{Outcome: o, Applied: store.Applied{Ref: o.Ref, Result: store.Written, Row: row}}})
		assert.Equal(t, []string{"0s: refused a", "0s: is committed a"}, r.takeList(&r.writes))
		r.stop()
	})
}

// Written returns when the first row of a group is due in the store. Final rows are never due.
func TestTheFirstRowThatIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		written := func(id string, to batch.State, check time.Duration) inhand.Recorded {
			o := acceptedOutcome(id)
			o.Finding, o.Check = store.Doubtful, check
			return inhand.Recorded{Outcome: o, Applied: store.Applied{Ref: o.Ref, Result: store.Written, Row: store.Row{State: to, Version: 3, Attempt: 1}}}
		}
		final := written("c", batch.Rejected, 0)
		final.Applied.Row.FinalAt = time.Now()
		assert.Equal(t, time.Second, r.Written([]inhand.Recorded{
			written("a", batch.Submitting, 3*time.Second), written("b", batch.Submitting, time.Second), final,
		}))
		assert.Negative(t, r.Written([]inhand.Recorded{final}))
		r.stop()
	})
}

// Two questions may lead to the same outcome. That the second one is fenced changes nothing.
func TestASecondAnswerIsFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		r.stream.Began()
		r.openBatch("a")
		one, two := findingOutcome("a", store.IsValid), findingOutcome("a", store.IsValid)
		r.Put([]store.Outcome{one})
		r.writeOutcome(one, batch.Valid, 4)
		r.Put([]store.Outcome{two})
		r.Written([]inhand.Recorded{{Outcome: two, Applied: store.Applied{Ref: two.Ref, Result: store.Fenced, Row: store.Row{Version: 4}}}})
		r.takeList(&r.askedLists)
		time.Sleep(time.Second)
		r.stream.Heard()
		r.stream.AskSoon()
		assert.Len(t, r.takeList(&r.askedLists), 1, "it is followed still")
		r.stop()
	})
}

// The monitor's outcome has neither the budget nor the ages of a row. The entry keeps them.
func TestARowKeepsItsBudgetAndAges(t *testing.T) {
	row := store.InFlight{
		Ref: store.Ref{Key: key("a")}, Version: 3, State: batch.Pending, Attempt: 1, Budget: batch.Budget{Attempts: 1, EveryTry: true},
		PostedAgo: time.Hour, Age: 2 * time.Hour, DoubtAgo: time.Hour, ResendLeft: -time.Minute,
	}
	live := inhand.Facts{StreamLive: true}
	var e inhand.Entry
	e.Step(&inhand.Event{Kind: inhand.RowRead, Row: row, NextIn: pollInterval}, now, live, rules)
	e.Step(&inhand.Event{Kind: inhand.OutcomeFound, Outcome: findingOutcome("a", store.IsValid)}, now, live, rules)
	later := now.Add(time.Second)
	ev := writtenEvent(findingOutcome("a", store.IsValid), batch.Valid)
	e.Step(&ev, later, live, rules)
	got := e.Aged(later)
	assert.Equal(t, inhand.Open, e.Phase)
	assert.Equal(t, row.Budget, got.Budget)
	assert.Equal(t, batch.Valid, got.State)
	assert.Equal(t, []time.Duration{time.Hour + time.Second, 2*time.Hour + time.Second, time.Hour + time.Second, -time.Minute - time.Second},
		[]time.Duration{got.PostedAgo, got.Age, got.DoubtAgo, got.ResendLeft})
}

// If the database's clock jumps between a POST and the write of its acceptance, the row's ages
// stay those since the POST.
func TestAnAcceptanceIsAsYoungAsItsPost(t *testing.T) {
	accepted := answerEvent(store.Accepted)
	ev := writtenEvent(accepted.Outcome, batch.Pending)
	ev.Applied.At = now.Add(time.Hour)
	var e inhand.Entry
	for _, ev := range []*inhand.Event{{Kind: inhand.BatchClaimed}, &accepted, &ev} {
		e.Step(ev, now, inhand.Facts{StreamLive: true}, rules)
	}
	assert.Equal(t, inhand.Open, e.Phase)
	assert.Zero(t, e.Aged(now).PostedAgo)
}

// A lane goes on when its batch is final or, with WholeRuns, when its run has been answered.
func TestLanesThatMayGoOn(t *testing.T) {
	for _, runs := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := start(t, func(o *inhand.Options) { o.WholeRuns = runs })
			r.claimAll("a", "b")
			a, b := acceptedOutcome("a"), acceptedOutcome("b")
			r.writeOutcome(a, batch.Committed, 3)
			r.writeOutcome(b, batch.Pending, 3)
			failed := acceptedOutcome("c")
			failed.Delay = time.Second
			r.writeOutcome(failed, batch.Delayed, 3)
			r.Written([]inhand.Recorded{{Outcome: a, Applied: store.Applied{Result: store.Fenced}}})
			want := []string{"0s: free [s]", "0s: s in 1s", "0s: over s"}
			require.Equal(t, want, r.takeList(&r.lanes), "runs: %v", runs)
			r.stop()
		})
	}
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(o *inhand.Options) { o.WholeRuns = true })
		r.claimAll("a", "b")
		r.writeOutcome(acceptedOutcome("a"), batch.Committed, 3)
		require.Empty(t, r.takeList(&r.lanes), "the run is out")
		late := acceptedOutcome("b")
		late.Version--
		r.commitHeld(late)
		require.Empty(t, r.takeList(&r.lanes), "an answer about an earlier claim does not end the run")
		r.writeOutcome(acceptedOutcome("b"), batch.Pending, 3)
		require.Equal(t, []string{"0s: free [s]"}, r.takeList(&r.lanes))
		r.stop()
	})
}

// An event that names no batch causes one question about all open batches of its group, at most a
// hundred times a second, in the order of the POSTs. An accepted batch that was in doubt and is
// found again no longer holds its lane. Its row counts as known for as long as before the doubt,
// which did not change the attempt.
func TestADoubtAboutAnAcceptedBatch(t *testing.T) {
	for _, runs := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r := start(t, func(o *inhand.Options) { o.WholeRuns = runs })
			r.openBatch("a")
			r.takeList(&r.lanes)
			time.Sleep(time.Minute)
			row := store.InFlight{Ref: store.Ref{Key: key("a"), Row: 7}, Version: 4}
			doubt := findingOutcome("a", store.Doubtful)
			r.Put([]store.Outcome{doubt})
			r.writeOutcome(doubt, batch.Submitting, 4)
			assert.Equal(t, time.Minute, r.firstSeenAgo(t, row))
			time.Sleep(time.Second)
			again := findingOutcome("a", store.Doubtful)
			again.Version = 4
			r.writeOutcome(again, batch.Submitting, 5)
			row.Version = 5
			assert.Equal(t, time.Minute+time.Second, r.firstSeenAgo(t, row))
			assert.Empty(t, r.takeList(&r.lanes))

			o := findingOutcome("a", store.IsPending)
			o.Version = 5
			r.Put([]store.Outcome{o})
			r.Written([]inhand.Recorded{{Outcome: o, Applied: store.Applied{
				Ref: o.Ref, Result: store.Written, From: batch.Submitting, Row: store.Row{State: batch.Pending, Version: 6, Attempt: 1},
			}}})
			row.Version = 6
			assert.Zero(t, r.firstSeenAgo(t, row), "another state")
			lanes := r.takeList(&r.lanes)
			if runs {
				assert.Equal(t, []string{"1m1s: free [s]"}, lanes)
			} else {
				assert.Empty(t, lanes)
			}
			r.stop()
		})
	}
}

func TestAnEventAsksAboutWhatIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		r.stream.Began()
		for _, id := range []string{"c", "a", "b"} {
			r.openBatch(id)
			time.Sleep(20 * time.Millisecond)
		}
		r.takeList(&r.askedLists)
		r.stream.Heard()
		r.stream.AskSoon()
		assert.Len(t, r.takeList(&r.askedLists), 1)
		for range 100 {
			r.stream.Heard()
			r.stream.AskSoon()
			time.Sleep(time.Millisecond)
		}
		asks := r.takeList(&r.askedLists)
		assert.InDelta(t, 10, len(asks), 1)
		assert.Contains(t, asks[0], ": c, a, b")
		r.stream.Heard()
		another := r.Stream("another")
		another.Began()
		another.Heard()
		another.AskSoon()
		time.Sleep(time.Second)
		assert.LessOrEqual(t, len(r.takeList(&r.askedLists)), 1, "only heard")
		r.stream.Close()
		r.stream.Heard()
		r.stream.AskSoon()
		time.Sleep(time.Second)
		assert.Empty(t, r.takeList(&r.askedLists))
		r.stop()
	})
}

// Commits are watched while the ledger may still take them back.
func TestCommitsAreWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		r.traits.Vanish = time.Minute
		a, b := eventCommit("a"), eventCommit("b")
		b.Prepared = []byte("kept")
		r.writeOutcome(a, batch.Committed, 3)
		r.writeOutcome(b, batch.Committed, 3)
		watched := func(id, prepared string) (q inhand.Question) {
			q.Row.Key = key(id)
			if prepared != "" {
				q.Row.Prepared = []byte(prepared)
			}
			return q
		}
		assert.ElementsMatch(t, []inhand.Question{watched("a", ""), watched("b", "kept")}, r.Watched())
		r.Unwatch([]batch.Key{key("a")})
		assert.Equal(t, []inhand.Question{watched("b", "kept")}, r.Watched())
		time.Sleep(time.Minute)
		assert.Equal(t, []inhand.Question{watched("b", "kept")}, r.Watched(), "for the last time")
		assert.Empty(t, r.Watched())
		r.stop()
	})
}

// The time since a row was seen is that of its version, by this process's clock, and is forgotten
// at last.
func TestSightings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		row := store.InFlight{Ref: store.Ref{Key: key("a")}, Version: 3}
		assert.Zero(t, r.firstSeenAgo(t, row))
		time.Sleep(5 * time.Minute)
		assert.Equal(t, 5*time.Minute, r.firstSeenAgo(t, row))
		row.Version = 4
		assert.Zero(t, r.firstSeenAgo(t, row))
		time.Sleep(9 * time.Minute)
		assert.Equal(t, 9*time.Minute, r.firstSeenAgo(t, row), "it was mentioned")
		for range 2 {
			time.Sleep(11 * time.Minute)
			r.firstSeenAgo(t, store.InFlight{Ref: store.Ref{Key: key("b")}})
		}
		assert.Zero(t, r.firstSeenAgo(t, row), "forgotten")
		r.stop()
	})
}

// A hand that becomes free takes one request that found no hand. It does not take a question that
// was asked meanwhile, or that is no longer needed.
func TestAHandTakesNoQuestionTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		unasked := func(refused bool, ids ...string) {
			answers := make([]inhand.Answer, len(ids))
			for i, id := range ids {
				answers[i] = answerTo(key(id), inhand.NotAsked)
				answers[i].NextIn, answers[i].NoHand = 100*time.Millisecond, refused
			}
			r.Asked(answers)
		}
		for _, id := range []string{"a", "b", "c", "d"} {
			r.openBatch(id)
		}
		time.Sleep(firstPoll)
		assert.Len(t, r.takeList(&r.askedLists), 1, "all together")
		unasked(true, "a", "b")
		unasked(true, "c")
		unasked(false, "d") // refused for another reason than a missing hand
		r.HandsFree(0)
		assert.Empty(t, r.takeList(&r.askedLists))
		r.HandsFree(1)
		assert.Equal(t, []string{"10ms: a, b"}, r.takeList(&r.askedLists))
		r.HandsFree(8)
		assert.Equal(t, []string{"10ms: c"}, r.takeList(&r.askedLists))
		unasked(true, "b")
		unasked(true, "a")
		r.stream.Commits([]store.Outcome{eventCommit("b")})
		r.writeOutcome(eventCommit("b"), batch.Committed, 4)
		r.HandsFree(1)
		assert.Equal(t, []string{"10ms: a"}, r.takeList(&r.askedLists), "a request that nobody needs takes no hand")
		unasked(true, "a")
		time.Sleep(100 * time.Millisecond)
		asked := strings.Join(r.takeList(&r.askedLists), " ")
		assert.Contains(t, asked, "110ms: ")
		assert.Contains(t, asked, "a")
		assert.Contains(t, asked, "d")
		r.HandsFree(8)
		assert.Empty(t, r.takeList(&r.askedLists))
		r.stop()
	})
}

// The first sight of a row is kept from one question to the next, however rarely questions are
// asked.
func TestTheFirstSightIsKeptWhereQuestionsAreRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rare = 30 * time.Minute
		r := start(t, func(o *inhand.Options) { o.PollInterval = rare })
		row := store.InFlight{Ref: store.Ref{Key: key("a")}, Version: 3}
		for i := range 20 {
			assert.Equal(t, time.Duration(i)*rare, r.firstSeenAgo(t, row))
			for range 3 { // other rows are asked about meanwhile
				time.Sleep(rare / 3)
				r.firstSeenAgo(t, store.InFlight{Ref: store.Ref{Key: key("other")}, Version: 3})
			}
		}
		r.stop()
	})
}
