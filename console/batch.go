package console

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/store"
)

// Limits of the page of a batch.
const (
	maxRowShown   = 10 // explanations: the batch, and those that block it in turn
	maxPartsShown = 50 // of each list: addresses, receipts and orders
)

// batchBody is the data of a batch's page.
type batchBody struct {
	Rec batch.Record
	// Row explains the batch, and then each batch that blocks the one before.
	Row []batch.Explanation
	// NoRow is why Row has no explanation of the batch, or of a batch that blocks it.
	NoRow string
	// Mend is the remedy in words. To is the page that carries it out, and Name its label.
	Mend, To, Name string
	// Described is the application's description of the batch, or NotDescribed the reason why
	// there is none.
	Described    []Field
	NotDescribed string
	Tags         []batch.Tag
	Facts        []factLine
	Steps        []stepLine
	// Before and After are the neighbouring batches in the lane.
	Before, After *batch.Record
	Receipts      []batch.Receipt
	MoreReceipts  int
	Reads, Writes []string
	MoreAddresses int
	Orders        []order.Record
	MoreOrders    bool
	Offers        []actOffer
	Done          *batch.Act
}

// factLine is a line about a batch: a text, or a time.
type factLine struct {
	Name, Text string
	At         shownTime
	Alarm      bool
}

// batchPage shows one batch.
func batchPage(ctx context.Context, v *visit) (*answer, error) {
	key := batch.Key{Service: batch.ServiceID(v.query.Get("service")), ID: batch.ID(v.query.Get("id"))}
	if err := key.Validate(); err != nil {
		return nil, err
	}
	l, err := v.store.Look(ctx, key, 1)
	if errors.Is(err, batch.ErrNotFound) {
		rec, kept := v.desk.Get(ctx, key)
		if kept == nil && !rec.PrunedAt.IsZero() {
			return removedBatch(v, rec), nil
		}
	}
	if err != nil {
		return nil, err
	}
	b := batchBody{Rec: l.Record, Facts: factLines(v.now, l.Record), Tags: sortedTags(l.Record.Tags)}
	if err := followBlockers(ctx, v.desk, key, &b); err != nil {
		return nil, err
	}
	attempts, err := v.desk.Attempts(ctx, key)
	if err != nil {
		return nil, err
	}
	history, err := v.desk.History(ctx, key)
	if err != nil {
		return nil, err
	}
	b.Steps = stepLines(v.now, operator.Timeline(l.Record, attempts, history, v.now))
	b.Done = actDone(v.query.Get("done"), history)
	if b.Before, b.After, err = v.neighbours(ctx, l.Record); err != nil {
		return nil, err
	}
	b.Described, b.NotDescribed = v.describer.describe(ctx, v.store, l)
	b.Receipts = l.Record.Receipts[:min(len(l.Record.Receipts), maxPartsShown)]
	b.MoreReceipts = len(l.Record.Receipts) - len(b.Receipts)
	b.Reads, b.Writes = l.Footprint.Reads[:min(len(l.Footprint.Reads), maxPartsShown)], l.Footprint.Writes[:min(len(l.Footprint.Writes), maxPartsShown)]
	b.MoreAddresses = len(l.Footprint.Reads) + len(l.Footprint.Writes) - len(b.Reads) - len(b.Writes)
	var next store.Cursor
	if b.Orders, next, err = v.desk.ListOrders(ctx, order.ListQuery{Batch: key.ID, Limit: maxPartsShown}); err != nil && !errors.Is(err, store.ErrUnsupported) {
		return nil, err
	}
	b.MoreOrders = next != ""
	var remedy batch.Remedy
	if len(b.Row) > 0 {
		remedy = b.Row[0].Remedy
	}
	withdraws := false
	if l.Row.Prepared != nil { // without prepared bytes there is nothing to withdraw
		if withdraws, err = v.desk.CanWithdraw(ctx, key.Service); err != nil && !errors.Is(err, operator.ErrNotRecorded) && !errors.Is(err, operator.ErrDisagree) {
			return nil, err
		}
	}
	b.Offers = v.batchOffers(l, remedy, withdraws)
	return &answer{page: "batch", title: "Batch " + shortText(key.ID), body: b}, nil
}

// removedBatch shows the tombstone of a batch that retention removed.
func removedBatch(v *visit, rec batch.Record) *answer {
	return &answer{page: "batch", title: "Batch " + shortText(rec.ID), body: batchBody{
		Rec: rec, Facts: factLines(v.now, rec), Steps: stepLines(v.now, operator.Timeline(rec, nil, nil, v.now)), NoRow: "Retention has removed the batch. What stands here is all that is kept of it, and nobody can act on it any more.",
	}}
}

// followBlockers appends an explanation of each blocking batch, up to the front of the lane.
func followBlockers(ctx context.Context, desk *operator.Desk, key batch.Key, b *batchBody) error {
	for len(b.Row) < maxRowShown {
		e, err := desk.Explain(ctx, key)
		if s, is := errors.AsType[*operator.SettingsError](err); is {
			b.NoRow = settingsText(s)
			return nil
		}
		if errors.Is(err, batch.ErrNotFound) && len(b.Row) > 0 {
			b.NoRow = "The batch in its way has gone meanwhile: look again."
			return nil
		}
		if err != nil {
			return err
		}
		b.Row = append(b.Row, e)
		if e.Remedy != batch.RemedyBlocker {
			break
		}
		key = e.Blocker
	}
	b.Mend, b.To, b.Name = remedyText(b.Row[len(b.Row)-1])
	return nil
}

// factLines returns the lines about a batch, without those that would be empty.
func factLines(now time.Time, r batch.Record) []factLine {
	budget := "no budget limits them"
	if r.Budget.Attempts > 0 {
		budget = fmt.Sprintf("%d of a budget of %d are spent", r.Spent, r.Budget.Attempts)
	}
	set, attempts := "", fmt.Sprintf("%d; %s", r.Attempt, budget)
	if r.Quarantined {
		set = "yes, by the policy of its lane"
	}
	if !r.PrunedAt.IsZero() {
		attempts = fmt.Sprint(r.Attempt) // only the number is known
	}
	withdrawn := ""
	if r.Withdrawn {
		withdrawn = "yes: what takes effect first decides, the batch or what is sent to exclude it"
	}
	all := []factLine{
		{Name: "Id", Text: string(r.ID)},
		{Name: "Last error", Text: errorText(r.Error), Alarm: r.Final()},
		{Name: "Set aside", Text: set, Alarm: r.Quarantined},
		{Name: "Withdrawn", Text: withdrawn},
		{Name: "Attempts", Text: attempts},
		{Name: "Claimed by", Text: r.ClaimedBy},
		{Name: "The caller's key (data_change_id)", Text: r.DataChangeID},
	}
	kept := all[:0]
	for _, f := range all {
		if f.Text != "" || f.At.Machine != "" {
			kept = append(kept, f)
		}
	}
	return kept
}
