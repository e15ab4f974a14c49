package groups_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/groups"
	"github.com/dltbatch/dltbatch/store"
)

func TestGroupsFillUntilTheLingerOrTheMaximum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeStore{}
		r := start(t, f, nil)
		begin := time.Now()
		r.put("a", "b")
		time.Sleep(time.Millisecond)
		r.put("c")
		time.Sleep(5 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, [][]string{{"a", "b", "c"}}, f.calls(), "one write for what comes within the linger")
		assert.Equal(t, 2*time.Millisecond, f.timesOfCalls()[0].Sub(begin), "which starts with the first")

		begin = time.Now()
		r.put("d", "e", "f", "g", "h")
		synctest.Wait()
		require.Equal(t, []string{"d", "e", "f", "g"}, f.calls()[1], "a full group does not linger")
		assert.Equal(t, begin, f.timesOfCalls()[1])
		time.Sleep(5 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, []string{"h"}, f.calls()[2])
		r.close()
		assert.Equal(t, []string{"a", "b", "c", "d", "e", "f", "g", "h"}, r.written(), "each once, in order")
	})
}

// Outcomes that became known together are written together and given to Done together. Otherwise a
// lane might go on before all outcomes that it waits for are known.
func TestWhatIsKnownTogetherIsWrittenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeStore{}
		r := start(t, f, nil)
		verdict := func(id string) store.Outcome {
			o := outcome(id)
			o.Finding, o.By = store.IsCommitted, batch.ByMonitor
			return o
		}
		r.Put(verdict("a"), verdict("b"), verdict("c"))
		synctest.Wait()
		require.Equal(t, [][]string{{"a", "b", "c"}}, f.calls())
		r.close()
	})
}

// A verdict is written at once, because the next batch of the lane waits for it. An Accepted
// lingers.
func TestAVerdictIsWrittenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeStore{}
		r := start(t, f, nil)
		begin := time.Now()
		r.putVerdicts("a")
		synctest.Wait()
		r.put("b", "c")
		time.Sleep(time.Millisecond)
		r.putVerdicts("d")
		synctest.Wait()
		require.Equal(t, [][]string{{"a"}, {"b", "c", "d"}}, f.calls(), "and takes along those that linger")
		assert.Equal(t, begin, f.timesOfCalls()[0])
		assert.Equal(t, begin.Add(time.Millisecond), f.timesOfCalls()[1])
		r.close()
	})
}

func TestWhatComesDuringAWriteIsWrittenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeStore{answer: func(_ context.Context, o []store.Outcome) ([]store.Applied, error) {
			time.Sleep(time.Millisecond)
			return writtenAnswers(o), nil
		}}
		r := start(t, f, nil)
		r.putVerdicts("a")
		synctest.Wait()
		r.putVerdicts("b", "c", "d")
		time.Sleep(5 * time.Millisecond)
		assert.Equal(t, [][]string{{"a"}, {"b", "c", "d"}}, f.calls())
		assert.Equal(t, time.Millisecond, f.timesOfCalls()[1].Sub(f.timesOfCalls()[0]))
		r.close()
	})
}

// After a write of many outcomes, later outcomes linger, so that there are fewer writes.
func TestVerdictsLingerAfterAWriteOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeStore{answer: func(_ context.Context, o []store.Outcome) ([]store.Applied, error) {
			time.Sleep(time.Millisecond)
			return writtenAnswers(o), nil
		}}
		r := start(t, f, func(o *groups.Settings) { o.MaxItems = 100 })
		begin := time.Now()
		r.putVerdicts("first")
		synctest.Wait()
		for i := range 16 {
			r.putVerdicts(fmt.Sprint("r", i))
		}
		time.Sleep(2500 * time.Microsecond)
		synctest.Wait()
		require.Len(t, f.calls(), 2)
		require.Len(t, f.calls()[1], 16)
		r.putVerdicts("a")
		time.Sleep(time.Millisecond)
		r.putVerdicts("b")
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, []string{"a", "b"}, f.calls()[2])
		assert.Equal(t, 4*time.Millisecond, f.timesOfCalls()[2].Sub(begin), "its end and the linger")
		begin = time.Now()
		r.putVerdicts("c")
		synctest.Wait()
		require.Equal(t, []string{"c"}, f.calls()[3])
		assert.Equal(t, begin, f.timesOfCalls()[3], "the burst is over")
		r.close()
	})
}

func TestCloseFlushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeStore{}
		r := start(t, f, func(o *groups.Settings) { o.Linger = time.Hour })
		begin := time.Now()
		r.put("a", "b", "c", "d", "e", "f")
		r.close()
		assert.Equal(t, []string{"a", "b", "c", "d", "e", "f"}, r.written())
		assert.Equal(t, begin, time.Now(), "and does not linger")
	})
}

// One row that cannot be written does not hold up the others of its group.
func TestAFailedGroupIsSplitUntilTheBadRowIsAlone(t *testing.T) {
	for bad := range 8 {
		t.Run(fmt.Sprint(bad), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				worst := fmt.Sprint("r", bad)
				f := &fakeStore{answer: func(_ context.Context, o []store.Outcome) ([]store.Applied, error) {
					if slices.Contains(ids(o), worst) {
						return nil, errTest
					}
					return writtenAnswers(o), nil
				}}
				r := start(t, f, func(o *groups.Settings) { o.MaxItems = 8; o.RetryFor = 10 * time.Second })
				var all []string
				for i := range 8 {
					all = append(all, fmt.Sprint("r", i))
				}
				r.put(all...)
				time.Sleep(100 * time.Millisecond) // the first retry is made after 50 ms
				synctest.Wait()
				want := slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == worst })
				assert.ElementsMatch(t, want, r.written(), "with the first retry, each once")
				assert.Contains(t, f.calls(), []string{worst}, "alone")
				time.Sleep(time.Minute)
				n := len(f.calls())
				time.Sleep(time.Hour)
				assert.Len(t, f.calls(), n, "given up after Retry")
				assert.ElementsMatch(t, want, r.written(), "and not told as written")
				require.NotEmpty(t, r.troubles())
				require.ErrorIs(t, r.troubles()[0], errTest)
				r.put("later")
				r.close()
				assert.Equal(t, "later", r.written()[len(r.written())-1])
			})
		})
	}
}

func TestAFailedGroupIsTriedAgainAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		f := &fakeStore{answer: func(_ context.Context, o []store.Outcome) ([]store.Applied, error) {
			if time.Since(begin) < 20*time.Second {
				return nil, errTest
			}
			return writtenAnswers(o), nil
		}}
		r := start(t, f, nil)
		r.put("a", "b", "c")
		time.Sleep(3 * time.Second)
		r.put("d", "e")
		time.Sleep(27 * time.Second)
		synctest.Wait()
		assert.ElementsMatch(t, []string{"a", "b", "c", "d", "e"}, r.written(), "each once")
		r.close()
		for id, at := range r.doneAt {
			assert.Less(t, at.Sub(begin), 26*time.Second, "%s: the pause is 5 s and its jitter at most", id)
		}
		assert.Less(t, len(f.calls()), 120, "with pauses that grow")
	})
}

// A write is never larger than a group, however many outcomes are repeated.
func TestNoWriteIsLargerThanAGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		f := &fakeStore{answer: func(_ context.Context, o []store.Outcome) ([]store.Applied, error) {
			if time.Since(begin) < 5*time.Second {
				return nil, errTest
			}
			return writtenAnswers(o), nil
		}}
		r := start(t, f, nil)
		for i := range 30 {
			r.put(fmt.Sprint("r", i))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Len(t, r.written(), 30)
		for _, g := range f.calls() {
			require.LessOrEqual(t, len(g), 4)
		}
		r.close()
	})
}

// A commit that a live claim holds back is reported to Done like any other answer. The table in
// hand decides when to write it again.
func TestHeldIsHandedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeStore{}
		f.answer = func(_ context.Context, o []store.Outcome) ([]store.Applied, error) {
			applied := writtenAnswers(o)
			for i := range o {
				if o[i].Finding == store.IsCommitted && len(f.calls()) < 100 {
					applied[i].Result = store.Held
				}
			}
			return applied, nil
		}
		r := start(t, f, nil)
		mine := outcome("mine")
		mine.Finding, mine.By = store.IsCommitted, batch.BySubmitter
		r.Put(mine)
		r.putVerdicts("another's")
		r.put("a")
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, map[string]store.Result{"mine": store.Held, "another's": store.Held, "a": store.Written}, r.resultsSoFar())
		assert.ElementsMatch(t, []string{"mine", "another's", "a"}, r.written(), "each once")
		assert.LessOrEqual(t, len(f.calls()), 3, "nothing is written again")
		assert.Empty(t, r.troubles())
		r.close()
	})
}

// A write was committed and its reply was lost. The repeated write is fenced by the first one,
// which counts as written.
func TestALostCommitReplyIsRecognised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := true
		f := &fakeStore{answer: func(_ context.Context, o []store.Outcome) ([]store.Applied, error) {
			if first {
				first = false
				return nil, errTest // the write was committed nevertheless
			}
			applied := writtenAnswers(o)
			for i := range o {
				applied[i].Result = store.Fenced
				applied[i].Row.Version = o[i].Version + 1
				if o[i].Key.ID == "other" { // another process has changed this row
					applied[i].Row.Version++
				}
			}
			return applied, nil
		}}
		r := start(t, f, nil)
		r.put("mine", "other")
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Equal(t, map[string]store.Result{"mine": store.Written, "other": store.Fenced}, r.resultsSoFar())
		r.put("fresh")
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Equal(t, store.Fenced, r.resultsSoFar()["fresh"], "which never failed before: somebody else's")
		r.close()
	})
}

func TestGoneAndBadAreReportedAndNotTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeStore{answer: func(_ context.Context, o []store.Outcome) ([]store.Applied, error) {
			applied := writtenAnswers(o)
			applied[0].Result, applied[1].Result = store.Gone, store.Bad
			return applied, nil
		}}
		r := start(t, f, nil)
		r.put("gone", "bad", "good")
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, map[string]store.Result{"gone": store.Gone, "bad": store.Bad, "good": store.Written}, r.resultsSoFar())
		assert.Len(t, f.calls(), 1)
		r.close()
	})
}

// A store that returns too few answers has failed.
func TestALyingStoreIsContained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		f := &fakeStore{answer: func(_ context.Context, o []store.Outcome) ([]store.Applied, error) {
			if n++; n <= 2 {
				return writtenAnswers(o)[:len(o)-1], nil
			}
			return writtenAnswers(o), nil
		}}
		r := start(t, f, nil)
		r.put("a", "b")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		assert.ElementsMatch(t, []string{"a", "b"}, r.written())
		assert.NotEmpty(t, r.troubles())
		r.close()
	})
}

// Run ends soon after ctx is done, in any state of the store.
func TestRunEndsWithItsContext(t *testing.T) {
	for name, answer := range map[string]func(context.Context, []store.Outcome) ([]store.Applied, error){
		"store fails": func(context.Context, []store.Outcome) ([]store.Applied, error) { return nil, errTest },
		"store hangs": func(ctx context.Context, _ []store.Outcome) ([]store.Applied, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, &fakeStore{answer: answer}, func(o *groups.Settings) { o.RetryFor = 24 * time.Hour })
				r.put("a", "b", "c")
				time.Sleep(time.Minute)
				r.Close()
				time.Sleep(time.Minute)
				synctest.Wait()
				select {
				case <-r.ended:
					t.Fatal("it goes on trying until ctx is done")
				default:
				}
				begin := time.Now()
				r.stop()
				<-r.ended
				assert.LessOrEqual(t, time.Since(begin), 10*time.Millisecond)
				assert.Empty(t, r.written())
			})
		})
	}
}

// Put waits while the recorder has many items to write, but does not wait once Run has returned.
func TestPutDoesNotWaitForARecorderThatEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeStore{answer: func(ctx context.Context, _ []store.Outcome) ([]store.Applied, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		r := start(t, f, nil)
		put := make(chan struct{})
		go func() {
			defer close(put)
			for i := range 1000 {
				r.put(fmt.Sprint("r", i))
			}
		}()
		time.Sleep(time.Minute)
		select {
		case <-put:
			t.Fatal("a thousand are far more than it takes while it is behind")
		default:
		}
		r.stop()
		<-r.ended
		<-put // the bubble would be deadlocked otherwise
		r.Close()
	})
}
