package recorder_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/recorder"
	"github.com/dltbatch/dltbatch/store"
)

const hold = 50 * time.Millisecond

// holding starts a recorder, and collects the outcomes that are written.
func holding(t *testing.T) (r *rig, f *fake, wrote func() []store.Outcome) {
	var mu sync.Mutex
	var all []store.Outcome
	f = &fake{answer: func(_ context.Context, o []store.Outcome) ([]store.Applied, error) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, o...)
		return written(o), nil
	}}
	return start(t, f, func(o *recorder.Options) { o.Hold = hold }), f, func() []store.Outcome {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

// posted is the submitter's outcome of a batch that was taken.
func posted(id string) store.Outcome {
	o := outcome(id)
	o.By, o.Attempt, o.Spend, o.Policy = batch.BySubmitter, 2, true, batch.PolicyHalt
	return o
}

func commit(id string) store.Outcome {
	return store.Outcome{
		Ref: store.Ref{Key: batch.Key{ID: batch.ID(id)}}, Finding: store.IsCommitted, By: batch.ByMonitor,
		Receipts: []batch.Receipt{{TransactionID: "t", Valid: true}},
	}
}

// A commit that becomes known while the acceptance waits is one write with it: the
// submitter's, at the version of its claim.
func TestACommitAndItsAcceptanceAreOneWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, f, wrote := holding(t)
		begin := time.Now()
		r.Hold(posted("a"))
		r.Hold(posted("b"))
		time.Sleep(10 * time.Millisecond)
		require.Empty(t, f.calls())
		pending := commit("b")
		pending.Finding = store.IsPending
		r.PutAll([]store.Outcome{commit("x"), commit("a"), pending})
		synctest.Wait()
		require.Equal(t, [][]string{{"x", "a", "b"}}, f.calls())
		assert.Equal(t, 10*time.Millisecond, f.when()[0].Sub(begin), "at once")
		want := posted("a")
		want.Finding, want.Receipts = store.IsCommitted, commit("a").Receipts
		assert.Equal(t, []store.Outcome{commit("x"), want, pending}, wrote())
		time.Sleep(time.Second)
		assert.Equal(t, [][]string{{"x", "a", "b"}, {"b"}}, f.calls(), "only a commit is joined, and once")
		r.close()
	})
}

// A held outcome is written when there is nothing left to wait for, and in the end anyhow.
func TestWhatIsHeldIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, f, wrote := holding(t)
		begin := time.Now()
		for i, id := range []string{"a", "b", "c"} {
			time.Sleep(time.Duration(i) * 10 * time.Millisecond)
			r.Hold(posted(id))
		}
		r.Free([]batch.Key{{ID: "b"}, {ID: "none"}})
		synctest.Wait()
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, [][]string{{"b"}, {"a"}, {"c"}}, f.calls())
		assert.Equal(t, 32*time.Millisecond, f.when()[0].Sub(begin), "it lingers, as any other")
		assert.Equal(t, hold, f.when()[1].Sub(begin))
		assert.Equal(t, 30*time.Millisecond+hold, f.when()[2].Sub(begin))
		assert.Equal(t, posted("b"), (wrote())[0])
		r.Hold(posted("d")) // and again, after nothing was held
		time.Sleep(hold)
		synctest.Wait()
		assert.Len(t, f.calls(), 4)
		r.close()
	})
}

// A commit that the ledger reports before it has answered the POST is one write with the
// acceptance that follows.
func TestACommitThatOvertakesItsAcceptanceIsOneWriteWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, f, wrote := holding(t)
		begin := time.Now()
		r.Hold(posted("held"))
		r.Told([]store.Outcome{commit("a"), commit("held")})
		synctest.Wait()
		require.Equal(t, [][]string{{"held"}}, f.calls())
		time.Sleep(5 * time.Millisecond)
		r.Hold(posted("a"))
		synctest.Wait()
		require.Equal(t, [][]string{{"held"}, {"a"}}, f.calls())
		assert.Equal(t, 5*time.Millisecond, f.when()[1].Sub(begin), "at once")
		for i, id := range []string{"held", "a"} {
			want := posted(id)
			want.Finding, want.Receipts = store.IsCommitted, commit(id).Receipts
			assert.Equal(t, want, wrote()[i])
		}
		time.Sleep(time.Second)
		assert.Len(t, f.calls(), 2)
		r.close()
	})
}

// A reported commit does not wait for an answer that may never come, with or without other
// held outcomes.
func TestACommitThatWasToldIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, f, wrote := holding(t)
		begin := time.Now()
		r.Hold(posted("later"))
		known := commit("known")
		known.Was = &store.Row{}
		r.Told([]store.Outcome{commit("nobody's"), known})
		synctest.Wait()
		require.Equal(t, [][]string{{"known"}}, f.calls(), "of what is known there is nothing to wait for")
		time.Sleep(10 * time.Millisecond)
		r.Told([]store.Outcome{commit("failed")})
		failed := posted("failed")
		failed.Finding = store.Doubtful
		r.Put(failed)
		synctest.Wait()
		require.Equal(t, [][]string{{"known"}, {"failed", "failed"}}, f.calls(), "another answer than acceptance")
		require.Equal(t, []store.Finding{store.Doubtful, store.IsCommitted}, []store.Finding{wrote()[1].Finding, wrote()[2].Finding})
		r.Told([]store.Outcome{commit("twice"), commit("twice")})
		synctest.Wait()
		require.Equal(t, []string{"twice"}, f.calls()[2])
		time.Sleep(time.Second)
		require.Equal(t, [][]string{{"nobody's"}, {"twice"}, {"later"}}, f.calls()[3:])
		assert.Equal(t, 20*time.Millisecond, f.when()[3].Sub(begin))
		assert.Equal(t, hold, f.when()[5].Sub(begin))
		r.Told([]store.Outcome{commit("last")})
		r.close()
		assert.Equal(t, []string{"last"}, f.calls()[6])
	})
}

// Without Hold, reported commits are written at once.
func TestWithoutHoldWhatIsToldIsWrittenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		r := start(t, f, nil)
		r.Told([]store.Outcome{commit("a")})
		synctest.Wait()
		require.Equal(t, [][]string{{"a"}}, f.calls())
		r.close()
	})
}

func TestCloseFlushesWhatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, f, _ := holding(t)
		begin := time.Now()
		for _, id := range []string{"a", "b", "c", "d", "e"} {
			r.Hold(posted(id))
		}
		r.close()
		assert.Equal(t, [][]string{{"a", "b", "c", "d"}, {"e"}}, f.calls(), "in the order of acceptance")
		assert.Equal(t, begin, f.when()[1])
		assert.Equal(t, []string{"a", "b", "c", "d", "e"}, r.written())
	})
}
