package lanes

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
)

type laneIDs = []batch.ServiceID

// takeAndEnd takes up to n lanes and ends their claim.
func takeAndEnd(t *Table, n int) laneIDs {
	lanes := t.Take(n)
	t.Done(lanes...)
	return lanes
}

func TestLanesKeepTheirOrderAndAreThereOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(10)
		l.Name(time.Now(), "c", "a", "c", "b", "a", "")
		assert.Zero(t, l.Next(), "at once")
		assert.Equal(t, laneIDs{"c", "a"}, takeAndEnd(l, 2))
		l.Name(time.Now(), "c") // taken, and then named again, so behind the others
		assert.Equal(t, laneIDs{"b", "", "c"}, takeAndEnd(l, 10))
		assert.Empty(t, takeAndEnd(l, 10))
		assert.Equal(t, time.Hour, l.Next())
	})
}

// A lane that a scan found stands behind all named lanes, and stands in one queue only.
func TestFoundLanesStandBehindNamedOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(10)
		l.Name(time.Now().Add(time.Hour), "later")
		l.Name(time.Now(), "named")
		l.Find(laneIDs{"a", "later", "b", "named", "c", "a"})
		l.Name(time.Now().Add(time.Hour), "b")
		l.Name(time.Now(), "c")
		found, all := l.Waiting()
		assert.Equal(t, 3, found)
		assert.Equal(t, 5, all)
		assert.Equal(t, laneIDs{"named", "c"}, takeAndEnd(l, 9))
		assert.Zero(t, l.Next())
		assert.Equal(t, laneIDs{"a"}, takeAndEnd(l, 1))
		l.Find(laneIDs{"c"})
		assert.Equal(t, laneIDs{"later", "b", "c"}, takeAndEnd(l, 9))
		assert.Empty(t, takeAndEnd(l, 9))
		time.Sleep(2 * time.Hour)
		assert.Empty(t, takeAndEnd(l, 9), "once, and not again for the time that had been named")
		l.Find(nil)
		assert.Empty(t, l.lanes, "forgotten")
		l.Find(laneIDs{"a"})
		l.Name(time.Now(), "a")
		assert.Equal(t, laneIDs{"a"}, takeAndEnd(l, 9))
		assert.Equal(t, time.Hour, l.Next())
		found, all = l.Waiting()
		assert.Zero(t, found)
		assert.Zero(t, all)
	})
}

// There is one claim of found lanes at a time, of a few lanes, so that named lanes always find
// room.
func TestFoundLanesLeaveRoomForNamedOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(2)
		l.Find(laneIDs{"a", "b", "c"})
		assert.Equal(t, laneIDs{"a", "b"}, l.Take(9))
		assert.Empty(t, l.Take(9), "while that claim is under way")
		assert.Equal(t, time.Hour, l.Next())
		l.Name(time.Now(), "named")
		assert.Zero(t, l.Next())
		assert.Equal(t, laneIDs{"named"}, l.Take(9))
		l.Done("named")
		l.Done("a")
		assert.Empty(t, l.Take(9), "b is still looked at")
		l.Back(time.Now().Add(time.Minute), "b")
		assert.Zero(t, l.Next())
		assert.Equal(t, laneIDs{"c"}, l.Take(9))
		l.Failed("c")
		l.Find(laneIDs{"d"})
		assert.Equal(t, laneIDs{"d"}, l.Take(9))
	})
}

// Found lanes have one turn in five, even where there is always another named lane.
func TestFoundLanesHaveTheirTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(1)
		l.Find(laneIDs{"f1", "f2", "f3"})
		var got laneIDs
		for range 12 {
			l.Name(time.Now(), "n")
			got = append(got, takeAndEnd(l, 1)...)
		}
		assert.Equal(t, laneIDs{"n", "n", "n", "n", "f1", "n", "n", "n", "n", "f2", "n", "n"}, got)
	})
}

func TestLanesForLaterAreTakenInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, begin := New(10), time.Now()
		l.Name(begin.Add(3*time.Second), "3")
		l.Name(begin.Add(time.Second), "1")
		l.Name(begin.Add(2*time.Second), "2")
		assert.Equal(t, time.Second, l.Next())
		time.Sleep(time.Second - 1)
		assert.Empty(t, takeAndEnd(l, 10))
		time.Sleep(time.Nanosecond)
		assert.Equal(t, laneIDs{"1"}, takeAndEnd(l, 10))
		l.Name(time.Now(), "now")
		time.Sleep(time.Minute)
		assert.Equal(t, laneIDs{"now", "2", "3"}, takeAndEnd(l, 10))
	})
}

func TestTheEarlierOfTwoTimesCounts(t *testing.T) {
	for name, c := range map[string]struct{ first, second, want time.Duration }{
		"later, then sooner":  {5 * time.Second, time.Second, time.Second},
		"sooner, then later":  {time.Second, 5 * time.Second, time.Second},
		"later, then at once": {5 * time.Second, 0, 0},
		"at once, then later": {0, 5 * time.Second, 0},
		"past, then later":    {-time.Second, time.Second, 0},
		"twice the same":      {time.Second, time.Second, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, begin := New(10), time.Now()
				l.Name(begin.Add(c.first), "s")
				l.Name(begin.Add(c.second), "s")
				assert.Equal(t, c.want, l.Next())
				if c.want > 0 {
					time.Sleep(c.want - 1)
					assert.Empty(t, takeAndEnd(l, 10))
					time.Sleep(time.Nanosecond)
				}
				assert.Equal(t, laneIDs{"s"}, takeAndEnd(l, 10))
				time.Sleep(time.Hour)
				assert.Empty(t, takeAndEnd(l, 10), "once, not again at the other time")
				l.Find(nil)
				assert.Empty(t, l.lanes)
			})
		})
	}
}

// A lane that fails rests longer after each failure, and the usual time again after a success.
func TestPausesGrowUntilASuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(10)
		fail := func() time.Duration {
			l.Name(time.Now(), "s")
			time.Sleep(l.Next())
			require.Equal(t, laneIDs{"s"}, l.Take(1))
			return l.Failed("s")
		}
		first, last := fail(), time.Duration(0)
		for range 30 {
			last = fail()
		}
		assert.Less(t, first, 20*time.Millisecond)
		assert.Greater(t, last, 3*time.Second)
		assert.Equal(t, last, l.Next(), "and is named for the end of its rest")
		time.Sleep(last)
		l.Back(time.Now(), l.Take(1)...)
		assert.Greater(t, fail(), 3*time.Second, "it was not tried")
		time.Sleep(l.Next())
		assert.Equal(t, laneIDs{"s"}, takeAndEnd(l, 1))
		assert.Less(t, fail(), 20*time.Millisecond)
	})
}

// A lane that has failed is taken alone until a claim of it succeeds: its claim may hang again,
// and would delay the lanes in the same claim.
func TestALaneThatFailedGoesAlone(t *testing.T) {
	for _, in := range []request{requestNamed, requestFound} {
		synctest.Test(t, func(t *testing.T) {
			l := New(10)
			put := func(lanes ...batch.ServiceID) {
				if in == requestNamed {
					l.Name(time.Now(), lanes...)
				} else {
					l.Find(lanes)
				}
			}
			put("bad")
			require.Equal(t, laneIDs{"bad"}, l.Take(9))
			l.Failed("bad")
			time.Sleep(time.Second)
			put("a", "b")
			require.Equal(t, laneIDs{"bad"}, l.Take(9), "first, and alone")
			assert.Equal(t, laneIDs{"a", "b"}, takeAndEnd(l, 9))
			put("a", "b")
			l.Failed("bad")
			time.Sleep(time.Second)
			if in == requestNamed {
				require.Equal(t, laneIDs{"a", "b"}, takeAndEnd(l, 9), "they come before it, and without it")
			}
			require.Equal(t, laneIDs{"bad"}, takeAndEnd(l, 9))
			takeAndEnd(l, 9)
			put("a", "bad", "b")
			assert.Equal(t, laneIDs{"a", "bad", "b"}, takeAndEnd(l, 9), "it went well")
		})
	}
}

// A claim that finds nothing does not make the table forget that a run of the lane was under way.
// Another instance may have recorded the run's outcome, and the lane is then named once this
// process learns of that.
func TestARunEndsAfterALookInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(10)
		l.Name(time.Now(), "s")
		l.Take(1)
		l.RunBegan("s", time.Now().Add(time.Second))
		l.Done("s")
		time.Sleep(time.Second)
		l.Name(time.Now(), "s")
		assert.Equal(t, laneIDs{"s"}, takeAndEnd(l, 1))
		l.Rest("s", time.Now().Add(time.Millisecond))
		l.Done("s")
		l.RunEnded("s")
		time.Sleep(time.Millisecond)
		assert.Equal(t, laneIDs{"s"}, takeAndEnd(l, 1))
		l.Done("s")
		l.RunEnded("s")
		assert.Empty(t, l.Take(1), "once")
	})
}

// After any sequence of events, each lane stands in the queue that the rule wants, and lanes are
// taken in the order of their times.
func TestTheTableFollowsTheRule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(1, 1))
		l, claimed := New(3), map[batch.ServiceID]bool{}
		end := func(s batch.ServiceID) {
			delete(claimed, s)
			switch rng.IntN(4) {
			case 0:
				l.Failed(s)
			case 1:
				l.Back(time.Now().Add(time.Second), s)
			case 2:
				l.Rest(s, time.Now().Add(time.Second))
				l.Done(s)
			default:
				l.RunBegan(s, time.Now().Add(time.Second))
				l.Done(s)
			}
		}
		took, wasFound := 0, 0
		for range 10_000 {
			s := batch.ServiceID(fmt.Sprint(rng.IntN(40)))
			at := time.Now().Add(time.Duration(rng.IntN(2000)-500) * time.Millisecond)
			switch rng.IntN(6) {
			case 0, 1:
				l.Name(at, s)
			case 2:
				l.Free(at, s)
			case 3:
				l.Find(laneIDs{s})
			case 4:
				for s := range claimed {
					end(s)
				}
			default:
				n := 1 + rng.IntN(4)
				names, finds := dueLanes(l, requestNamed), dueLanes(l, requestFound)
				if l.foundClaimed > 0 {
					finds = nil
				}
				names, finds = lanesOfOneClaim(l, names), lanesOfOneClaim(l, finds)
				got := l.Take(n)
				took += len(got)
				if len(got) > 0 && len(finds) > 0 && got[0] == finds[0] {
					require.Equal(t, finds[:min(n, 3, len(finds))], got)
					wasFound++
				} else if len(names) > 0 || len(finds) > 0 {
					require.Equal(t, names[:min(n, len(names))], got)
					require.NotEmpty(t, got)
				}
				for _, s := range got {
					require.False(t, claimed[s], "two claims of a lane at once")
					claimed[s] = true
				}
			}
			checkQueues(t, l)
			time.Sleep(time.Duration(rng.IntN(50)) * time.Millisecond)
		}
		assert.Greater(t, took, 1000)
		assert.Greater(t, wasFound, 100)
	})
}

// dueLanes returns the lanes of a queue that are due now, in their order.
func dueLanes(t *Table, in request) (lanes laneIDs) {
	all := slices.Clone(t.queues.byRequest[in])
	slices.SortFunc(all, func(a, b *lane) int { return cmp.Or(a.dueAt.Compare(b.dueAt), cmp.Compare(a.tieBreak, b.tieBreak)) })
	for _, l := range all {
		if !l.dueAt.After(time.Now()) {
			lanes = append(lanes, l.service)
		}
	}
	return lanes
}

// lanesOfOneClaim returns the lanes that one claim may have: a lane that has failed is claimed
// alone.
func lanesOfOneClaim(t *Table, lanes laneIDs) laneIDs {
	for i, s := range lanes {
		if t.lanes[s].pauses != nil {
			return lanes[:max(i, 1)]
		}
	}
	return lanes
}

// checkQueues compares the queues with the rule, and with the table's results.
func checkQueues(t *testing.T, table *Table) {
	t.Helper()
	in, looks, next := [requestNamed + 1]int{}, 0, time.Hour
	for _, l := range table.lanes {
		when, request := l.due()
		in[request]++
		if request != l.queuedFor || !when.Equal(l.dueAt) || request != requestNone && table.queues.byRequest[request][l.queueIndex] != l {
			require.Fail(t, "out of place", "%+v", l)
		}
		if l.claimedAsFound {
			looks++
		}
	}
	for _, l := range table.lanes {
		if l.queuedFor == requestNamed || l.queuedFor == requestFound && looks == 0 {
			next = min(next, time.Until(l.dueAt))
		}
	}
	require.Equal(t, looks, table.foundClaimed)
	require.Equal(t, next, table.Next())
	found, all := table.Waiting()
	require.Equal(t, in[requestFound], found)
	require.Equal(t, in[requestFound]+in[requestNamed], all)
	require.Len(t, table.queues.byRequest[requestFound], found)
	require.Len(t, table.queues.byRequest[requestNamed], all-found)
}
