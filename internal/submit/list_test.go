package submit_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/submit"
	"github.com/dltbatch/dltbatch/store"
)

// listLedger is a ledger that accepts lists, and answers with answers.
type listLedger struct {
	test    *submitterTest
	answers func(ids []batch.ID) error
}

func (l *listLedger) SubmitList(_ context.Context, list []batch.Attempt) error {
	var ids []batch.ID
	for _, a := range list {
		ids = append(ids, a.ID)
		if string(a.Payload) != "payload of "+string(a.ID) || a.Number != 1 {
			panic(fmt.Sprintf("%+v", a))
		}
	}
	l.test.mu.Lock()
	l.test.lists = append(l.test.lists, joinIDs(ids))
	l.test.mu.Unlock()
	return l.answers(ids)
}

func joinIDs(ids []batch.ID) string {
	var s strings.Builder
	for _, id := range ids {
		s.WriteString(string(id))
	}
	return s.String()
}

// startLists starts a submitter of a ledger that takes lists of up to most batches.
func startLists(t *testing.T, most int, single func(context.Context, batch.Attempt) error, answers func(ids []batch.ID) error, change func(*submit.Options, *ledger)) *submitterTest {
	ls := &listLedger{answers: answers}
	ls.test = start(t, single, func(o *submit.Options, l *ledger) {
		l.lister, l.traits.MaxList = ls, most
		if change != nil {
			change(o, l)
		}
	})
	return ls.test
}

func acceptList([]batch.ID) error { return nil }

// singlePosts returns the ids of the requests with a single batch.
func (r *submitterTest) singlePosts() (out string) {
	for _, q := range r.requestsSoFar() {
		out += string(q.id)
	}
	return out
}

func waitSettled(r *submitterTest) {
	time.Sleep(time.Minute)
	synctest.Wait()
	r.stopAndWait()
}

func TestARunGoesInLists(t *testing.T) {
	for name, c := range map[string]struct {
		most, bytes            int
		lists                  []string
		singles                string
		prepares, takesNoLists bool
	}{
		"three at a time":        {most: 3, lists: []string{"abc", "def"}, singles: "g"},
		"all at once":            {most: 100, lists: []string{"abcdefg"}},
		"one at a time":          {most: 1, singles: "abcdefg"},
		"not at all":             {most: 0, singles: "abcdefg"},
		"as long as they may be": {most: 100, bytes: 2 * len("payload of a"), lists: []string{"ab", "cd", "ef"}, singles: "g"},
		"each too long":          {most: 100, bytes: 3, singles: "abcdefg"},
		"the client does not":    {most: 100, takesNoLists: true, singles: "abcdefg"},
		"what is prepared":       {most: 100, prepares: true, singles: "abcdefg"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := startLists(t, c.most, accept, acceptList, func(o *submit.Options, l *ledger) {
					l.traits.MaxListBytes = c.bytes
					if c.takesNoLists {
						l.traits.MaxList = 0
					}
					if c.prepares {
						l.preparer, l.traits.Prepares = emptyPrepare{}, true
					}
				})
				r.post(farUntil, "s", "a", "b", "c", "d", "e", "f", "g")
				waitSettled(r)
				assert.Equal(t, c.lists, r.lists)
				assert.Equal(t, c.singles, r.singlePosts())
				assert.Equal(t, []string{"a accepted", "b accepted", "c accepted", "d accepted", "e accepted", "f accepted", "g accepted"}, r.findings())
			})
		})
	}
}

type emptyPrepare struct{}

func (emptyPrepare) Prepare(context.Context, batch.Attempt) ([]byte, error) { return nil, nil }

// refuseListsWith returns answers that refuse each list with one of the ids.
func refuseListsWith(bad ...batch.ID) func([]batch.ID) error {
	return func(ids []batch.ID) error {
		for _, id := range bad {
			if slices.Contains(ids, id) {
				return &dlt.Error{Op: "submit", Kind: dlt.ErrRejected}
			}
		}
		return nil
	}
}

func refuseSingles(bad ...batch.ID) func(context.Context, batch.Attempt) error {
	return func(_ context.Context, a batch.Attempt) error { return refuseListsWith(bad...)([]batch.ID{a.ID}) }
}

// The refusal of a list does not decide about its batches. They are sent one by one: the good ones
// are accepted, and the bad one is found and ends the run.
func TestARefusedListGoesOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startLists(t, 4, refuseSingles("c"), refuseListsWith("c"), nil)
		r.post(farUntil, "s", "a", "b", "c", "d", "e", "f")
		waitSettled(r)
		assert.Equal(t, []string{"abcd"}, r.lists)
		assert.Equal(t, "abc", r.singlePosts())
		assert.Equal(t, []string{"a accepted", "b accepted", "c refused", "d unposted", "e unposted", "f unposted"}, r.findings())
	})
}

// A list may be refused although none of its batches is bad, for example for its length. The
// batches behind it are sent in lists again.
func TestAListThatIsRefusedForNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startLists(t, 3, accept, refuseListsWith("b"), nil)
		r.post(farUntil, "s", "a", "b", "c", "d", "e", "f")
		waitSettled(r)
		assert.Equal(t, []string{"abc", "def"}, r.lists)
		assert.Equal(t, "abc", r.singlePosts())
		assert.Equal(t, []string{"a accepted", "b accepted", "c accepted", "d accepted", "e accepted", "f accepted"}, r.findings())
	})
}

// Doubt about a list is doubt about each of its batches, and about no later batch.
func TestDoubtAboutAListIsDoubtAboutEach(t *testing.T) {
	for name, answer := range map[string]func([]batch.ID) error{
		"doubt":    func([]batch.ID) error { return &dlt.Error{Op: "submit"} },
		"untyped":  func([]batch.ID) error { return context.DeadlineExceeded },
		"two ways": func([]batch.ID) error { return fmt.Errorf("%w, and %w", dlt.ErrRejected, dlt.ErrBusy) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := startLists(t, 3, accept, answer, nil)
				r.post(farUntil, "s", "a", "b", "c", "d")
				waitSettled(r)
				assert.Equal(t, []string{"abc"}, r.lists, "and nothing is sent again")
				assert.Equal(t, []string{"a doubtful", "b doubtful", "c doubtful", "d unposted"}, r.findings())
				assert.Empty(t, r.requestsSoFar())
			})
		})
	}
}

// If the ledger certainly took no batch of a list, the same list is tried again. After the last
// try, the first batch counts as failed, as if it had been sent alone, and the others spend
// nothing.
func TestAListThatIsNotTaken(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		tries int
	}{
		"busy": {dlt.ErrBusy, 4}, "unavailable": {dlt.ErrUnavailable, 4}, "misconfigured": {dlt.ErrMisconfigured, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := startLists(t, 3, accept, func([]batch.ID) error { return c.err }, nil)
				r.post(farUntil, "s", "a", "b", "c", "d")
				waitSettled(r)
				assert.Equal(t, slices.Repeat([]string{"abc"}, c.tries), r.lists)
				assert.Equal(t, []string{"a failed", "b unposted", "c unposted", "d unposted"}, r.findings())
				assert.Empty(t, r.requestsSoFar())
			})
		})
	}
}

// Attempts are counted for each batch of a list: if every try is spent, a doubt spends one of each
// batch.
func TestEachBatchOfAListSpendsItsTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startLists(t, 3, accept, func([]batch.ID) error { return &dlt.Error{Op: "submit"} }, nil)
		run := store.ClaimedRun{Service: "s"}
		for i, id := range []batch.ID{"a", "b", "c", "d"} {
			run.Batches = append(run.Batches, store.Claim{
				Ref: store.Ref{Key: batch.Key{Service: "s", ID: id}}, Version: 2, From: batch.Queued, Attempt: 1, Spent: 1 + i,
				Budget: batch.Budget{Attempts: 2, EveryTry: true},
			})
		}
		r.Post(run, [][]byte{[]byte("payload of a"), []byte("payload of b"), []byte("payload of c"), []byte("payload of d")}, time.Now().Add(farUntil))
		waitSettled(r)
		require.Equal(t, []string{"a doubtful", "b doubtful", "c doubtful", "d unposted"}, r.findings())
		var last, refund []bool
		for _, o := range r.outcomes {
			last, refund = append(last, o.Last), append(refund, o.Refund)
		}
		assert.Equal(t, []bool{false, true, true, false}, last)
		assert.Equal(t, []bool{false, false, false, true}, refund)
	})
}

// A batch without a payload is not sent in a list, and ends the run at its place.
func TestAListEndsBeforeAMissingPayload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startLists(t, 9, accept, acceptList, nil)
		run := store.ClaimedRun{Service: "s"}
		payloads := [][]byte{[]byte("payload of a"), []byte("payload of b"), nil, []byte("payload of d")}
		for _, id := range []batch.ID{"a", "b", "c", "d"} {
			run.Batches = append(run.Batches, store.Claim{Ref: store.Ref{Key: batch.Key{Service: "s", ID: id}}, Version: 2, From: batch.Queued, Attempt: 1})
		}
		r.Post(run, payloads, time.Now().Add(farUntil))
		waitSettled(r)
		assert.Equal(t, []string{"ab"}, r.lists)
		assert.Equal(t, []string{"a accepted", "b accepted", "c failed", "d unposted"}, r.findings())
	})
}

// The gate counts requests: a list is one request, and its success opens the gate.
func TestAListIsOneRequestToTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := true
		r := startLists(t, 3, accept, func([]batch.ID) error {
			if full {
				return dlt.ErrBusy
			}
			return nil
		}, func(o *submit.Options, _ *ledger) { o.Retry = closedForASecond })
		r.post(farUntil, "s", "a", "b", "c")
		synctest.Wait()
		assert.Equal(t, []event{{reportedAfter: 0, isPause: true, ofLedger: true}}, r.eventsSoFar())
		full = false
		time.Sleep(time.Minute)
		r.post(farUntil, "s", "a", "b", "c")
		waitSettled(r)
		require.Len(t, r.eventsSoFar(), 2)
		assert.False(t, r.eventsSoFar()[1].isPause)
	})
}
