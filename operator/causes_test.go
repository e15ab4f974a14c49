package operator_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// addLane adds n batches to a lane.
func (o *testDesk) addLane(service batch.ServiceID, n int, footprints ...batch.Footprint) (bs []batch.Batch) {
	o.Helper()
	for i := range n {
		b := newBatch(service, batch.ID(fmt.Sprintf("%s%05d", service, i)))
		if i < len(footprints) {
			b.Footprint = footprints[i]
		}
		bs = append(bs, b)
	}
	o.add(bs...)
	return bs
}

func (o *testDesk) causes() operator.Causes {
	o.Helper()
	c, err := o.Causes(o.ctx(), operator.CausesQuery{})
	require.NoError(o, err)
	assert.False(o, c.Incomplete)
	return c
}

// groupOf returns the group that has the reason r.
func groupOf(t *testing.T, c operator.Causes, r operator.Reason) operator.Group {
	t.Helper()
	for _, g := range c.Groups {
		if g.Ledger = ""; g.Reason == r {
			return g
		}
	}
	require.Failf(t, "no such group", "%+v among %+v", r, c.Groups)
	return operator.Group{}
}

// Lanes that wait for several reasons make one group for each reason, with its size and an example
// that says what to do.
func TestCauses(t *testing.T) {
	inStores(t, func(o *testDesk) {
		assert.Empty(o, o.causes().Groups)
		lanes := []batch.ServiceID{"decision", "doubt", "free", "halted", "paused", "wait"}
		o.recordServing(traits, queuer.Serial(), lanes...)
		undecided := o.addLane("decision", 7)
		o.addLane("doubt", 5)
		o.addLane("free", 3)
		halter := o.addLane("halted", 4)[0]
		o.addLane("paused", 6)
		o.addLane("wait", 2)
		_, err := o.SetPolicy(o.ctx(), batch.Control{Scope: batch.Only("halted")}, batch.PolicyHalt, ada)
		require.NoError(o, err)
		_, err = o.Pause(o.ctx(), batch.Only("paused"), ada)
		require.NoError(o, err)
		for lane, f := range map[batch.ServiceID]store.Finding{"decision": store.Doubtful, "doubt": store.Doubtful, "halted": store.Refused, "wait": store.Failed} {
			o.recordEnds(f, o.claim(queuer.Serial(), lane)...)
		}
		o.recordAnswer(store.Undecidable, undecided[0].Key())

		c := o.causes()
		assert.Equal(o, 26, c.Batches)
		assert.Equal(o, 6, c.Lanes)
		counts := 0
		for i, g := range c.Groups {
			counts += g.Batches
			assert.Equal(o, 1, g.Lanes, "%+v", g)
			assert.False(o, g.Sampled || g.AtLeast)
			assert.Positive(o, g.Oldest)
			require.NotEmpty(o, g.Example.ID, "%+v", g.Reason)
			e, err := o.Explain(o.ctx(), g.Example.Key)
			require.NoError(o, err)
			assert.Equal(o, e.Cause, g.Cause)
			assert.Equal(o, e.Version, g.Example.Version)
			assert.NotEmpty(o, g.Example.Text)
			if i > 0 {
				assert.GreaterOrEqual(o, c.Groups[i-1].Batches, g.Batches, "the largest first")
			}
		}
		assert.Equal(o, c.Batches, counts)
		decision := operator.Reason{Cause: batch.CauseDecision, Remedy: batch.RemedyDecide, State: batch.Submitting, Kind: batch.KindBusy}
		assert.Equal(o, 1, groupOf(o.T, c, decision).Batches)
		behind := groupOf(o.T, c, operator.Reason{
			Cause: batch.CauseBehind, Remedy: batch.RemedyBlocker, Root: batch.CauseDecision, State: batch.Submitting, Kind: batch.KindBusy,
		})
		assert.Equal(o, 6, behind.Batches)
		assert.Equal(o, undecided[0].Key(), behind.Blocker.Key)
		assert.Contains(o, behind.Blocker.Text, "a person has to decide")
		assert.Equal(o, 4, groupOf(o.T, c, operator.Reason{
			Cause: batch.CauseBehind, Remedy: batch.RemedyBlocker, Root: batch.CauseInDoubt, State: batch.Submitting, Kind: batch.KindBusy,
		}).Batches)
		halted := groupOf(o.T, c, operator.Reason{Cause: batch.CauseHalted, Remedy: batch.RemedyRelease, State: batch.Rejected, Kind: batch.KindBusy})
		assert.Equal(o, 3, halted.Batches)
		assert.Equal(o, halter.Key(), halted.Blocker.Key)
		assert.Equal(o, 6, groupOf(o.T, c, operator.Reason{Cause: batch.CausePaused, Remedy: batch.RemedyResume, State: batch.Queued}).Batches)
		assert.Equal(o, 1, groupOf(o.T, c, operator.Reason{Cause: batch.CauseReady, Remedy: batch.RemedyWait, State: batch.Queued}).Batches)
		assert.Equal(o, 2, groupOf(o.T, c, operator.Reason{
			Cause: batch.CauseBehind, Remedy: batch.RemedyBlocker, Root: batch.CauseReady, State: batch.Queued,
		}).Batches)
		assert.Equal(o, 1, groupOf(o.T, c, operator.Reason{Cause: batch.CauseDelayed, Remedy: batch.RemedyWait, State: batch.Delayed, Kind: batch.KindBusy}).Batches)
	})
}

// Causes does not guess where a setting is not on record: the batches form a group that says which
// setting is missing.
func TestCausesWithoutARecord(t *testing.T) {
	inStores(t, func(o *testDesk) {
		o.addLane("s", 5)
		o.addLane("t", 3)
		c := o.causes()
		require.Len(o, c.Groups, 1)
		g := c.Groups[0]
		assert.Equal(o, operator.CauseUnknown, g.Cause)
		assert.Contains(o, g.Why, operator.ErrNotRecorded.Error())
		assert.Equal(o, 8, g.Batches)
		assert.Equal(o, 2, g.Lanes)
		assert.Empty(o, g.Example.Text)
		assert.NotEmpty(o, g.Example.ID, "a lane whose settings to look at")

		// The strategy is the application's own. Batches under way are explained without it.
		o.recordServing(traits, ownStrategy(), "s", "t")
		o.recordEnds(store.Accepted, o.claim(queuer.Serial(), "s")...)
		c = o.causes()
		assert.Equal(o, 1, groupOf(o.T, c, operator.Reason{Cause: batch.CauseLedger, Remedy: batch.RemedyWait, State: batch.Pending}).Batches)
		require.Len(o, c.Groups, 2)
		assert.Equal(o, 7, c.Groups[0].Batches)
		assert.Contains(o, c.Groups[0].Why, "main.own")
	})
}

// Conflicts are examined for the first batches of a lane only, and the group is marked as sampled.
func TestCausesOfConflictsAreSampled(t *testing.T) {
	inStores(t, func(o *testDesk) {
		o.recordServing(traits, queuer.Parallel(0), "long", "short")
		writes := func(a string) batch.Footprint { return batch.Footprint{Writes: []string{a}} }
		long := make([]batch.Footprint, 100)
		for i := range long {
			long[i] = writes(fmt.Sprintf("%02x", i))
		}
		o.addLane("long", 100, long...)
		o.addLane("short", 3, writes("aa"), writes("bb"), writes("aa01"))
		c := o.causes()
		ready := groupOf(o.T, c, operator.Reason{Cause: batch.CauseReady, Remedy: batch.RemedyWait, State: batch.Queued})
		behind := groupOf(o.T, c, operator.Reason{Cause: batch.CauseBehind, Remedy: batch.RemedyBlocker, Root: batch.CauseReady, State: batch.Queued})
		assert.Equal(o, 22, ready.Batches, "two of the short lane, and twenty that were looked at")
		assert.Equal(o, 81, behind.Batches)
		assert.True(o, behind.Sampled)
		assert.Equal(o, 103, c.Batches)
	})
}

// At most 1,000 waiting batches of a lane are counted.
func TestCausesOfALongLane(t *testing.T) {
	inStores(t, func(o *testDesk) {
		o.recordServing(traits, queuer.Serial(), "s")
		o.addLane("s", 1100)
		c := o.causes()
		assert.True(o, c.AtLeast)
		assert.Equal(o, 1000, c.Batches)
		assert.True(o, c.Groups[0].AtLeast)
	})
}

// slowStore is a store whose pages take time, or fail.
type slowStore struct {
	store.Store
	queries     []store.SurveyQuery
	pagesBefore int // number of pages before the slow one
	err         error
}

func (s *slowStore) Survey(ctx context.Context, q store.SurveyQuery) (store.Survey, error) {
	s.queries = append(s.queries, q)
	if len(s.queries) > s.pagesBefore && q.Services == nil {
		if s.err != nil {
			return store.Survey{}, s.err
		}
		<-ctx.Done()
		return store.Survey{}, ctx.Err()
	}
	return s.Store.Survey(ctx, q)
}

// Lanes that were not reached in time are missing from the report, and the report says which.
func TestCausesInTime(t *testing.T) {
	st := &slowStore{Store: memory.New(), pagesBefore: 1}
	o := newTestDesk(t, st)
	for i := range 5500 {
		o.addLane(batch.ServiceID(fmt.Sprintf("lane%05d", i)), 2)
	}
	c, err := o.Causes(t.Context(), operator.CausesQuery{Within: 50 * time.Millisecond})
	require.NoError(t, err)
	assert.True(t, c.Incomplete)
	assert.Equal(t, batch.ServiceID("lane04999"), c.After)
	assert.Equal(t, 5000, c.Lanes)
	assert.Equal(t, 10000, c.Batches)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = o.Causes(ctx, operator.CausesQuery{})
	require.ErrorIs(t, err, context.Canceled, "the caller's end is no report")
	broken := errors.New("broken")
	_, err = newTestDesk(t, &slowStore{Store: st.Store, err: broken}).Causes(t.Context(), operator.CausesQuery{})
	require.ErrorIs(t, err, broken)
}

// The cost grows with the lanes, not with the batches: a page of lanes is one query, and reads one
// waiting batch of each lane.
func TestCausesCost(t *testing.T) {
	st := &slowStore{Store: memory.New(), pagesBefore: 100}
	o := newTestDesk(t, st)
	o.recordServing(traits, queuer.Serial(), "a", "b", "c")
	for _, lane := range []batch.ServiceID{"a", "b", "c"} {
		o.addLane(lane, 900)
	}
	assert.Equal(t, 2700, o.causes().Batches)
	require.Len(t, st.queries, 2, "a page, and the examples")
	assert.Equal(t, 1, st.queries[0].Window)
	assert.LessOrEqual(t, st.queries[1].Window, 2)
	assert.LessOrEqual(t, len(st.queries[1].Services), 3)
}
