package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// newShardedCommand returns a testCommand with n shards, and a batch in several lanes of each.
func newShardedCommand(t *testing.T, n int) *testCommand {
	s := &testCommand{T: t}
	for range n {
		s.shards = append(s.shards, memory.New())
	}
	return s
}

// withShardArgs returns the arguments with those that name all shards.
func (s *testCommand) withShardArgs(args ...string) []string {
	for i := range s.shards {
		args = append(args, fmt.Sprint("--schema=", i))
	}
	return args
}

// addToShard adds a batch to the shard of its lane.
func (s *testCommand) addToShard(service batch.ServiceID, id batch.ID) {
	s.Helper()
	st := s.shards[store.ShardOf(service, len(s.shards))]
	require.NoError(s, st.Add(s.Context(), batch.Batch{Service: service, ID: id, DataChangeID: "key of " + string(id), Payload: []byte("x")}))
}

// laneOfShard returns the name of a lane that belongs to a shard.
func (s *testCommand) laneOfShard(shard int) string {
	for i := 0; ; i++ {
		if lane := fmt.Sprint("lane-", i); store.ShardOf(batch.ServiceID(lane), len(s.shards)) == shard {
			return lane
		}
	}
}

// Lists have the rows of all shards in one order, page by page; a text is looked up in all shards;
// an act goes to the shard of its lane or batch.
func TestSeveral(t *testing.T) {
	s := newShardedCommand(t, 4)
	var ids []string
	for i := range 12 {
		id := fmt.Sprintf("%02d-batch", i)
		s.addToShard(batch.ServiceID(s.laneOfShard(i*7%4)), batch.ID(id))
		ids = append(ids, id)
		time.Sleep(time.Microsecond)
	}
	var got []string
	for after := ""; ; {
		page := runJSON[batchesAnswer](s, s.withShardArgs("list", "--limit=5", "--after="+after)...)
		for _, r := range page.Batches {
			got = append(got, string(r.ID))
		}
		if after = string(page.Next); after == "" {
			break
		}
	}
	assert.Equal(t, ids, got)
	var lanes []string
	for page := runJSON[laneList](s, s.withShardArgs("lanes", "--limit=3")...); ; page = runJSON[laneList](s, s.withShardArgs("lanes", "--limit=3", "--after="+string(*page.Next))...) {
		for _, l := range page.Lanes {
			lanes = append(lanes, string(l.Service))
		}
		if page.Next == nil {
			break
		}
	}
	assert.ElementsMatch(t, []string{s.laneOfShard(0), s.laneOfShard(1), s.laneOfShard(2), s.laneOfShard(3)}, lanes)
	assert.IsIncreasing(t, lanes)

	assert.Contains(t, s.runOK(s.withShardArgs("show", "07")...), "07-batch")
	assert.Contains(t, s.runOK(s.withShardArgs("show", "--data-change-id", "key of 07-batch")...), "07-batch")
	assert.Contains(t, s.runFailing(exitUsage, s.withShardArgs("show", "0")...), `"0" is the beginning of more than one batch`)
	assert.Contains(t, s.runFailing(exitNotFound, s.withShardArgs("show", "nothing")...), "no id is nothing")
	assert.Contains(t, s.runFailing(exitUsage, s.withShardArgs("history", "--lane", "lane-")...), "more than one lane")
	for _, text := range []string{"03", "key of 03", s.laneOfShard(1)} {
		assert.Contains(t, s.runOK(s.withShardArgs("search", text)...), s.laneOfShard(3*7%4), text)
	}
	assert.Equal(t, 3, strings.Count(s.runOK(s.withShardArgs("search", "--limit=3")...), "-batch"))

	s.runOK(s.withShardArgs("cancel", "05-batch", "--reason=r", "--yes")...)
	assert.Equal(t, batch.Rejected, runJSON[showAnswer](s, s.withShardArgs("show", "05-batch")...).Batch.State)
	s.runOK(s.withShardArgs("pause", s.laneOfShard(2), "--reason=r", "--yes")...)
	control, err := s.shards[2].Control(t.Context(), batch.Only(batch.ServiceID(s.laneOfShard(2))))
	require.NoError(t, err)
	assert.False(t, control.PausedAt.IsZero())
	paused := runJSON[shardAnswers[batch.Control]](s, s.withShardArgs("pause", "--all", "--reason=r", "--yes")...)
	require.Len(t, paused.Shards, 4)
	assert.Equal(t, 3, paused.Shards[3].Shard)
	assert.Contains(t, s.runOK(s.withShardArgs("lanes")...), "all of shard 3")
	assert.Equal(t, 1, strings.Count(s.runOK(s.withShardArgs("causes")...), "All shards: Everything is paused"))
	_, err = s.shards[1].Control(t.Context(), batch.Everything())
	require.NoError(t, err)
	assert.Contains(t, s.runFailing(exitUsage, s.withShardArgs("resume", "--all", "--seen=1", "--reason=r", "--yes")...), "--seen")
	s.runOK(s.withShardArgs("resume", "--all", "--reason=r", "--yes")...)
	assert.Contains(t, s.runFailing(exitRefused, s.withShardArgs("resume", "--all", "--reason=r", "--yes")...), "is not paused")
	var acts []string
	for _, a := range runJSON[historyList](s, s.withShardArgs("history")...).History {
		acts = append(acts, string(a.Action))
	}
	assert.Len(t, acts, 2+4+4)

	state := runJSON[shardIncidents[statusAnswer]](s, s.withShardArgs("status", "--refresh")...)
	require.Len(t, state.Shards, 4)
	text := s.runOK(s.withShardArgs("status")...)
	assert.Regexp(t, `open batches +11 in 4 lanes`, text)
	assert.Regexp(t, `(?m)^3 +`, text)
	assert.Contains(t, s.runOK(s.withShardArgs("instances")...), "SHARD")
	doctor := s.runWithInput("", s.withShardArgs("doctor")...)
	assert.Contains(t, doctor.out, "all shards")
	assert.Contains(t, s.runFailing(exitUsage, s.withShardArgs("prune", "--older-than=24h", "--yes")...), "one database")
}

// A shard that fails is named first, and the others are shown. A command that needs its answer is
// refused.
func TestAShardThatIsDown(t *testing.T) {
	s := newShardedCommand(t, 4)
	s.downShard = 2
	for i := range 4 {
		s.addToShard(batch.ServiceID(s.laneOfShard(i)), batch.ID(fmt.Sprint("batch-", i)))
	}
	for _, args := range [][]string{{"list"}, {"lanes"}, {"status"}, {"causes"}, {"search", "batch-"}, {"instances"}, {"history"}, {"show", "batch-1"}} {
		got := s.runWithInput("", s.withShardArgs(args...)...)
		assert.Equal(t, exitFailed, got.code, args)
		assert.True(t, strings.HasPrefix(got.err, "dltbatch: shard 2: connection refused\n"), got.err)
		assert.Contains(t, got.err, "shard 2 did not answer", args)
		if args[0] == "list" || args[0] == "search" || args[0] == "show" {
			assert.Contains(t, got.out, "batch-1", args)
		}
	}
	asJSON := s.runWithInput("", s.withShardArgs("list", "--json")...)
	var said failure
	require.NoError(t, json.NewDecoder(strings.NewReader(asJSON.err)).Decode(&said))
	assert.Equal(t, failure{"shard 2: connection refused", exitFailed}, said)

	assert.Contains(t, s.runFailing(exitFailed, s.withShardArgs("cancel", "batch-1", "--reason=r", "--yes")...), "--service")
	got := s.runWithInput("", s.withShardArgs("cancel", "batch-1", "--service="+s.laneOfShard(1), "--reason=r", "--yes")...)
	assert.Equal(t, exitDone, got.code, got.err)
	assert.Contains(t, s.runFailing(exitFailed, s.withShardArgs("pause", s.laneOfShard(2), "--reason=r", "--yes")...), "the lane belongs to shard 2")
	got = s.runWithInput("", s.withShardArgs("pause", s.laneOfShard(3), "--reason=r", "--yes")...)
	assert.Equal(t, exitDone, got.code, got.err)
}

// freezingStore is a store whose server freezes after it was opened: at the first read, or at the
// first act.
type freezingStore struct {
	store.Store
	freezesReads, freezesActs bool
}

func (f freezingStore) Control(ctx context.Context, s batch.Scope) (batch.Control, error) {
	if f.freezesReads {
		<-ctx.Done()
		return batch.Control{}, ctx.Err()
	}
	return f.Store.Control(ctx, s)
}

func (f freezingStore) Steer(ctx context.Context, s store.Steering) (batch.Control, bool, error) {
	if f.freezesActs {
		<-ctx.Done()
		return batch.Control{}, false, ctx.Err()
	}
	return f.Store.Steer(ctx, s)
}

// A shard whose server freezes during a command does not block the other shards.
func TestAShardThatFreezes(t *testing.T) {
	for _, f := range []freezingStore{{freezesReads: true}, {freezesActs: true}} {
		synctest.Test(t, func(t *testing.T) {
			s := newShardedCommand(t, 4)
			f.Store = s.shards[1]
			s.shards[1] = f
			if f.freezesReads {
				got := s.runWithInput("", s.withShardArgs("causes")...)
				assert.Equal(t, exitFailed, got.code)
				assert.Contains(t, got.err, "shard 1: no answer within")
			}
			got := s.runWithInput("", s.withShardArgs("pause", "--all", "--reason=r", "--yes")...)
			assert.Equal(t, exitFailed, got.code)
			assert.Contains(t, got.err, "shard 1: no answer within 1m0s")
			assert.Contains(t, got.err, "shard 1 did not answer")
			assert.Contains(t, got.out, "all of shard 3")
			for i, st := range s.shards {
				if i != 1 {
					control, err := st.Control(t.Context(), batch.Everything())
					require.NoError(t, err)
					assert.False(t, control.PausedAt.IsZero(), i)
				}
			}
			for i, st := range s.shards {
				s.shards[i] = freezingStore{Store: st, freezesActs: true}
			}
			got = s.runWithInput("", s.withShardArgs("pause", "--all", "--reason=r", "--yes", "--json")...)
			assert.Equal(t, exitFailed, got.code)
			assert.Empty(t, got.out)
			assert.Contains(t, got.err, "all shards did not answer")
		})
	}
}

// refusingStore is a store in which another person has always acted just before.
type refusingStore struct{ store.Store }

func (refusingStore) Steer(_ context.Context, s store.Steering) (batch.Control, bool, error) {
	return batch.Control{}, false, &batch.MovedOnError{Seen: s.Seen}
}

// A shard that refuses an act has answered: the command says so, and its exit code is that of a
// refusal.
func TestAShardThatRefuses(t *testing.T) {
	s := newShardedCommand(t, 3)
	s.runOK(s.withShardArgs("pause", "--all", "--reason=r", "--yes")...)
	s.shards[1] = refusingStore{s.shards[1]}
	got := s.runWithInput("", s.withShardArgs("resume", "--all", "--reason=r", "--yes")...)
	assert.Equal(t, exitRefused, got.code, got.err)
	assert.Contains(t, got.err, "shard 1 refused")
	assert.Equal(t, 1, strings.Count(got.err, "moved on"), got.err)
	assert.NotContains(t, got.err, "did not answer")
	assert.Contains(t, got.out, "all of shard 2")
	s.downShard = 2
	got = s.runWithInput("", s.withShardArgs("resume", "--all", "--reason=r", "--yes")...)
	assert.Equal(t, exitFailed, got.code, got.err)
}

// Shards in the wrong order, missing shards, and lists of different lengths are refused.
func TestWrongShards(t *testing.T) {
	s := newShardedCommand(t, 3)
	assert.Contains(t, s.runFailing(exitUsage, "list", "--schema=1", "--schema=0", "--schema=2"), `database 1 is shard 1 of 3 of the set "pay"`)
	assert.Contains(t, s.runFailing(exitUsage, "list", "--schema=0", "--schema=1"), "in the order of their numbers")
	assert.Contains(t, s.runFailing(exitUsage, s.withShardArgs("list", "--dsn=postgres://one", "--dsn=postgres://two")...), "2 data source names and 3 schemas")
	s.dsn = "a.db\nb.db"
	assert.Contains(t, s.runFailing(exitFailed, "list"), "no such database file")
}

// The console covers all shards, and its search leads to the right shard.
func TestConsoleOverShards(t *testing.T) {
	s := newShardedCommand(t, 2)
	s.addToShard(batch.ServiceID(s.laneOfShard(1)), "b1")
	at, stop := s.serveConsole(s.withShardArgs()...)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	code, text := s.request(client, http.MethodGet, at.URL+"search?q=b1", "", nil)
	assert.Equal(t, http.StatusOK, code)
	assert.Contains(t, text, "shard 1 of 2")
	exit, errs := stop()
	assert.Equal(t, exitDone, exit, errs)
}
