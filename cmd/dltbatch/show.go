package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/desks"
	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/store"
)

// batchFlags are the flags that name a batch, besides its id.
type batchFlags struct {
	app     *app
	command *cobra.Command
	change  string
}

func (n *batchFlags) addFlags(c *cobra.Command) {
	n.command = c
	c.Flags().String("service", "", "the batch's `SERVICE`; needed only where several lanes have the key")
	c.Flags().StringVar(&n.change, "data-change-id", "", "in place of an ID: the batch with this `KEY` of its caller")
}

// findStored is find, but refuses a batch that retention has removed.
func (n *batchFlags) findStored(ctx context.Context, all *databases, args []string) (*database, batch.Record, error) {
	db, rec, err := n.find(ctx, all, args)
	if err == nil && !rec.PrunedAt.IsZero() {
		err = fmt.Errorf("%w: retention removed batch %s at %s, after it had ended as %s: \"show\" has its outcome",
			batch.ErrNotFound, batch.Excerpt(rec.Key.String(), 80), timeText(rec.PrunedAt), rec.State)
	}
	return db, rec, err
}

// find returns the batch that the first of args, or the flags, name, and its database. For a batch
// that retention removed it returns the tombstone (PrunedAt).
func (n *batchFlags) find(ctx context.Context, all *databases, args []string) (*database, batch.Record, error) {
	byChange := n.command.Flags().Changed("data-change-id")
	if byChange == (len(args) > 0) || byChange && n.change == "" {
		return nil, batch.Record{}, fmt.Errorf("%w: name one batch: an ID or its beginning, or --data-change-id", errUsage)
	}
	if !byChange && args[0] == "" {
		return nil, batch.Record{}, fmt.Errorf(`%w: no batch has the id "": name an ID or its beginning`, errUsage)
	}
	where, in, err := n.app.laneOfFlag(ctx, all, n.command, "service")
	if err != nil {
		return nil, batch.Record{}, err
	}
	if !byChange {
		db, rec, err := where.findBatch(ctx, args[0])
		if err == nil && in != nil && rec.Service != *in {
			err = fmt.Errorf("%w: batch %s is not in this lane", batch.ErrNotFound, batch.Excerpt(rec.Key.String(), 160))
		}
		return db, rec, err
	}
	found, err := askAll(ctx, where, func(ctx context.Context, db *database) ([]batch.Record, error) {
		recs, _, err := db.desk.Find(ctx, store.FindQuery{DataChangeID: n.change, Service: in})
		return recs, err
	})
	if err != nil {
		return nil, batch.Record{}, err
	}
	var db *database
	var recs []batch.Record
	for _, f := range desks.WithoutErrors(found) {
		if len(f.Value) > 0 {
			db, recs = where.list[f.Shard], append(recs, f.Value...)
		}
	}
	switch {
	case len(recs) == 0:
		return nil, batch.Record{}, fmt.Errorf("%w: no batch has the key %s", batch.ErrNotFound, batch.Excerpt(n.change, 64))
	case len(recs) > 1:
		var lanes []string
		for _, rec := range recs {
			lanes = append(lanes, laneText(rec.Service))
		}
		return nil, batch.Record{}, fmt.Errorf("%w: batches of several lanes have this key: %s; give --service, too", errUsage, strings.Join(lanes, ", "))
	}
	return db, recs[0], nil
}

// laneOfFlag returns the lane that a flag names, and the database to ask. If the flag was not
// given, it returns nil and all databases. If the text is the beginning of a lane's name, the
// command prints which lane this is.
func (a *app) laneOfFlag(ctx context.Context, all *databases, c *cobra.Command, flag string) (*databases, *batch.ServiceID, error) {
	f := c.Flags().Lookup(flag)
	if f == nil || !f.Changed {
		return all, nil, nil
	}
	text := f.Value.String()
	db, only, _, err := all.findLane(ctx, text)
	if err == nil && string(only) != text && !a.wantsJSON {
		a.printErrorLine(fmt.Sprintf("--%s %s is the beginning of %s, and of no other", flag, quoteName(text), quoteName(string(only))))
	}
	return &databases{app: a, list: []*database{db}}, &only, err
}

// showAnswer is what "show" prints.
type showAnswer struct {
	Batch    batch.Record   `json:"batch"`
	Attempts []batch.Report `json:"attempts"` // failed ones, and those accepted after a failure
	History  []batch.Act    `json:"history"`
	// Timeline has all of this as steps in order.
	Timeline []operator.Step `json:"timeline"`
}

func (a *app) show() *cobra.Command {
	n := batchFlags{app: a}
	c := &cobra.Command{
		Use: "show [flags] [ID]", Short: "One batch: its record, and what has happened to it", Args: cobra.MaximumNArgs(1),
		Long: `Shows a batch without its payload, and its timeline: added, each attempt that failed and what was
answered, doubts, acts of people, the outcome, and what is due. The JSON is an object with "batch"
(batch.Record), "attempts" (batch.Report), "history" (batch.Act), and "timeline" (operator.Step).
Of a batch that retention removed, it shows what is kept: how the batch ended and when, with
"pruned_at".`,
	}
	n.addFlags(c)
	return a.databasesCommand(c, func(ctx context.Context, all *databases, args []string) error {
		db, rec, err := n.find(ctx, all, args)
		if err != nil {
			return err
		}
		s := showAnswer{Batch: rec}
		if rec.PrunedAt.IsZero() { // reports and history are removed with the batch
			if s.Attempts, err = db.desk.Attempts(ctx, rec.Key); err != nil {
				return err
			}
			if s.History, err = db.desk.History(ctx, rec.Key); err != nil {
				return err
			}
		}
		s.Attempts, s.History = notNull(s.Attempts), notNull(s.History)
		now, err := db.now(ctx)
		if err != nil {
			return err
		}
		s.Timeline = operator.Timeline(rec, s.Attempts, s.History, now)
		return a.print(s, func(p *page) {
			p.printRecord(rec, rec.State == batch.Submitting && rec.ClaimExpires.After(now))
			p.line("")
			p.printTimeline(s.Timeline)
		})
	})
}

// now returns the database's clock, or this machine's clock if the store does not show its own.
func (db *database) now(ctx context.Context) (time.Time, error) {
	if !db.Abilities().Has(store.CanSurvey) {
		return time.Now().UTC(), nil
	}
	s, err := db.Survey(ctx, store.SurveyQuery{Services: []batch.ServiceID{}})
	if err != nil {
		return time.Time{}, fmt.Errorf("ask for the database's clock: %w", err)
	}
	return s.At, nil
}

// printTimeline prints the steps of a batch.
func (p *page) printTimeline(steps []operator.Step) {
	t := p.table("AT", "WHAT", "WHERE", "TEXT")
	for _, s := range steps {
		at := timeText(s.At)
		switch s.Kind {
		case operator.StepDue:
			at = "due " + at
		case operator.StepCalled:
			at = "now"
		}
		t.row(alarmStyle(s.Tone == operator.ToneBad || s.Kind == operator.StepCalled), at, s.Title, s.Origin(), p.ids(s.Text))
	}
	t.finish()
}

// printRecord prints a record; live is true while an attempt is under way, during which no act is
// allowed.
func (p *page) printRecord(r batch.Record, live bool) {
	t := p.table("BATCH", string(r.ID))
	t.row(stylePlain, "service", laneText(r.Service))
	state := r.State.String()
	if r.Final() {
		state += ", final"
	}
	t.row(stylePlain, "state", state)
	t.row(stylePlain, "version", r.Version)
	attempts := fmt.Sprintf("%d, %d count against the budget", r.Attempt, r.Spent)
	if !r.PrunedAt.IsZero() {
		attempts = strconv.Itoa(r.Attempt)
		t.row(styleRed, "removed", timeText(r.PrunedAt)+", by retention: only what stands here is kept")
	}
	t.row(stylePlain, "attempts", attempts)
	claimed := "claimed by"
	if r.ClaimExpires.IsZero() {
		claimed = "last claimed by"
	}
	doubt := "in doubt since"
	switch {
	case r.State == batch.Pending, r.State == batch.Valid, r.State == batch.Invalid:
		doubt = "attempted at" // the ledger has the batch
	case live && r.Attempt == 1:
		doubt = "attempted since"
	}
	for _, x := range []struct{ what, text string }{
		{"data_change_id", r.DataChangeID}, {"tags", r.Tags.String()}, {"added", timeText(r.CreatedAt)}, {"final", timeText(r.FinalAt)},
		{claimed, r.ClaimedBy}, {"claim ends", timeText(r.ClaimExpires)}, {"not before", timeText(r.NotBefore)},
		{"last post", timeText(r.LastPost)}, {doubt, timeText(r.DoubtSince)}, {"settles", timeText(r.SettlesAt)},
		{"error", errorText(r.Error)}, {"decision", r.Decision},
	} {
		if x.text != "" {
			t.row(alarmStyle(x.what == "decision"), x.what, x.text)
		}
	}
	if r.Quarantined {
		t.row(styleRed, "quarantined", "yes")
	}
	if r.Withdrawn {
		t.row(styleRed, "withdrawn", "yes, and what takes effect first decides")
	}
	for _, receipt := range r.Receipts {
		t.row(stylePlain, "receipt", receiptText(receipt))
	}
	t.finish()
}

// receiptText shows a receipt. It leaves out the data, which is for programs and in the JSON.
func receiptText(r batch.Receipt) string {
	s := r.TransactionID + ": valid"
	if !r.Valid {
		s = r.TransactionID + ": not valid"
	}
	if r.Message != "" {
		s += ": " + r.Message
	}
	return s
}

// printActs prints acts, with the acts of one bulk action in one row. ofMany is true if the acts
// are of many lanes, so that a batch is shown with its lane; more is true if further acts follow.
func (p *page) printActs(acts []batch.Act, ofMany, more bool) {
	t := p.table("AT", "ACTOR", "ACTION", "UPON", "CHANGE", "REASON")
	rows := operator.ActRows(acts)
	for i, a := range rows {
		upon := p.id(string(a.Batch))
		switch {
		case a.N > 1:
			upon = countText(a.N, more && i == len(rows)-1) + " batches"
		case upon == "":
			upon = a.Scope.String()
		case a.Action == batch.ActionRelease: // upon the lane; the batch is the one that halted the lane
			upon = a.Scope.String() + ", halted by " + upon
		case ofMany:
			upon += " of " + a.Scope.String()
		}
		change := ""
		switch {
		case a.Action == batch.ActionSetPolicy:
			change = a.Policy.String()
		case a.From != 0:
			change = a.From.String() + " -> " + a.To.String()
		}
		reason := a.Reason
		if a.Token != "" {
			reason = "bulk " + a.Token + ": " + reason
		}
		t.row(stylePlain, timeText(a.At), a.Actor, a.Action, upon, change, reason)
	}
	t.finish()
}
