package claim_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/claim"
	"github.com/dltbatch/dltbatch/store"
)

// Promise 4: until is computed from a time before the claim.
func TestUntilIsReckonedFromBeforeTheClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &claimTest{}
		first := true
		w.claim = func(store.ClaimQuery, store.Choose) (store.Claimed, error) {
			if !first {
				return store.Claimed{}, nil
			}
			first = false
			time.Sleep(7 * time.Second) // the database is slow
			return store.Claimed{Runs: []store.ClaimedRun{claimedRun("s", "a", "b"), claimedRun("t", "c")}}, nil
		}
		w.payloads = func(refs []store.Ref) ([][]byte, error) {
			time.Sleep(3 * time.Second)
			return [][]byte{[]byte("1"), []byte("2"), []byte("3")}, nil
		}
		q, stop := w.start(t, nil)
		time.Sleep(2 * time.Second)
		q.Hint("s")
		q.Hint("t")
		time.Sleep(20 * time.Second)
		synctest.Wait()
		stop()
		until := 2*time.Second + claimTTL - claimMargin
		assert.Equal(t, []post{
			{12 * time.Second, until, []batch.ID{"a", "b"}, []string{"1", "2"}},
			{12 * time.Second, until, []batch.ID{"c"}, []string{"3"}},
		}, w.posts())
		assert.Equal(t, 3, w.claims, "each claim is told")
		assert.Empty(t, w.returned)
	})
}

// If the payloads of claims cannot be loaded, the claims are put back.
func TestPayloadErrorsPutClaimsBack(t *testing.T) {
	for name, c := range map[string]struct {
		payloads func([]store.Ref) ([][]byte, error)
		posted   []batch.ID
		returned int
	}{
		"the store fails": {func([]store.Ref) ([][]byte, error) { return nil, errStore }, nil, 4},
		"too few":         {func([]store.Ref) ([][]byte, error) { return [][]byte{[]byte("x")}, nil }, nil, 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &claimTest{payloads: c.payloads, claim: answerOnce(store.Claimed{
					Runs: []store.ClaimedRun{claimedRun("s", "a", "b", "c"), claimedRun("t", "d")},
				})}
				q, stop := w.start(t, nil)
				q.Hint("s")
				time.Sleep(time.Second)
				synctest.Wait()
				stop()
				assert.Empty(t, w.posts())
				assert.Len(t, w.returned, c.returned)
			})
		})
	}
}

// Promise 6: if the reports about a claim take their whole time, the batches are posted
// nevertheless. If they were put back, they would be claimed and reported again, for ever.
func TestAClaimOfWhichMuchIsReportedIsPosted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &claimTest{claim: answerOnce(store.Claimed{Runs: []store.ClaimedRun{claimedRun("a", "1"), claimedRun("b", "2")}})}
		q, stop := w.start(t, func(o *claim.Options) {
			o.Claimed = func(ctx context.Context, _ store.ClaimedRun) { <-ctx.Done() }
		})
		q.Hint("a", "b")
		time.Sleep(claimTTL)
		synctest.Wait()
		require.Len(t, w.posts(), 2)
		assert.Equal(t, claimTTL/4, w.posts()[1].postedAfter, "the rest of the claim's time is for the requests")
		assert.Empty(t, w.returned)
		stop()
	})
}

// Promise 6: a lost payload holds up its own lane and no other.
func TestAMissingPayloadHoldsItsOwnLaneOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &claimTest{payloads: func(refs []store.Ref) (out [][]byte, _ error) {
			for _, r := range refs {
				if r.Key.ID == "gone" {
					out = append(out, nil)
				} else {
					out = append(out, []byte("x"))
				}
			}
			return out, nil
		}}
		w.claim = func(q store.ClaimQuery, _ store.Choose) (c store.Claimed, _ error) {
			for _, s := range q.Lanes {
				if s == "bad" {
					c.Runs = append(c.Runs, claimedRun("bad", "before", "gone", "after"))
				} else {
					c.Runs = append(c.Runs, claimedRun(s, batch.ID("of "+s)))
				}
			}
			return c, nil
		}
		q, stop := w.start(t, nil)
		q.Hint("bad", "good") // both lanes in one claim
		time.Sleep(10 * time.Millisecond)
		q.Hint("better")
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		stop()
		var ids []batch.ID
		for _, p := range w.posts() {
			ids = append(ids, p.ids...)
		}
		assert.Equal(t, []batch.ID{"before", "gone", "after", "of good", "of better"}, ids, "the others at once")
		assert.Equal(t, []string{"x", "", "x"}, w.posts()[0].payloads, "the submitter stops the run there")
		assert.Empty(t, w.returned)
		require.Len(t, w.heldErrors, 1)
		require.ErrorIs(t, w.heldErrors[0], batch.ErrNotFound)
	})
}

// Payloads that came with a claim are not loaded again, the others are, and each goes with its own
// batch. A payload may be missing in both cases.
func TestOnlyPayloadsThatDidNotComeAreLoaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var loaded []batch.ID
		w := &claimTest{payloads: func(refs []store.Ref) (out [][]byte, _ error) {
			for _, r := range refs {
				loaded = append(loaded, r.Key.ID)
				out = append(out, []byte("loaded "+r.Key.ID))
			}
			return out, nil
		}}
		runs := []store.ClaimedRun{claimedRun("s", "a", "b", "c"), claimedRun("t", "d"), claimedRun("u", "e", "f")}
		row := int64(0)
		for _, r := range runs {
			for i := range r.Batches {
				row++
				r.Batches[i].Row = row
			}
		}
		w.claim = answerOnce(store.Claimed{Runs: runs, Payloads: map[int64][]byte{2: []byte("came b"), 4: nil, 6: []byte("came f")}})
		q, stop := w.start(t, nil)
		q.Hint("s", "t", "u")
		time.Sleep(time.Second)
		synctest.Wait()
		stop()
		assert.Equal(t, []batch.ID{"a", "c", "e"}, loaded)
		var sent [][]string
		for _, p := range w.posts() {
			sent = append(sent, p.payloads)
		}
		assert.Equal(t, [][]string{{"loaded a", "came b", "loaded c"}, {""}, {"loaded e", "came f"}}, sent)
		require.Len(t, w.heldErrors, 1)
		require.ErrorIs(t, w.heldErrors[0], batch.ErrNotFound)
	})
}

// If all payloads came with the claim, none is loaded.
func TestNothingIsLoadedWhereAllPayloadsCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &claimTest{payloads: func([]store.Ref) ([][]byte, error) { return nil, errStore }}
		r := claimedRun("s", "a")
		r.Batches[0].Row = 1
		w.claim = answerOnce(store.Claimed{Runs: []store.ClaimedRun{r}, Payloads: map[int64][]byte{1: []byte("came")}})
		q, stop := w.start(t, nil)
		q.Hint("s")
		time.Sleep(time.Second)
		synctest.Wait()
		stop()
		require.Len(t, w.posts(), 1)
		assert.Empty(t, w.returned)
	})
}

// No claim is made while no hand could post its batches.
func TestNothingIsClaimedWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &claimTest{lanes: serviceNames(3)}
		w.room = func() (int, time.Duration) {
			switch {
			case w.now() < 2*time.Second:
				return 0, 2*time.Second - w.now()
			case w.now() < 4*time.Second:
				return 0, 0 // ask again only when woken
			}
			return 2, 0
		}
		q, stop := w.start(t, nil)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		require.Empty(t, w.claimCalls())
		time.Sleep(time.Second)
		q.Wake()
		time.Sleep(time.Second)
		synctest.Wait()
		stop()
		require.Equal(t, []claimCall{
			{4 * time.Second, []batch.ServiceID{"s00", "s01"}, 2},
			{4 * time.Second, []batch.ServiceID{"s02"}, 1},
		}, w.claimCalls(), "then as much as there is room for, and the hints were kept")
	})
}

func TestRoomIsAskedForWhenItMayHaveChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &claimTest{lanes: serviceNames(1)}
		w.room = func() (int, time.Duration) {
			if left := 1300*time.Millisecond - w.now(); left > 0 {
				return 0, left
			}
			return 1, 0
		}
		_, stop := w.start(t, nil)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		stop()
		assert.Equal(t, []time.Duration{1300 * time.Millisecond}, w.askTimes("s00"))
	})
}

// A service to which nothing may be sent waits until that ends. Other services go on.
func TestClosedServicesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &claimTest{list: func(store.LanesQuery) ([]batch.ServiceID, error) { return nil, nil }}
		w.closedFor = func(s batch.ServiceID) time.Duration {
			if s == "closed" {
				return max(0, 3500*time.Millisecond-w.now())
			}
			return 0
		}
		q, stop := w.start(t, nil)
		q.Hint("closed")
		q.Hint("open")
		time.Sleep(9 * time.Second)
		synctest.Wait()
		stop()
		assert.Equal(t, []time.Duration{0}, w.askTimes("open"))
		assert.Equal(t, []time.Duration{3500 * time.Millisecond}, w.askTimes("closed"))
	})
}

// After a stop no claim begins, and the claims under way are not cut short.
func TestAStopLetsTheClaimsUnderWayEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &claimTest{}
		w.claim = func(q store.ClaimQuery, _ store.Choose) (store.Claimed, error) {
			time.Sleep(time.Second)
			return store.Claimed{Runs: []store.ClaimedRun{claimedRun(q.Lanes[0], "of "+batch.ID(q.Lanes[0]))}}, nil
		}
		q, stop := w.start(t, func(o *claim.Options) { o.LanesPerClaim = 1 })
		q.Hint("a", "b", "c")
		synctest.Wait()
		stop()
		require.Len(t, w.posts(), 2, "what they took is handed over")
		assert.ElementsMatch(t, [][]batch.ID{{"of a"}, {"of b"}}, [][]batch.ID{w.posts()[0].ids, w.posts()[1].ids})
		assert.Len(t, w.claimCalls(), 2, "and c is not begun")
	})
}

// A strategy's bad answer, or its panic, is reported by Held, and nothing of the lane is claimed.
func TestABadStrategyIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &claimTest{}
		w.claim = func(q store.ClaimQuery, choose store.Choose) (store.Claimed, error) {
			assert.Equal(t, 10, q.Window)
			for _, s := range q.Lanes {
				assert.Empty(t, choose(batch.Lane{Service: s, Batches: []batch.LaneBatch{{ID: "x", State: batch.Pending}}}))
			}
			return store.Claimed{}, nil
		}
		q, stop := w.start(t, func(o *claim.Options) {
			o.Strategy = strategyOf(func(batch.Lane) []batch.Run { return []batch.Run{{0}} })
		})
		q.Hint("s")
		time.Sleep(time.Second)
		synctest.Wait()
		stop()
		assert.Len(t, w.heldErrors, 1)
	})
}

// Claims are made beside each other, on different lanes and within the room. A lane that is named
// during its claim is claimed again after it.
func TestClaimsBesideEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &claimTest{}
		w.room = func() (int, time.Duration) { return 5, 0 }
		w.claim = func(q store.ClaimQuery, _ store.Choose) (store.Claimed, error) {
			time.Sleep(time.Second)
			return store.Claimed{}, nil
		}
		q, stop := w.start(t, func(o *claim.Options) { o.LanesPerClaim = 3 })
		q.Hint("a", "b", "c", "d", "e", "f", "g")
		synctest.Wait()
		q.Hint("a")
		time.Sleep(2500 * time.Millisecond)
		synctest.Wait()
		stop()
		require.ElementsMatch(t, []claimCall{
			{0, []batch.ServiceID{"a", "b", "c"}, 3},
			{0, []batch.ServiceID{"d", "e"}, 2},
		}, w.claimCalls()[:2])
		var after []batch.ServiceID
		for _, c := range w.claimCalls()[2:] {
			assert.Equal(t, time.Second, c.sentAfter)
			after = append(after, c.lanes...)
		}
		assert.ElementsMatch(t, []batch.ServiceID{"a", "f", "g"}, after)
	})
}

// Hints about a lane during its claim cause another claim after it, and not beside it.
func TestALaneIsClaimedFromOnceAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &claimTest{}
		w.claim = func(store.ClaimQuery, store.Choose) (store.Claimed, error) {
			time.Sleep(time.Second)
			return store.Claimed{}, nil
		}
		q, stop := w.start(t, nil)
		q.Hint("a")
		synctest.Wait()
		q.Hint("a", "b")
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		stop()
		assert.Equal(t, []time.Duration{0, time.Second}, w.askTimes("a"))
		assert.Equal(t, []time.Duration{0}, w.askTimes("b"), "nor does it hold up another")
	})
}

// While lanes that a scan found wait for their turn, there is no further scan: it would find lanes
// that other instances work on, and lanes that wait already. Once these lanes had their turn, the
// scan goes on to all others.
func TestAScanWaitsForWhatTheLastOneCameUpon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := true
		w := &claimTest{lanes: serviceNames(9)}
		w.room = func() (int, time.Duration) {
			if locked(w, func() bool { return full }) {
				return 0, 0
			}
			return 100, 0
		}
		q, stop := w.start(t, nil)
		time.Sleep(20 * scan)
		assert.Len(t, locked(w, func() []store.LanesQuery { return w.scans }), 1)
		w.mu.Lock()
		full = false
		w.mu.Unlock()
		q.Wake()
		at := w.now()
		time.Sleep(3 * scan)
		synctest.Wait()
		for _, s := range w.lanes {
			if asked := w.askTimes(s); assert.NotEmpty(t, asked, s) {
				assert.LessOrEqual(t, asked[0]-at, 2*scan+scan/4, s)
			}
		}
		stop()
	})
}
