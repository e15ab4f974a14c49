package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/store/memory"
)

// A preview changes nothing. A run acts upon the batches of the preview, and reports those that
// have changed since.
func TestBulk(t *testing.T) {
	inStores(t, func(s *testCommand) {
		s.recordServing("s")
		s.add("s", "b1", "b2", "b3")
		s.runOK("pause", "s", "--reason", "r")
		file := filepath.Join(t.TempDir(), "selection.json")
		text := s.runOK("bulk", "preview", "cancel", "--cause", "paused", "--out", file)
		assert.Contains(s, text, "cancel: 3 batches")
		sel := runJSON[operator.Selection](s, "bulk", "preview", "cancel", "--cause", "paused", "--state", "queued")
		assert.Len(s, sel.Batches, 3)
		s.runFailing(exitUsage, "bulk", "preview", "cancel", "--out", file)
		assert.Equal(s, batch.Queued, s.readRecord("b1").State)

		written, err := os.ReadFile(file)
		require.NoError(s, err)
		seen, err := (&app{}).readSelectionFile(file, false)
		require.NoError(s, err)
		assert.Contains(s, text, "bulk run "+file+" --token "+seen.Token)
		s.runOK("cancel", "b2", "--reason", "r", "--yes")
		s.add("s", "b4")

		run := []string{"bulk", "run", file, "--token", seen.Token, "--reason", "ticket 9"}
		assert.Contains(s, s.runFailing(exitUsage, "bulk", "run", file, "--token", sel.Token+"x", "--reason", "r", "--yes"), "token")
		s.runFailing(exitUsage, "bulk", "run", file, "--token", seen.Token, "--yes")
		s.runFailing(exitRefused, run...)
		got := s.runWithInput("3\n", run...)
		assert.Equal(s, exitLeft, got.code)
		assert.Contains(s, got.out, "done to 2 of 3 batches")
		assert.Regexp(s, `(?m)^s +b2 +.*moved on`, got.out)
		assert.Equal(s, batch.Rejected, s.readRecord("b3").State)
		assert.Equal(s, batch.Queued, s.readRecord("b4").State)
		assert.Equal(s, "bulk "+seen.Token+": ticket 9", runJSON[historyList](s, "history", "b1").History[0].Reason)

		got = s.runWithInput(string(written), "bulk", "run", "-", "--token", seen.Token, "--reason", "r", "--yes", "--json")
		assert.Equal(s, exitRefused, got.code, "it is finished")
		assert.Contains(s, got.err, `"code": 4`)
		shown := s.runWithInput("", "bulk", "show", seen.Token)
		assert.Equal(s, exitLeft, shown.code)
		assert.Contains(s, shown.out, "done to 2 of 3 batches")
		list := runJSON[bulkList](s, "bulk", "list").Bulks
		require.Len(s, list, 1)
		assert.Equal(s, operator.BulkFinished, list[0].State)
		assert.Contains(s, s.runOK("bulk", "list"), seen.Token)
		s.runFailing(exitRefused, "bulk", "cancel", seen.Token, "--reason", "r")
		s.runFailing(exitNotFound, "bulk", "resume", "none", "--reason", "r", "--yes")
		s.runFailing(exitNotFound, "bulk", "show", "none")
		s.runFailing(exitUsage, "bulk", "run", "-", "--token", seen.Token, "--reason", "r")

		all := runJSON[operator.Selection](s, "bulk", "preview", "requeue", "--error", "cancelled")
		assert.Len(s, all.Batches, 3)
		s.runFailing(exitUsage, "bulk", "preview", "explode")
		s.runFailing(exitUsage, "bulk", "preview", "cancel", "--cause", "bored")
		s.runFailing(exitUsage, "bulk", "preview", "decide")
		assert.Empty(s, runJSON[operator.Selection](s, "bulk", "preview", "decide", "--ruling", "not_executed_send_again").Batches)
	})
}

// An action whose process ended is continued by its token, or cancelled.
func TestBulkResume(t *testing.T) {
	inStores(t, func(s *testCommand) {
		s.recordServing("s")
		s.add("s", "b1", "b2", "b3")
		sel := runJSON[operator.Selection](s, "bulk", "preview", "cancel")
		begin := func(sel operator.Selection) {
			d, err := operator.New(s.st)
			require.NoError(s, err)
			_, err = operator.NewBulks(d).Begin(s.Context(), sel, batch.By{Actor: "ada", Reason: "ticket 9"})
			require.NoError(s, err)
		}
		begin(sel)
		s.runFailing(exitUsage, "bulk", "resume", sel.Token, "--yes")
		s.runFailing(exitRefused, "bulk", "resume", sel.Token, "--reason", "r")
		assert.Contains(s, s.runOK("bulk", "show", sel.Token), "go on with: dltbatch bulk resume "+sel.Token)
		got := runJSON[bulkAnswer](s, "bulk", "resume", sel.Token, "--reason", "it died", "--actor", "bob", "--yes")
		assert.Equal(s, 3, got.Done)
		assert.Empty(s, got.NotDone)
		assert.Equal(s, "bob", got.Events[1].By.Actor)
		assert.Equal(s, batch.Rejected, s.readRecord("b3").State)

		sel = runJSON[operator.Selection](s, "bulk", "preview", "requeue")
		begin(sel)
		assert.Contains(s, s.runOK("bulk", "cancel", sel.Token, "--reason", "r"), "it was cancelled after 0")
		s.runFailing(exitRefused, "bulk", "resume", sel.Token, "--reason", "r", "--yes")
		assert.NotContains(s, s.runWithInput("0\n", "bulk", "resume", sel.Token, "--reason", "r").err, "to go on:", "it is over, so nobody is asked")
		assert.Equal(s, batch.Rejected, s.readRecord("b3").State)
	})
}

// A filter that every batch meets is a usage error, because a script with an empty variable must
// not act upon the whole store.
func TestFiltersThatExcludeNothing(t *testing.T) {
	s := &testCommand{T: t, st: memory.New()}
	s.recordServing("s")
	s.add("s", "b1", "b2")
	for flag, commands := range map[string][]string{
		"--older-than=-24h": {"list", "search", "bulk preview cancel"}, "--older-than=0s": {"list", "search", "bulk preview cancel"},
		"--newer-than=-1h": {"list", "search", "bulk preview cancel"}, "--newer-than=0s": {"list", "search", "bulk preview cancel"},
		"--state=": {"list", "search", "export", "export --orders", "orders", "bulk preview cancel"}, "--state=queued,": {"list", "bulk preview cancel"},
		"--cause=": {"search", "bulk preview cancel"}, "--error=": {"search", "bulk preview cancel"},
		"--error=no_such_kind": {"search", "bulk preview cancel"}, "--trace=": {"search"}, "--batch=": {"orders"},
	} {
		for _, command := range commands {
			got := s.runWithInput("", append(strings.Fields(command), flag)...)
			assert.Equal(t, exitUsage, got.code, "%s %s: %s", command, flag, got.out)
		}
	}
	assert.Contains(t, s.runFailing(exitUsage, "bulk", "preview", "cancel", "--older-than=-24h"), "--older-than is -24h0m0s: give an age above 0")
	assert.Contains(t, s.runFailing(exitUsage, "bulk", "preview", "cancel", "--error=refused"), "rejected, busy")
	assert.Len(t, runJSON[operator.Selection](s, "bulk", "preview", "cancel", "--newer-than=24h", "--state=queued").Batches, 2)
}

// The acts of one bulk action are one row of the history, with the token that names it.
func TestHistoryOfABulkActIsOneRow(t *testing.T) {
	inStores(t, func(s *testCommand) {
		var ids []batch.ID
		for i := range 63 {
			ids = append(ids, batch.ID(fmt.Sprintf("b%02d", i)))
		}
		s.add("s", ids...)
		s.add("t", "other")
		s.runOK("cancel", "other", "--reason", "alone", "--yes")
		file := filepath.Join(t.TempDir(), "sel")
		seen := runJSON[operator.Selection](s, "bulk", "preview", "cancel", "--service", "s", "--out", file)
		require.Len(s, seen.Batches, 63)
		ran := s.runWithInput("", "bulk", "run", file, "--token", seen.Token, "--reason", "ticket 9", "--yes") // prints the progress, too
		require.Equal(s, exitDone, ran.code, ran.err)
		text := s.runOK("history")
		assert.Equal(s, 3, strings.Count(text, "\n"), "a head and two rows: %s", text)
		assert.Regexp(s, `(?m) cancel +63 batches +queued -> rejected +bulk `+seen.Token+`: ticket 9$`, text)
		assert.Regexp(s, `(?m) cancel +63 batches .*\n.* cancel +other of service "t" `, text, "the newest first")
		assert.Regexp(s, `(?m) cancel +40\+ batches `, s.runOK("history", "--limit", "40"), "the rest is on the next page")
		assert.Len(s, runJSON[historyList](s, "history").History, 64, "JSON has each")
	})
}

// A bulk action and a search select by a tag and by the beginning of a lane's name. The beginning
// of several names is an error.
func TestSelectsByTagAndBeginning(t *testing.T) {
	inStores(t, func(s *testCommand) {
		for _, b := range []batch.Batch{
			{Service: "shipments", ID: "a1", Tags: batch.Tags{"invoice": "4711"}}, {Service: "shipments", ID: "a2", Tags: batch.Tags{"invoice": "4712"}},
			{Service: "payments-a", ID: "p1", Tags: batch.Tags{"invoice": "4711"}}, {Service: "payments-b", ID: "p2"},
		} {
			b.Payload = []byte("x")
			require.NoError(s, s.st.Add(s.Context(), b))
		}
		found := func(args ...string) (all []string) {
			for _, r := range runJSON[operator.SearchResult](s, append([]string{"search"}, args...)...).Batches {
				all = append(all, string(r.ID))
			}
			return all
		}
		assert.Equal(s, []string{"a1", "p1"}, found("--tag", "invoice=4711"))
		assert.Equal(s, []string{"a1", "p1"}, found("--tag", "4711"))
		assert.Equal(s, []string{"a1"}, found("--tag", "4711", "--service", "ship"))
		assert.Equal(s, []string{"a1", "a2"}, found("--service", "ship"))
		assert.Empty(s, found("--service", "none"))
		s.runFailing(exitUsage, "search", "--tag", "")
		assert.Contains(s, s.runFailing(exitUsage, "search", "--service", "pay"), "payments-a, payments-b")
		assert.Contains(s, s.runFailing(exitUsage, "export", "--service", "pay"), "payments-a, payments-b")
		assert.Equal(s, 2, strings.Count(s.runWithInput("", "export", "--service", "ship").out, "\n"))
		assert.Contains(s, s.runWithInput("", "export", "--service", "ship").err, "--service ship is the beginning of shipments")
		sel := runJSON[operator.Selection](s, "bulk", "preview", "cancel", "--tag", "4711")
		require.Len(s, sel.Batches, 2)
		assert.Equal(s, []batch.ID{"a1", "p1"}, []batch.ID{sel.Batches[0].ID, sel.Batches[1].ID})
		assert.Len(s, runJSON[operator.Selection](s, "bulk", "preview", "cancel", "--tag", "4711", "--service", "payments-a").Batches, 1)
	})
}
