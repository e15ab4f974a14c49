package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/relied"
	"github.com/dltbatch/dltbatch/internal/texts"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
)

// The history of a batch has the acts of a person, and no act is done without a reason and a
// confirmation.
func TestActsUponBatches(t *testing.T) {
	inStores(t, func(s *testCommand) {
		s.recordServing("s")
		s.add("s", "b1", "b2")
		assert.Contains(s, s.runFailing(exitUsage, "cancel", "b1", "--yes"), "--reason")
		assert.Contains(s, s.runFailing(exitRefused, "cancel", "b1", "--reason", "r"), "not confirmed")
		assert.Equal(s, exitRefused, s.runWithInput("yes\n", "cancel", "b1", "--reason", "r").code)
		assert.Equal(s, batch.Queued, s.readRecord("b1").State)

		got := s.runWithInput("cancel\n", "cancel", "b1", "--reason", "ticket 9", "--json")
		require.Equal(s, exitDone, got.code, got.err)
		assert.Contains(s, got.err, "never be sent")
		assert.Contains(s, got.out, `"state": "rejected"`, "the question is not in the output")
		acts := runJSON[historyList](s, "history", "b1").History
		require.Len(s, acts, 1)
		assert.Equal(s, batch.By{Actor: "ada", Reason: "ticket 9"}, acts[0].By)
		assert.Contains(s, s.runFailing(exitRefused, "cancel", "b1", "--reason", "r", "--yes"), "not allowed")

		seen := s.readRecord("b1").Version
		again := runJSON[batch.Record](s, "requeue", "b1", "--reason", "r", "--actor", "bob", "--yes", "--seen", itoa(seen))
		assert.Equal(s, batch.Queued, again.State)
		assert.Contains(s, s.runFailing(exitRefused, "cancel", "b1", "--reason", "r", "--yes", "--seen", itoa(seen)), "moved on")
		assert.Equal(s, "bob", runJSON[showAnswer](s, "show", "b1").History[1].Actor)
		s.runFailing(exitNotFound, "cancel", "b9", "--reason", "r", "--yes")
		s.runFailing(exitRefused, "acquit", "b2", "--reason", "r")
	})
}

// The text after an act, and the history, say what was done, and to which batch or lane.
func TestSentencesOfActs(t *testing.T) {
	inStores(t, func(s *testCommand) {
		s.recordServing("s")
		s.runOK("policy", "s", "halt", "--reason", "r")
		s.add("s", "b1", "b2")
		s.endAttempt("s", store.Refused)
		got := s.runWithInput("release\n", "release", "s", "--reason", "r")
		require.Equal(s, exitDone, got.code, got.err)
		assert.Contains(s, got.err, "The lane goes on behind the batch that halted it.")
		assert.Contains(s, s.runOK("history"), `service "s", halted by b1`)
		assert.Contains(s, s.runOK("history", "--lane", "s"), `service "s", halted by b1`)

		got = s.runWithInput("requeue\n", "requeue", "b1", "--reason", "r")
		require.Equal(s, exitDone, got.code, got.err)
		assert.Contains(s, got.err, "The batch will be sent again")
		assert.Contains(s, got.out, "requeue: b1 was rejected, is queued")

		s.runOK("policy", "s", "quarantine", "--reason", "r")
		s.endAttempt("s", store.Refused)
		assert.Contains(s, s.runOK("acquit", "b1", "--reason", "r"), "b1 was rejected, is no longer set aside")
		assert.Contains(s, s.runFailing(exitUsage, "settings"), "settings wants one SERVICE")
		assert.Contains(s, s.runFailing(exitUsage, "show", ""), `no batch has the id ""`)
	})
}

func TestSentenceOfAReceipt(t *testing.T) {
	assert.Equal(t, "t1: valid", receiptText(batch.Receipt{TransactionID: "t1", Valid: true}))
	assert.Equal(t, "t2: not valid: too little money", receiptText(batch.Receipt{TransactionID: "t2", Message: "too little money"}))
}

// The command does not ask for confirmation of an act that cannot be done.
func TestRefusedBeforeItIsAsked(t *testing.T) {
	inStores(t, func(s *testCommand) {
		s.recordServing("s")
		s.add("s", "b1", "b2", "b3")
		s.runOK("cancel", "b3", "--reason", "r", "--yes")
		s.add("d", "d1")
		s.endAttempt("d", store.Doubtful)
		for _, c := range []struct {
			code     int
			wantText string
			args     []string
		}{
			{exitRefused, "cannot cancel from rejected", []string{"cancel", "b3"}},
			{exitRefused, "cannot cancel from", []string{"cancel", "d1"}},
			{exitRefused, "cannot requeue from queued", []string{"requeue", "b1"}},
			{exitSettings, "resend_quiet of service", []string{"requeue", "d1"}},
			{exitRefused, "not allowed", []string{"decide", "b1", "committed"}},
			{exitRefused, "cannot keep a batch from taking effect", []string{"withdraw", "b1"}},
			{exitRefused, "not in quarantine", []string{"acquit", "b2"}},
			{exitRefused, "not paused", []string{"resume", "--all"}},
			{exitRefused, "not halted", []string{"release", "s"}},
		} {
			got := s.runWithInput(c.args[0]+"\n", append(c.args, "--reason", "r")...)
			assert.Equal(s, c.code, got.code, "%v: %s", c.args, got.err)
			assert.Contains(s, got.err, c.wantText, "%v", c.args)
			assert.NotContains(s, got.err, "to go on:", "%v", c.args)
		}
	})
}

func TestDecide(t *testing.T) {
	inStores(t, func(s *testCommand) {
		s.recordServing("s")
		s.add("s", "b1")
		s.endAttempt("s", store.Doubtful)
		s.runFailing(exitUsage, "decide", "b1", "maybe", "--reason", "r", "--yes")
		s.runFailing(exitUsage, "decide", "committed", "--reason", "r", "--yes")
		got := s.runWithInput("decide\n", "decide", "b1", "not_executed_send_again", "--reason", "it is not there")
		require.Equal(s, exitDone, got.code, got.err)
		assert.Contains(s, got.err, "executed twice")
		assert.Equal(s, batch.Unknown, s.readRecord("b1").State)
	})
}

// A batch is withdrawn only if the record says that its ledger can do so.
func TestWithdraw(t *testing.T) {
	inStores(t, func(s *testCommand) {
		s.add("s", "b1")
		s.endAttempt("s", store.Doubtful)
		assert.Contains(s, s.runFailing(exitSettings, "withdraw", "b1", "--reason", "r", "--yes"), "dltbatch instances which lanes an instance does not take")
		s.recordServing("s")
		assert.Contains(s, s.runFailing(exitRefused, "withdraw", "b1", "--reason", "r", "--yes"), "cannot keep a batch from taking effect")
		text, err := relied.Record{Settings: relied.SettingsOf("s", dlt.Traits{Name: "ledger", Withdraws: true}, time.Minute, queuer.Serial())}.Text()
		require.NoError(s, err)
		_, err = texts.Put(s.Context(), s.st, store.Text{Kind: store.TextTraits, Name: "ledger", Body: text})
		require.NoError(s, err)
		got := s.runWithInput("withdraw\n", "withdraw", "b1", "--reason", "r")
		require.Equal(s, exitRefused, got.code, got.err)
		assert.NotContains(s, got.err, "What takes effect first decides")
		assert.Contains(s, got.err, "no prepared bytes are kept for it")

		s.add("t", "i1")
		q := store.ClaimQuery{
			Lanes: []batch.ServiceID{"t"}, Limit: 1, Window: 1, TTL: time.Minute,
			Resend: func(batch.ServiceID) store.Resend { return store.Resend{HarmlessFor: dlt.Forever} },
		}
		claimed, err := s.st.Claim(s.Context(), q, func(batch.Lane) []batch.Run { return []batch.Run{{0}} })
		require.NoError(s, err)
		c := claimed.Runs[0].Batches[0]
		_, err = s.st.KeepPrepared(s.Context(), []store.Prepared{{Ref: c.Ref, Version: c.Version, Bytes: []byte("nonce 7")}})
		require.NoError(s, err)
		applied, err := s.st.Record(s.Context(), []store.Outcome{{Ref: c.Ref, Version: c.Version, By: batch.BySubmitter, Finding: store.Accepted}})
		require.NoError(s, err)
		require.Equal(s, store.Written, applied[0].Result)
		s.recordServing("t")
		_, err = texts.Put(s.Context(), s.st, store.Text{Kind: store.TextTraits, Name: "ledger", Body: strings.Replace(text, `"service":"s"`, `"service":"t"`, 1)})
		require.NoError(s, err)
		assert.Contains(s, s.runFailing(exitRefused, "cancel", "i1", "--reason", "wrong address", "--yes"), "dltbatch withdraw ID")
		assert.Contains(s, s.runOK("withdraw", "i1", "--reason", "wrong address", "--yes"), "i1 was pending, is withdrawn: what takes effect first decides")
		assert.True(s, runJSON[showAnswer](s, "show", "i1").Batch.Withdrawn)
		assert.Contains(s, s.runOK("show", "i1"), "withdrawn")
		assert.Contains(s, s.runOK("explain", "i1"), "it is withdrawn")
		assert.Contains(s, s.runOK("history", "i1"), "withdraw")
	})
}

func TestActsUponLanes(t *testing.T) {
	inStores(t, func(s *testCommand) {
		s.add("s", "b1", "b2")
		assert.True(s, runJSON[batch.Control](s, "pause", "s", "--reason", "r").Closed())
		paused := runJSON[laneList](s, "lanes", "s").Controls[0]
		assert.Equal(s, "ada", paused.PausedBy.Actor)
		s.runOK("policy", "s", "halt", "--reason", "r")
		s.runFailing(exitRefused, "resume", "s", "--reason", "r", "--seen", itoa(paused.Version))
		assert.False(s, runJSON[batch.Control](s, "resume", "s", "--reason", "r").Closed())

		s.endAttempt("s", store.Refused)
		assert.Contains(s, s.runOK("lanes"), "halt")
		s.runFailing(exitRefused, "release", "s", "--reason", "r")
		assert.False(s, runJSON[batch.Control](s, "release", "s", "--reason", "r", "--yes").Closed())
		assert.Len(s, runJSON[historyList](s, "history", "--lane", "s").History, 4)
		all := runJSON[historyList](s, "history", "--limit", "3")
		require.Len(s, all.History, 3)
		for all.Next != "" {
			more := runJSON[historyList](s, "history", "--limit", "3", "--after", string(all.Next))
			all.History, all.Next = append(all.History, more.History...), more.Next
		}
		assert.GreaterOrEqual(s, len(all.History), 4)
		assert.True(s, slices.IsSortedFunc(all.History, func(a, b batch.Act) int { return b.At.Compare(a.At) }), "the newest first")
		assert.Contains(s, s.runOK("history", "--limit", "1"), "more: --after ")
		assert.Contains(s, s.runFailing(exitUsage, "history", "--lane", "s", "--limit", "1"), "--limit")
		assert.Contains(s, s.runFailing(exitUsage, "history", "--after", "x"), "a cursor that Acts returned")
		s.runFailing(exitUsage, "policy", "s", "explode", "--reason", "r")
		s.runFailing(exitUsage, "pause", "--reason", "r")
		s.runFailing(exitUsage, "pause", "s", "--all", "--reason", "r")
		s.runFailing(exitUsage, "release", "--reason", "r")

		s.runFailing(exitRefused, "pause", "--all", "--reason", "r")
		s.runOK("pause", "--all", "--reason", "r", "--yes")
		assert.False(s, runJSON[laneList](s, "lanes").Everything.PausedAt.IsZero())
		require.Equal(s, exitDone, s.runWithInput("resume\n", "resume", "--all", "--reason", "r").code)
		assert.True(s, runJSON[laneList](s, "lanes").Everything.PausedAt.IsZero())
	})
}

// An act that would end no pause and no halt is an error, because after a typing error the lane
// that was meant is still held.
func TestNothingToEnd(t *testing.T) {
	inStores(t, func(s *testCommand) {
		s.add("lane-1", "b1")
		s.runOK("pause", "lane-1", "--reason", "r")
		assert.Contains(s, s.runFailing(exitRefused, "resume", "lane-l", "--reason", "r"), "the lane lane-l is not paused, so nothing was done")
		assert.Contains(s, s.runFailing(exitRefused, "release", "lane-1", "--reason", "r", "--yes"), "the lane lane-1 is not halted")
		assert.Contains(s, s.runFailing(exitRefused, "resume", "--all", "--reason", "r", "--yes"), "everything as a whole is not paused")
		assert.Contains(s, s.runFailing(exitRefused, "resume", "", "--reason", "r"), "the lane '' is not paused")
		assert.Empty(s, runJSON[historyList](s, "history", "--lane", "lane-l").History)
		s.runOK("resume", "lane-1", "--reason", "r")
		s.runFailing(exitRefused, "resume", "lane-1", "--reason", "r")
	})
}

// For a lane that the store does not know, and for the beginning of a name, the command asks; in a
// pipe it needs --yes.
func TestALaneThatNobodyKnows(t *testing.T) {
	inStores(t, func(s *testCommand) {
		s.add("payments", "b1")
		for _, args := range [][]string{{"pause", "paymemts"}, {"policy", "paymemts", "halt"}} {
			args = append(args, "--reason", "r")
			assert.Contains(s, s.runFailing(exitRefused, args...), "Nobody knows the lane paymemts")
			assert.Equal(s, exitRefused, s.runWithInput("yes\n", args...).code)
		}
		assert.Empty(s, runJSON[laneList](s, "lanes").Controls, "nothing was done")
		got := s.runWithInput("pause\n", "pause", "pay", "--reason", "r")
		require.Equal(s, exitDone, got.code, got.err)
		assert.Contains(s, got.err, "No lane is named pay; payments begins so")
		assert.Equal(s, batch.ServiceID("payments"), runJSON[laneList](s, "lanes").Controls[0].Service)
		s.runOK("resume", "payments", "--reason", "r")
		s.runOK("pause", "new-lane", "--reason", "r", "--yes")
		s.runOK("resume", "new-lane", "--reason", "r")
		assert.Contains(s, s.runFailing(exitUsage, "cancel", "b", "--reason", "r", "--yes"), "whole id: b1")
		require.Equal(s, exitDone, s.runWithInput("cancel\n", "cancel", "b", "--reason", "r").code)
		assert.Equal(s, batch.Rejected, s.readRecord("b1").State)
		assert.Len(s, runJSON[batchesAnswer](s, "list", "--all", "--service", "paym").Batches, 1)
	})
}

func TestAcquit(t *testing.T) {
	inStores(t, func(s *testCommand) {
		s.add("s", "b1")
		s.runOK("policy", "s", "quarantine", "--reason", "r")
		s.endAttempt("s", store.Refused)
		assert.Len(s, runJSON[batchesAnswer](s, "list", "--quarantined").Batches, 1)
		s.runOK("acquit", "b1", "--reason", "r")
		assert.False(s, s.readRecord("b1").Quarantined)
	})
}

// For a lane that no instance serves, settings says that nothing is on record.
func TestSettingsOfALaneThatNobodyServes(t *testing.T) {
	inStores(t, func(s *testCommand) {
		s.recordServing("s")
		s.add("t", "b1")
		assert.Contains(s, s.runOK("settings", "s"), "ledger   ledger\n")
		assert.Equal(s, "no instance serves lane t, and none has served it: nothing is on record\n", s.runOK("settings", "t"))
		assert.Contains(s, s.runOK("settings", "u"), "nobody knows a lane of this name")
	})
}

// While instances disagree about settings a requeue is refused, until a person runs agree.
func TestAgree(t *testing.T) {
	inStores(t, func(s *testCommand) {
		s.recordServing("s")
		s.add("s", "b1")
		s.endAttempt("s", store.Refused)

		other := relied.SettingsOf("s", dlt.Traits{Name: "ledger", ResendQuiet: time.Hour}, time.Minute, queuer.Serial())
		mine := relied.SettingsOf("s", dlt.Traits{Name: "ledger", ResendQuiet: time.Minute}, time.Minute, queuer.Serial())
		text, err := relied.Record{Settings: mine, Other: &other}.Text()
		require.NoError(s, err)
		_, err = texts.Put(s.Context(), s.st, store.Text{Kind: store.TextTraits, Name: "ledger", Body: text})
		require.NoError(s, err)

		assert.Contains(s, s.runFailing(exitSettings, "requeue", "b1", "--reason", "r", "--yes"), "dltbatch agree")
		s.runFailing(exitRefused, "agree", "s", "--reason", "r")
		s.runOK("agree", "s", "--reason", "r", "--yes")
		assert.Equal(s, "nobody disagrees\n", s.runOK("agree", "s", "--reason", "r"))
		s.runOK("requeue", "b1", "--reason", "r", "--yes")
	})
}
