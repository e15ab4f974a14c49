package console

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/store"
)

// Limits of the page of a bulk action.
const (
	progressInterval    = 2 * time.Second  // between two reads while the action makes progress
	maxProgressInterval = 30 * time.Second // the longest time between two reads while it makes none
	maxNotDoneRows      = 1000             // most rows of batches that were not acted upon
)

// bulksBody lists the bulk actions.
type bulksBody struct {
	Rows []bulkRow
}

// bulkRow is a bulk action in a list.
type bulkRow struct {
	operator.Progress
	ID         batch.ID // the token, typed as an id because it is long
	ActionName string
	By         string
	Under      bool // this process carries out the action
}

// bulksPage lists the kept bulk actions, the newest first.
func bulksPage(ctx context.Context, v *visit) (*answer, error) {
	list, err := v.bulks.List(ctx)
	if err != nil {
		return nil, err
	}
	var b bulksBody
	for _, p := range list {
		row := bulkRow{Progress: p, ID: batch.ID(p.Token), ActionName: bulkActName(p.Bulk), By: p.Events[0].By.Actor}
		row.Under, _ = v.bulkActions.isUnderWay(p.Token)
		b.Rows = append(b.Rows, row)
	}
	return &answer{page: "bulks", title: "Bulk actions", body: b}, nil
}

// progressBody is the data of the page of a bulk action.
type progressBody struct {
	operator.Progress
	ActionName string
	Under      bool   // this process carries out the action
	Ended      string // why the action ended early in this process; "" if it did not
	Not        string // why this visitor cannot act; "" if he can
	Keeps      bool   // the page reads itself again
	Every      time.Duration
	// NotDone are batches that were not acted upon, and More is how many of them are not shown. A
	// page that reads itself again does not read them.
	NotDone []operator.NotDone
	More    int
}

// Open reports whether the action is not over.
func (b progressBody) Open() bool { return b.State == operator.BulkOpen }

// progressPage shows how far a bulk action has come, and the batches that were not acted upon.
func progressPage(ctx context.Context, v *visit) (*answer, error) {
	p, err := v.bulks.Get(ctx, v.query.Get("token"))
	if err != nil {
		return nil, unknownBulk(err)
	}
	b := progressBody{Progress: p, ActionName: bulkActName(p.Bulk), Not: v.deniedReason}
	b.Under, b.Ended = v.bulkActions.isUnderWay(p.Token)
	a := &answer{page: "progress", title: "Bulk action: " + b.ActionName}
	if b.Open() && v.query.Get("keep") != "" {
		a.reloadAfter = min(max(v.now.Sub(p.Changed), progressInterval), maxProgressInterval)
		b.Keeps, b.Every = true, a.reloadAfter
		a.body = b
		return a, nil
	}
	r, err := v.bulks.Report(ctx, p.Token)
	if err != nil {
		return nil, unknownBulk(err)
	}
	b.NotDone = r.NotDone[:min(len(r.NotDone), maxNotDoneRows)]
	b.More = len(r.NotDone) - len(b.NotDone)
	a.body = b
	return a, nil
}

// unknownBulk explains that there is no such action.
func unknownBulk(err error) error {
	if errors.Is(err, batch.ErrNotFound) && !errors.Is(err, store.ErrUnsupported) {
		return &refusal{http.StatusNotFound, "No such bulk action", "It was never begun, or was removed: an action is kept for 30 days after its last change."}
	}
	return err
}

// beginBulk keeps a previewed selection in the store, and lets this process carry it out.
func beginBulk(ctx context.Context, v *visit) (*answer, error) {
	by, err := v.actingPerson()
	if err != nil {
		return nil, err
	}
	sel, err := unpackSelection(v.form.Get("selection"))
	if err != nil {
		return nil, err
	}
	if err := checkConfirmed(v.form, strconv.Itoa(len(sel.Batches))); err != nil {
		return nil, err
	}
	p, err := v.bulks.Begin(ctx, sel, by)
	if err != nil {
		return nil, err
	}
	// If the same form is sent twice, the second request finds the action, which may be over.
	if p.State == operator.BulkOpen {
		if err := v.carryOut(ctx, p.Token, by); err != nil {
			return nil, err
		}
	}
	return &answer{redirectTo: pageLink("progress", "token", p.Token, "keep", "1")}, nil
}

// changeBulk continues a kept action, or cancels it.
func changeBulk(ctx context.Context, v *visit) (*answer, error) {
	by, err := v.actingPerson()
	if err != nil {
		return nil, err
	}
	p, err := v.bulks.Get(ctx, v.form.Get("token"))
	if err != nil {
		return nil, unknownBulk(err)
	}
	to := pageLink("progress", "token", p.Token)
	switch do := v.form.Get("do"); do {
	case "cancel":
		_, err = v.bulks.Cancel(ctx, p.Token, by)
	case "resume":
		to += "&keep=1"
		if err = checkConfirmed(v.form, strconv.Itoa(p.Selected)); err != nil {
			return nil, err
		}
		if p.State != operator.BulkOpen {
			err = batch.ErrNotAllowed
		} else {
			err = v.carryOut(ctx, p.Token, by)
		}
	default:
		err = &batch.InputError{Field: "do", Value: batch.Excerpt(do, 64), Want: "resume or cancel"}
	}
	if errors.Is(err, batch.ErrNotAllowed) {
		return nil, &refusal{http.StatusConflict, "Nothing was done", "The bulk action is over: it is " + string(p.State) + "."}
	}
	if err != nil {
		return nil, err
	}
	v.forgetReads()
	return &answer{redirectTo: to}, nil
}
