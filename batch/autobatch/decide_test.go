package autobatch

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
)

func TestDue(t *testing.T) {
	o := (&Options{MaxSize: 10, MaxBytes: 1000, FlushAge: time.Second}).withDefaults()
	for name, c := range map[string]struct {
		load order.PartyLoad
		want time.Duration
	}{
		"waits for company": {order.PartyLoad{Orders: 9, Bytes: 999, Oldest: 400 * time.Millisecond}, 600 * time.Millisecond},
		"by count":          {order.PartyLoad{Orders: 10}, 0},
		"by bytes":          {order.PartyLoad{Orders: 1, Bytes: 1000}, 0},
		"by age":            {order.PartyLoad{Orders: 1, Oldest: time.Second}, 0},
		"urgent":            {order.PartyLoad{Orders: 1, Urgent: true}, 0},
		"a split group":     {order.PartyLoad{Orders: 1, Split: true}, 0},
	} {
		assert.Equal(t, c.want, o.waitLeft(c.load), name)
	}
	o = (&Options{MaxBytes: -1, FlushAge: time.Second}).withDefaults()
	assert.Positive(t, o.waitLeft(order.PartyLoad{Orders: 1, Bytes: 1 << 40}), "unlimited")
	o = (*Options)(nil).withDefaults()
	assert.LessOrEqual(t, o.waitLeft(order.PartyLoad{Orders: 1}), time.Duration(0), "by default nobody waits")
}

func batchOf(n int, group string, state batch.State, kind batch.ErrorKind) order.Batch {
	b := order.Batch{Group: group, Record: batch.Record{
		Key: batch.Key{Service: "p", ID: "b"}, Version: 7, State: state, FinalAt: time.Unix(1, 0),
	}}
	if kind != "" {
		b.Record.Error = &batch.SubmissionError{Kind: kind}
	}
	for i := range n {
		b.Orders = append(b.Orders, order.Ref{ID: order.ID(fmt.Sprintf("o%04d", i)), Version: int64(i)})
	}
	return b
}

// TestSettle has the new states of the orders of every possible batch: no cause is inferred, and a
// doubt changes nothing.
func TestSettle(t *testing.T) {
	type want struct {
		state    order.State
		isHalved bool
	}
	kinds := []batch.ErrorKind{
		"", batch.KindRejected, batch.KindBusy, batch.KindUnavailable, batch.KindMisconfigured, batch.KindNotYet, batch.KindDoubt,
		batch.KindFailed, batch.KindInvalid, batch.KindExhausted, batch.KindCancelled, batch.KindGivenUp, "of tomorrow",
	}
	for _, state := range batch.States() {
		for _, kind := range kinds {
			for _, n := range []int{1, 2, 5} {
				for _, group := range []string{"", "g.01"} {
					for _, doubt := range []bool{false, true} {
						for _, final := range []bool{false, true} {
							b := batchOf(n, group, state, kind)
							if doubt {
								b.Record.DoubtSince = time.Unix(1, 0)
							}
							if !final {
								b.Record.FinalAt = time.Time{}
							}
							say := fmt.Sprint(state, kind, n, group, doubt, final)
							s, ok := settlementOf(b)
							var w want
							switch {
							case !final:
							case state == batch.Committed:
								w.state = order.Confirmed
							case doubt:
							case state == batch.Invalid || (state == batch.Rejected && (kind == batch.KindRejected || kind == batch.KindInvalid)):
								w.state, w.isHalved = order.Queued, n > 1
								if n == 1 {
									w.state = order.Quarantined
								}
							case state == batch.Rejected && (kind == batch.KindCancelled || kind == batch.KindGivenUp || kind == "" || kind == "of tomorrow"):
								// These orders must not be put back: the batch that was given up
								// may still be executed, and another batch would have the orders'
								// effect once more.
								w.state = order.Failed
							case state == batch.Rejected:
								w.state = order.Queued
							}
							require.Equal(t, w.state != 0, ok, say)
							if !ok {
								require.Empty(t, s.Orders, say)
								continue
							}
							require.Equal(t, b.Record.Key, s.Batch)
							require.Equal(t, b.Record.Version, s.Version)
							require.Len(t, s.Orders, n, say)
							groups := map[string]int{}
							for i, v := range s.Orders {
								require.Equal(t, b.Orders[i], v.Ref, say)
								require.Equal(t, w.state, v.State, say)
								groups[v.Group]++
							}
							switch {
							case w.isHalved:
								require.Len(t, groups, 2, say)
							case w.state == order.Queued:
								require.Equal(t, map[string]int{group: n}, groups, "put back as they were: %s", say)
							}
						}
					}
				}
			}
		}
	}
}

// Halving any number of orders, again and again, ends with each order alone, in order, under group
// names that a store accepts.
func TestHalves(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 10 {
		n := 2 + rng.IntN(1000)
		seen := map[string]bool{}
		var alone []order.ID
		var divide func(refs []order.Ref, group string, depth int)
		divide = func(refs []order.Ref, group string, depth int) {
			require.LessOrEqual(t, 1<<depth, 4*n, "each time by half")
			if len(refs) == 1 {
				alone = append(alone, refs[0].ID)
				return
			}
			parts := map[string][]order.Ref{}
			var names []string
			for _, v := range splitInHalves(refs, group, "seed") {
				if !slices.Contains(names, v.Group) {
					names = append(names, v.Group)
				}
				parts[v.Group] = append(parts[v.Group], v.Ref)
				require.Equal(t, order.Queued, v.State)
			}
			require.Len(t, names, 2)
			require.True(t, slices.IsSorted(names))
			require.LessOrEqual(t, len(parts[names[0]])-len(parts[names[1]]), 1)
			for _, name := range names {
				require.False(t, seen[name], "no two groups have one name")
				require.LessOrEqual(t, len(name), batch.MaxIDLen)
				require.True(t, strings.HasPrefix(name, group))
				seen[name] = true
				divide(parts[name], name, depth+1)
			}
		}
		all := batchOf(n, "", batch.Invalid, "").Orders
		divide(all, "", 0)
		require.Len(t, alone, n)
		require.True(t, slices.IsSorted(alone))
	}
	two := batchOf(2, "", batch.Invalid, "").Orders
	require.NotEqual(t, splitInHalves(two, "", "a")[0].Group, splitInHalves(two, "", "b")[0].Group)
}

func TestRefusedByTheBuilder(t *testing.T) {
	one := order.Waiting{Order: order.Order{ID: "o"}, Version: 3}
	alone, split := refusalOf([]order.Waiting{one}, errors.New("no sense"))
	require.Empty(t, split)
	require.Len(t, alone, 1)
	assert.Equal(t, order.Quarantined, alone[0].State)
	assert.Equal(t, order.Ref{ID: "o", Version: 3}, alone[0].Ref)
	assert.Contains(t, alone[0].Error.Error(), "no sense")
	other := order.Waiting{Order: order.Order{ID: "q"}, Version: 1}
	alone, split = refusalOf([]order.Waiting{one, other}, errors.New("no sense"))
	require.Empty(t, alone)
	require.Len(t, split, 2)
	assert.NotEqual(t, split[0].Group, split[1].Group)
}

func TestRound(t *testing.T) {
	assert.Zero(t, roundOf([]order.Waiting{{Version: 1}, {Version: 1}}), "order.NewRow is at version 1")
	assert.EqualValues(t, 4, roundOf([]order.Waiting{{Version: 3}, {Version: 3}}))
}

func TestRoundAgain(t *testing.T) {
	one := func(version int64, at int64) order.Waiting {
		return order.Waiting{Version: version, Created: time.UnixMicro(at)}
	}
	const day = int64(24 * time.Hour / time.Microsecond)
	seen := map[int64]bool{}
	for _, orders := range [][]order.Waiting{
		{one(1, 20000*day), one(1, 20000*day+1)},
		{one(2, 20000*day), one(1, 20000*day+1)},
		{one(1, 20030*day), one(1, 20000*day+1)},
		{one(1, 20030*day), one(1, 20030*day+1)},
	} {
		seen[roundAgain(orders)] = true
	}
	assert.Len(t, seen, 4)
	assert.NotContains(t, seen, int64(0))
	assert.Positive(t, roundAgain(slices.Repeat([]order.Waiting{one(1, 20000*day)}, 6000)), "as BuildRound promises")
}
