package operator_test

import (
	"context"
	"encoding/json"
	"errors"
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

func (o *testDesk) preview(b operator.Bulk) operator.Selection {
	o.Helper()
	s, err := o.Preview(o.ctx(), b)
	require.NoError(o, err)
	assert.NotEmpty(o, s.Token)
	total := 0
	for _, c := range s.Causes {
		total += c.Batches
	}
	assert.Len(o, s.Batches, total)
	assert.Len(o, s.First, min(total, 100))
	return s
}

func selectionIDs(s operator.Selection) (selectionIDs []batch.ID) {
	for _, b := range s.Batches {
		selectionIDs = append(selectionIDs, b.ID)
	}
	return selectionIDs
}

func batchIDs(bs []batch.Batch) (ids []batch.ID) {
	for _, b := range bs {
		ids = append(ids, b.ID)
	}
	return ids
}

// A bulk action acts upon the batches that the preview showed, one by one. Batches that have
// changed are skipped and reported. Batches that match only since the preview are left out.
func TestBulk(t *testing.T) {
	inStores(t, func(o *testDesk) {
		o.recordServing(traits, queuer.Serial(), "s", "t")
		s, others := o.addLane("s", 250), o.addLane("t", 2)
		service := batch.ServiceID("s")
		bulk := operator.Bulk{Action: batch.ActionCancel, Filter: operator.Filter{Service: &service}}
		sel := o.preview(bulk)
		assert.Equal(o, batchIDs(s), selectionIDs(sel))
		assert.False(o, sel.More)
		require.Len(o, sel.Causes, 2, "the first is ready, and the others are behind it")
		assert.Equal(o, batch.CauseBehind, sel.Causes[0].Cause)
		assert.Equal(o, 249, sel.Causes[0].Batches)
		assert.Equal(o, batch.Queued, o.readRecord(s[0]).State, "a preview does nothing")

		claimed := o.claim(queuer.Serial(), "s") // the first batch leaves after the preview
		_, err := o.Cancel(o.ctx(), o.readRecord(s[7]), ada)
		require.NoError(o, err)
		_, err = o.Requeue(o.ctx(), o.readRecord(s[7]), ada) // the batch matches again, with a version that the preview did not show
		require.NoError(o, err)
		late := newBatch("s", "late")
		o.add(late)

		text, err := json.Marshal(sel)
		require.NoError(o, err)
		var otherSelection operator.Selection
		require.NoError(o, json.Unmarshal(text, &otherSelection))
		var progress []int
		report, err := o.Desk.Run(o.ctx(), otherSelection, ada, &operator.RunOptions{Progress: func(r operator.Report) { progress = append(progress, r.Next) }})
		require.NoError(o, err)
		assert.Equal(o, []int{100, 200, 250}, progress)
		assert.Equal(o, 248, report.Done)
		assert.Equal(o, sel.Token, report.Token)
		require.Len(o, report.NotDone, 2)
		for i, b := range []batch.Batch{s[0], s[7]} {
			assert.Equal(o, b.Key(), report.NotDone[i].Key)
			assert.True(o, report.NotDone[i].Changed)
			assert.NotEmpty(o, report.NotDone[i].Why)
		}
		assert.Equal(o, batch.Submitting, o.readRecord(s[0]).State)
		assert.Equal(o, batch.Queued, o.readRecord(s[7]).State)
		assert.Equal(o, batch.Queued, o.readRecord(late).State)
		assert.Equal(o, batch.Rejected, o.readRecord(s[249]).State)
		assert.Equal(o, batch.Queued, o.readRecord(others[0]).State)
		acts, err := o.History(o.ctx(), s[249].Key())
		require.NoError(o, err)
		require.Len(o, acts, 1)
		assert.Equal(o, ada, acts[0].By)

		again, err := o.Desk.Run(o.ctx(), sel, ada, nil)
		require.NoError(o, err)
		assert.Zero(o, again.Done, "a second run finds all of it moved on")
		assert.Len(o, again.NotDone, 250)
		o.recordEnds(store.Unposted, claimed...)
	})
}

// A batch that was removed and added again, under the same id and with the version that was seen,
// is a different batch, which nobody has seen. This also holds for a selection that was written to
// JSON and read again.
func TestBulkOfWhatWasAddedAgain(t *testing.T) {
	inStores(t, func(o *testDesk) {
		o.recordServing(traits, queuer.Serial(), "s")
		bs := o.addLane("s", 3) // the third batch keeps its order key from being given out again
		service := batch.ServiceID("s")
		sel := o.preview(operator.Bulk{Action: batch.ActionCancel, Filter: operator.Filter{Service: &service}})
		_, err := o.Cancel(o.ctx(), o.readRecord(bs[1]), bob)
		require.NoError(o, err)
		p, err := o.st.Prune(o.ctx(), store.PruneQuery{})
		require.NoError(o, err)
		require.Equal(o, 1, p.Batches)
		o.add(bs[1])
		require.Equal(o, sel.Batches[1].Version, o.readRecord(bs[1]).Version)
		text, err := json.Marshal(sel)
		require.NoError(o, err)
		var otherSelection operator.Selection
		require.NoError(o, json.Unmarshal(text, &otherSelection))
		report, err := o.Desk.Run(o.ctx(), otherSelection, ada, nil)
		require.NoError(o, err)
		assert.Equal(o, 2, report.Done)
		require.Len(o, report.NotDone, 1)
		assert.Equal(o, bs[1].Key(), report.NotDone[0].Key)
		assert.True(o, report.NotDone[0].Changed)
		assert.Equal(o, batch.Queued, o.readRecord(bs[1]).State)
	})
}

// Each action selects the batches whose state admits it.
func TestBulkActions(t *testing.T) {
	inStores(t, func(o *testDesk) {
		o.recordServing(traits, queuer.Serial(), "decided", "doubt", "refused", "waits")
		undecided, _ := o.addLane("decided", 2), o.addLane("doubt", 1)
		refused, waiting := o.addLane("refused", 2), o.addLane("waits", 1)
		_, err := o.SetPolicy(o.ctx(), batch.Control{Scope: batch.Only("refused")}, batch.PolicyQuarantine, ada)
		require.NoError(o, err)
		o.recordEnds(store.Doubtful, o.claim(queuer.Serial(), "decided", "doubt")...)
		o.recordAnswer(store.Undecidable, undecided[0].Key())
		o.recordEnds(store.Refused, o.claim(queuer.Serial(), "refused")...)

		run := func(b operator.Bulk, want ...batch.ID) {
			o.Helper()
			sel := o.preview(b)
			require.Equal(o, want, selectionIDs(sel), "%+v", b)
			report, err := o.Desk.Run(o.ctx(), sel, ada, nil)
			require.NoError(o, err)
			require.Equal(o, len(want), report.Done, "%+v", report.NotDone)
		}
		run(operator.Bulk{Action: batch.ActionCancel, Filter: operator.Filter{Causes: []batch.Cause{batch.CausePaused}}})
		run(operator.Bulk{Action: batch.ActionCancel, Filter: operator.Filter{Kinds: []batch.ErrorKind{batch.KindBusy}}})
		run(operator.Bulk{Action: batch.ActionCancel, Filter: operator.Filter{States: []batch.State{batch.Committed}}})
		run(operator.Bulk{Action: batch.ActionCancel, Filter: operator.Filter{OlderThan: time.Hour}})
		run(operator.Bulk{Action: batch.ActionDecide, Ruling: batch.NotExecutedSendAgain}, undecided[0].ID)
		assert.Equal(o, batch.Unknown, o.readRecord(undecided[0]).State)
		run(operator.Bulk{Action: batch.ActionAcquit}, refused[0].ID)
		run(operator.Bulk{Action: batch.ActionRequeue, Filter: operator.Filter{Kinds: []batch.ErrorKind{batch.KindBusy}}}, refused[0].ID)
		run(operator.Bulk{Action: batch.ActionCancel, Filter: operator.Filter{Causes: []batch.Cause{batch.CauseReady}}}, undecided[0].ID, refused[0].ID, waiting[0].ID)
	})
}

// Cancel admits an Unknown batch unless an attempt is in doubt, and so does a bulk cancel.
func TestBulkCancelsUnknown(t *testing.T) {
	inStores(t, func(o *testDesk) {
		o.recordServing(traits, queuer.Serial(), "s", "doubt")
		bs := append(o.addLane("s", 1), o.addLane("doubt", 1)...)
		o.recordEnds(store.Doubtful, o.claim(queuer.Serial(), "s", "doubt")...)
		o.recordAnswer(store.NotCommitted, bs[0].Key())
		o.recordAnswer(store.NoTrace, bs[1].Key()) // the batch may be sent again, and the doubt stays
		for _, b := range bs {
			require.Equal(o, batch.Unknown, o.readRecord(b).State)
		}
		_, err := o.Cancel(o.ctx(), o.readRecord(bs[1]), ada)
		require.ErrorIs(o, err, batch.ErrInDoubt)
		sel := o.preview(operator.Bulk{Action: batch.ActionCancel, Filter: operator.Filter{States: []batch.State{batch.Unknown}}})
		assert.Equal(o, []batch.ID{bs[0].ID}, selectionIDs(sel))
		report, err := o.Desk.Run(o.ctx(), sel, ada, nil)
		require.NoError(o, err)
		assert.Equal(o, 1, report.Done, "%+v", report.NotDone)
		assert.Equal(o, batch.Rejected, o.readRecord(bs[0]).State)
	})
}

// A bulk action that makes no sense is refused, and a selection that was changed is not run.
func TestBulkInput(t *testing.T) {
	inStores(t, func(o *testDesk) {
		o.recordServing(traits, queuer.Serial(), "s")
		o.addLane("s", 3)
		for _, b := range []operator.Bulk{{}, {Action: batch.ActionPause}, {Action: batch.ActionDecide}, {Action: batch.ActionDecide, Ruling: "unknown"}} {
			_, err := o.Preview(o.ctx(), b)
			require.ErrorIs(o, err, batch.ErrInvalidInput, "%+v", b)
		}
		sel := o.preview(operator.Bulk{Action: batch.ActionCancel})
		refused := func(change func(s *operator.Selection), by batch.By, from int) {
			o.Helper()
			changed := sel
			changed.Batches = append([]operator.Seen{}, sel.Batches...)
			change(&changed)
			r, err := o.Desk.Run(o.ctx(), changed, by, &operator.RunOptions{From: from})
			require.ErrorIs(o, err, batch.ErrInvalidInput)
			assert.Zero(o, r.Done)
		}
		same := func(*operator.Selection) {}
		refused(same, batch.By{}, 0)
		refused(same, ada, -1)
		refused(same, ada, 4)
		refused(func(s *operator.Selection) { s.Batches[1].Version++ }, ada, 0)
		refused(func(s *operator.Selection) { s.Batches = s.Batches[:2] }, ada, 0)
		refused(func(s *operator.Selection) { s.Bulk.Action = batch.ActionAcquit }, ada, 0)
		refused(func(s *operator.Selection) { s.Token = "" }, ada, 0)
		report, err := o.Desk.Run(o.ctx(), sel, ada, nil)
		require.NoError(o, err)
		assert.Equal(o, 3, report.Done)
	})
}

// A condition that every batch meets, such as an age below 0, is refused: with it a bulk action
// would act upon the whole store.
func TestFilterThatExcludesNothing(t *testing.T) {
	o := newTestDesk(t, memory.New())
	o.addLane("s", 1)
	for field, f := range map[string]operator.Filter{
		"Filter.OlderThan": {OlderThan: -time.Hour}, "Filter.NewerThan": {NewerThan: -1},
		"Filter.States": {States: []batch.State{}}, "Filter.Kinds": {Kinds: []batch.ErrorKind{}}, "Filter.Causes": {Causes: []batch.Cause{}},
	} {
		_, err := o.Preview(o.ctx(), operator.Bulk{Action: batch.ActionCancel, Filter: f})
		require.ErrorIs(t, err, batch.ErrInvalidInput, field)
		require.ErrorContains(t, err, field)
		_, err = o.Search(o.ctx(), operator.SearchQuery{Filter: f})
		require.ErrorContains(t, err, field)
	}
	for _, q := range []store.ListQuery{{OlderThan: -1}, {NewerThan: -1}} {
		_, _, err := o.List(o.ctx(), q)
		require.ErrorIs(t, err, batch.ErrInvalidInput)
	}
	assert.Len(t, o.preview(operator.Bulk{Action: batch.ActionCancel}).Batches, 1)
}

// failingStore is a store that cancels its caller's context, or fails, at one of the acts.
type failingStore struct {
	store.Store
	actsLeft int
	failure  func() error
}

func (s *failingStore) Cancel(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error) {
	if s.actsLeft--; s.actsLeft == 0 {
		if err := s.failure(); err != nil {
			return batch.Record{}, err
		}
	}
	return s.Store.Cancel(ctx, seen, by)
}

// A Run that ends early says where another Run continues, and no process continues by itself.
func TestBulkGoesOn(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		err  error
		done int
	}{"cancelled": {context.Canceled, 3}, "store": {broken, 2}} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			st := &failingStore{Store: memory.New(), actsLeft: 3, failure: func() error {
				if name == "store" {
					return broken
				}
				cancel()
				return nil
			}}
			if name == "cancelled" {
				st.Store = storeIgnoringContext{st.Store}
			}
			o := newTestDesk(t, st)
			bs := o.addLane("s", 9)
			sel := o.preview(operator.Bulk{Action: batch.ActionCancel})
			report, err := o.Desk.Run(ctx, sel, ada, nil)
			require.ErrorIs(t, err, c.err)
			assert.Equal(t, c.done, report.Done)
			assert.Equal(t, c.done, report.Next)
			assert.Empty(t, report.NotDone)
			assert.Equal(t, batch.Queued, o.readRecord(bs[c.done]).State)
			rest, err := newTestDesk(t, st.Store).Desk.Run(t.Context(), sel, batch.By{Actor: "bob"}, &operator.RunOptions{From: report.Next})
			require.NoError(t, err)
			assert.Equal(t, 9-c.done, rest.Done)
			assert.Equal(t, 9, rest.Next)
		})
	}
}

// storeIgnoringContext is a store whose acts ignore the end of their context.
type storeIgnoringContext struct{ store.Store }

func (s storeIgnoringContext) Cancel(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error) {
	return s.Store.Cancel(context.WithoutCancel(ctx), seen, by)
}

// Without a record of the ledger's settings no batch is requeued, and the report says why for each
// batch.
func TestBulkWithoutARecord(t *testing.T) {
	inStores(t, func(o *testDesk) {
		bs := o.addLane("s", 2)
		o.recordEnds(store.Refused, o.claim(queuer.Serial(), "s")...)
		report, err := o.Desk.Run(o.ctx(), o.preview(operator.Bulk{Action: batch.ActionRequeue}), ada, nil)
		require.NoError(o, err)
		assert.Zero(o, report.Done)
		require.Len(o, report.NotDone, 1)
		assert.Contains(o, report.NotDone[0].Why, "resend_quiet")
		assert.False(o, report.NotDone[0].Changed)
		assert.Equal(o, batch.Rejected, o.readRecord(bs[0]).State)
	})
}
