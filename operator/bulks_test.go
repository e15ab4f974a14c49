package operator_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
	"github.com/dltbatch/dltbatch/store/sqlite"
	"github.com/dltbatch/dltbatch/store/sqlite/sqliteopen"
)

var bob = batch.By{Actor: "bob", Reason: "ticket 18"}

// beginBulk begins a kept action that cancels all batches of a lane.
func (o *testDesk) beginBulk(lane batch.ServiceID) (*operator.Bulks, operator.Progress) {
	o.Helper()
	s := operator.NewBulks(o.Desk)
	p, err := s.Begin(o.ctx(), o.preview(operator.Bulk{Action: batch.ActionCancel, Filter: operator.Filter{Service: &lane}}), ada)
	require.NoError(o, err)
	return s, p
}

// A kept action is carried out by its token, and leaves a report. Batches that have changed since
// the preview are skipped, and batches that match only since then are left out.
func TestBulks(t *testing.T) {
	inStores(t, func(o *testDesk) {
		o.recordServing(traits, queuer.Serial(), "s")
		bs := o.addLane("s", 250)
		s, p := o.beginBulk("s")
		assert.Equal(o, operator.BulkOpen, p.State)
		assert.Equal(o, 250, p.Selected)
		assert.Equal(o, batch.Queued, o.readRecord(bs[0]).State)
		_, err := o.Cancel(o.ctx(), o.readRecord(bs[120]), ada)
		require.NoError(o, err)
		late := newBatch("s", "late")
		o.add(late)
		again, err := s.Begin(o.ctx(), o.selectionWithToken(p), bob)
		require.ErrorIs(o, err, batch.ErrInvalidInput)
		assert.Empty(o, again)

		var seen []int
		got, err := s.Resume(o.ctx(), p.Token, bob, func(p operator.Progress) { seen = append(seen, p.Next) })
		require.NoError(o, err)
		assert.Equal(o, []int{100, 200, 250}, seen)
		assert.Equal(o, operator.BulkFinished, got.State)
		assert.Equal(o, 249, got.Done)
		assert.Equal(o, []operator.BulkEvent{{Event: "begin", By: ada}, {Event: "resume", By: bob}}, got.Events)
		report, err := s.Report(o.ctx(), p.Token)
		require.NoError(o, err)
		require.Len(o, report.NotDone, 1)
		assert.Equal(o, bs[120].Key(), report.NotDone[0].Key)
		assert.True(o, report.NotDone[0].Changed)
		assert.Equal(o, []int{250, 249, 250}, []int{report.Selected, report.Done, report.Next})
		acts, err := o.History(o.ctx(), bs[249].Key())
		require.NoError(o, err)
		require.Len(o, acts, 1)
		assert.Equal(o, batch.By{Actor: "bob", Reason: "bulk " + p.Token + ": ticket 18"}, acts[0].By)
		assert.Equal(o, batch.Queued, o.readRecord(late).State)

		_, err = s.Resume(o.ctx(), p.Token, ada, nil)
		require.ErrorIs(o, err, batch.ErrNotAllowed)
		_, err = s.Cancel(o.ctx(), p.Token, ada)
		require.ErrorIs(o, err, batch.ErrNotAllowed)
		list, err := s.List(o.ctx())
		require.NoError(o, err)
		assert.Equal(o, []operator.Progress{got}, list)
		one, err := s.Get(o.ctx(), p.Token)
		require.NoError(o, err)
		assert.Equal(o, got, one)
	})
}

// selectionWithToken returns a selection with the token of p that no preview made.
func (o *testDesk) selectionWithToken(p operator.Progress) operator.Selection {
	return operator.Selection{Bulk: p.Bulk, At: p.At, Token: p.Token}
}

// An action without batches is finished at once, and invalid input is refused.
func TestBulksInput(t *testing.T) {
	inStores(t, func(o *testDesk) {
		s, p := o.beginBulk("s")
		got, err := s.Resume(o.ctx(), p.Token, ada, nil)
		require.NoError(o, err)
		assert.Equal(o, operator.BulkFinished, got.State)
		for _, token := range []string{"", "none", "\xff"} {
			_, err := s.Resume(o.ctx(), token, ada, nil)
			require.ErrorIs(o, err, batch.ErrNotFound)
			_, err = s.Cancel(o.ctx(), token, ada)
			require.ErrorIs(o, err, batch.ErrNotFound)
			_, err = s.Get(o.ctx(), token)
			require.ErrorIs(o, err, batch.ErrNotFound)
			_, err = s.Report(o.ctx(), token)
			require.ErrorIs(o, err, batch.ErrNotFound)
		}
		_, err = s.Resume(o.ctx(), p.Token, batch.By{}, nil)
		require.ErrorIs(o, err, batch.ErrInvalidInput)
		_, err = s.Cancel(o.ctx(), p.Token, batch.By{})
		require.ErrorIs(o, err, batch.ErrInvalidInput)
		_, err = s.Begin(o.ctx(), operator.Selection{}, ada)
		require.ErrorIs(o, err, batch.ErrInvalidInput)
	})
}

// A stored action that this version cannot read does not prevent a new action.
func TestAnUnreadableActionIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		_, err := st.SwapTexts(t.Context(), store.Text{Kind: store.TextBulk, Name: "other", Body: "of other code"})
		require.NoError(t, err)
		desk, err := operator.New(st)
		require.NoError(t, err)
		s := operator.NewBulks(desk)
		begin := func() operator.Progress {
			sel, err := desk.Preview(t.Context(), operator.Bulk{Action: batch.ActionCancel})
			require.NoError(t, err)
			p, err := s.Begin(t.Context(), sel, ada)
			require.NoError(t, err)
			return p
		}
		old := begin()
		time.Sleep(31 * 24 * time.Hour)
		begin()
		_, err = s.Get(t.Context(), old.Token)
		require.ErrorIs(t, err, batch.ErrNotFound, "what it can read is forgotten")
	})
}

// hookedStore is a store that calls a function before one of its acts.
type hookedStore struct {
	store.Store
	actsLeft  int
	beforeAct func()
}

func (s *hookedStore) Cancel(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error) {
	if s.actsLeft--; s.actsLeft == 0 {
		s.beforeAct()
	}
	return s.Store.Cancel(ctx, seen, by)
}

// A person cancels an action that is under way: its process stops, the remaining batches stay
// unchanged, and the report counts the acts that were done.
func TestBulksCancelled(t *testing.T) {
	st := &hookedStore{Store: memory.New(), actsLeft: 150}
	o := newTestDesk(t, st)
	bs := o.addLane("s", 450)
	s, p := o.beginBulk("s")
	st.beforeAct = func() {
		_, err := s.Cancel(t.Context(), p.Token, bob)
		require.NoError(t, err)
	}
	got, err := s.Resume(t.Context(), p.Token, ada, nil)
	require.ErrorIs(t, err, batch.ErrMovedOn)
	assert.Equal(t, operator.BulkCancelled, got.State)
	assert.Equal(t, 200, got.Done)
	assert.Equal(t, bob, got.Events[1].By)
	assert.Equal(t, batch.Rejected, o.readRecord(bs[199]).State)
	assert.Equal(t, batch.Queued, o.readRecord(bs[200]).State)
	kept, err := s.Get(t.Context(), p.Token)
	require.NoError(t, err)
	assert.Equal(t, 200, kept.Done)
	_, err = s.Resume(t.Context(), p.Token, ada, nil)
	require.ErrorIs(t, err, batch.ErrNotAllowed)
}

// If two people resume one action, one of the calls stops, and each batch is acted upon once.
func TestBulksTwice(t *testing.T) {
	st := &hookedStore{Store: memory.New(), actsLeft: 150}
	o := newTestDesk(t, st)
	bs := o.addLane("s", 450)
	s, p := o.beginBulk("s")
	st.beforeAct = func() {
		got, err := s.Resume(t.Context(), p.Token, bob, nil)
		require.NoError(t, err)
		assert.Equal(t, 450, got.Done)
	}
	_, err := s.Resume(t.Context(), p.Token, ada, nil)
	require.ErrorIs(t, err, batch.ErrMovedOn)
	o.checkDoneOnce(bs, p.Token)
}

// checkDoneOnce checks that the action was done exactly once to each batch.
func (o *testDesk) checkDoneOnce(bs []batch.Batch, token string) {
	o.Helper()
	for _, b := range bs {
		acts, err := o.History(o.ctx(), b.Key())
		require.NoError(o, err)
		require.Len(o, acts, 1, "%s", b.ID)
	}
	report, err := operator.NewBulks(o.Desk).Report(o.ctx(), token)
	require.NoError(o, err)
	assert.Empty(o, report.NotDone)
	assert.Equal(o, len(bs), report.Done)
}

// After the store has failed, another call continues from the kept progress.
func TestBulksGoOn(t *testing.T) {
	broken := errors.New("broken")
	st := &failingStore{Store: memory.New(), actsLeft: 230, failure: func() error { return broken }}
	o := newTestDesk(t, st)
	bs := o.addLane("s", 450)
	s, p := o.beginBulk("s")
	got, err := s.Resume(t.Context(), p.Token, ada, nil)
	require.ErrorIs(t, err, broken)
	assert.Equal(t, 200, got.Next)
	got, err = s.Resume(t.Context(), p.Token, ada, nil)
	require.NoError(t, err)
	assert.Equal(t, 450, got.Done)
	o.checkDoneOnce(bs, p.Token)
}

// storeLosingAnswers is a store that once cancels a batch without returning an answer, and whose
// histories cannot be read for a while.
type storeLosingAnswers struct {
	store.Store
	actsLeft int
	readErr  error // the error of each read of a history
}

var errLost = errors.New("the answer was lost")

func (s *storeLosingAnswers) Cancel(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error) {
	rec, err := s.Store.Cancel(ctx, seen, by)
	if s.actsLeft--; s.actsLeft == 0 {
		return batch.Record{}, errLost
	}
	return rec, err
}

func (s *storeLosingAnswers) History(ctx context.Context, key batch.Key) ([]batch.Act, error) {
	if s.readErr != nil {
		return nil, s.readErr
	}
	return s.Store.History(ctx, key)
}

// A history that cannot be read is no proof that nothing was done: the action stops, and the
// report of the next call is right.
func TestBulksWithoutHistories(t *testing.T) {
	reset := errors.New("connection reset")
	st := &storeLosingAnswers{Store: memory.New(), actsLeft: 5}
	o := newTestDesk(t, st)
	bs := o.addLane("s", 9)
	s, p := o.beginBulk("s")
	_, err := s.Resume(t.Context(), p.Token, ada, nil)
	require.ErrorIs(t, err, errLost)
	st.readErr = reset
	got, err := s.Resume(t.Context(), p.Token, ada, nil)
	require.ErrorIs(t, err, reset)
	assert.Zero(t, got.Next)
	st.readErr = nil
	got, err = s.Resume(t.Context(), p.Token, ada, nil)
	require.NoError(t, err)
	assert.Equal(t, operator.BulkFinished, got.State)
	o.checkDoneOnce(bs, p.Token)
}

// After the process of an action ended in the middle of a part, Cancel counts the acts that were
// done in the part, and reports the batches that were skipped.
func TestBulksCancelledAfterACrash(t *testing.T) {
	inStores(t, func(o *testDesk) {
		broken := errors.New("broken")
		st := &failingStore{Store: o.st, actsLeft: 160, failure: func() error { return broken }}
		o = newTestDesk(o.T, st)
		bs := o.addLane("s", 250)
		s, p := o.beginBulk("s")
		_, err := o.Cancel(o.ctx(), o.readRecord(bs[120]), bob)
		require.NoError(o, err)
		_, err = s.Resume(o.ctx(), p.Token, ada, nil)
		require.ErrorIs(o, err, broken)
		got, err := s.Cancel(o.ctx(), p.Token, bob)
		require.NoError(o, err)
		require.Equal(o, operator.BulkCancelled, got.State)
		assert.Equal(o, []int{158, 157}, []int{got.Next, got.Done})
		assert.Equal(o, batch.Rejected, o.readRecord(bs[157]).State)
		assert.Equal(o, batch.Queued, o.readRecord(bs[158]).State)
		report, err := s.Report(o.ctx(), p.Token)
		require.NoError(o, err)
		assert.Equal(o, []int{158, 157}, []int{report.Next, report.Done})
		require.Len(o, report.NotDone, 1)
		assert.Equal(o, bs[120].Key(), report.NotDone[0].Key)
		assert.True(o, report.NotDone[0].Changed)

		again, err := s.Cancel(o.ctx(), p.Token, ada)
		require.ErrorIs(o, err, batch.ErrNotAllowed)
		assert.Equal(o, got, again, "nothing counts twice")
	})
}

// If the histories cannot be read, Cancel ends the action at once, and a second Cancel counts the
// acts.
func TestBulksCancelledWithoutHistories(t *testing.T) {
	st := &storeLosingAnswers{Store: memory.New(), actsLeft: 5}
	o := newTestDesk(t, st)
	o.addLane("s", 9)
	s, p := o.beginBulk("s")
	_, err := s.Resume(t.Context(), p.Token, ada, nil)
	require.ErrorIs(t, err, errLost)
	st.readErr = errors.New("connection reset")
	got, err := s.Cancel(t.Context(), p.Token, bob)
	require.ErrorIs(t, err, st.readErr)
	assert.Equal(t, operator.BulkCancelled, got.State)
	st.readErr = nil
	got, err = s.Cancel(t.Context(), p.Token, bob)
	require.ErrorIs(t, err, batch.ErrNotAllowed)
	assert.Equal(t, []int{5, 5}, []int{got.Next, got.Done})
	assert.Len(t, got.Events, 2)
}

// A batch that retention removed counts as not done, and does not stop the action.
func TestBulksOfAGoneBatch(t *testing.T) {
	st := &storeLosingAnswers{Store: memory.New()}
	o := newTestDesk(t, st)
	bs := o.addLane("s", 2)
	s, p := o.beginBulk("s")
	_, err := o.Cancel(o.ctx(), o.readRecord(bs[0]), bob)
	require.NoError(t, err)
	st.readErr = batch.ErrNotFound
	got, err := s.Resume(t.Context(), p.Token, ada, nil)
	require.NoError(t, err)
	assert.Equal(t, 1, got.Done)
	report, err := s.Report(t.Context(), p.Token)
	require.NoError(t, err)
	require.Len(t, report.NotDone, 1)
	assert.True(t, report.NotDone[0].Changed)
}

// bulkChild is the environment variable that gives a child process of TestBulksKilled the
// database, the token and the number of acts.
const bulkChild = "DLTBATCH_TEST_BULK"

// bulkProcess carries out the action in the database at path, and kills its own process before one
// of the acts.
func bulkProcess(path, token string, acts int) error {
	db, err := sqliteopen.Open(path)
	if err != nil {
		return err
	}
	st, err := sqlite.New(db, nil)
	if err != nil {
		return err
	}
	d, err := operator.New(&hookedStore{Store: st, actsLeft: acts, beforeAct: func() {
		if p, err := os.FindProcess(os.Getpid()); err == nil {
			_ = p.Kill()
		}
		select {}
	}})
	if err != nil {
		return err
	}
	_, err = operator.NewBulks(d).Resume(context.Background(), token, ada, nil)
	return err
}

// Processes that carry out an action are killed in the middle of its parts. No process continues
// by itself; another process continues by the token, and each batch is acted upon once.
func TestBulksKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "queue.db")
	db, err := sqliteopen.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	st, err := sqlite.New(db, nil)
	require.NoError(t, err)
	require.NoError(t, st.Migrate(t.Context()))
	o := newTestDesk(t, st)
	bs := o.addLane("s", 450)
	s, p := o.beginBulk("s")
	self, err := os.Executable()
	require.NoError(t, err)
	for _, acts := range []int{150, 120, 1} { // the second process repeats 49 acts, which change nothing
		child := exec.CommandContext(t.Context(), self)
		child.Env = append(os.Environ(), bulkChild+"="+path, bulkChild+"_TOKEN="+p.Token, bulkChild+"_ACTS="+strconv.Itoa(acts))
		text, err := child.CombinedOutput()
		require.ErrorContains(t, err, "killed", "%s", text)
	}
	kept, err := s.Get(t.Context(), p.Token)
	require.NoError(t, err)
	assert.Equal(t, operator.BulkOpen, kept.State)
	assert.Equal(t, 200, kept.Next)
	done := 0
	for _, b := range bs {
		if o.readRecord(b).State == batch.Rejected {
			done++
		}
	}
	assert.Equal(t, 219, done)
	got, err := s.Resume(t.Context(), p.Token, bob, nil)
	require.NoError(t, err)
	assert.Equal(t, 450, got.Done)
	o.checkDoneOnce(bs, p.Token)
}

func bulkMain() (is bool, code int) {
	path := os.Getenv(bulkChild)
	if path == "" {
		return false, 0
	}
	acts, err := strconv.Atoi(os.Getenv(bulkChild + "_ACTS"))
	if err == nil {
		err = bulkProcess(path, os.Getenv(bulkChild+"_TOKEN"), acts)
	}
	fmt.Fprintln(os.Stderr, "it was to be killed:", err)
	return true, 3
}
