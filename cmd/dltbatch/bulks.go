package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/operator"
)

// bulkAnswer is a bulk action with the batches that it did not act upon.
type bulkAnswer struct {
	operator.Progress
	NotDone []operator.NotDone `json:"not_done"`
}

func (a *app) resumeBulk() *cobra.Command {
	c := &cobra.Command{
		Use: "resume [flags] TOKEN", Short: "Go on with a bulk action", Args: cobra.ExactArgs(1),
		Long: `Goes on with a bulk action from where its process ended, on any machine: "dltbatch bulk list" has
the tokens. Nothing is done twice to a batch. Where the other process still runs, one of the two
stops. The end is the report of the whole action, as that of "dltbatch bulk run".`,
	}
	t := a.addActFlags(c, true)
	return a.databaseCommand(c, func(ctx context.Context, db *database, args []string) error {
		by, err := t.actor()
		if err != nil {
			return err
		}
		p, err := operator.NewBulks(db.desk).Get(ctx, args[0])
		if err != nil {
			return err
		}
		if p.State != operator.BulkOpen { // checked before the command asks
			return fmt.Errorf("%w: bulk action %s is %s", batch.ErrNotAllowed, batch.Excerpt(args[0], 64), p.State)
		}
		if err := t.confirm(ctx, strconv.Itoa(p.Selected-p.Next), "They are acted upon.", func(page *page) { page.printProgress(p) }); err != nil {
			return err
		}
		return a.carryOut(ctx, db, args[0], by)
	})
}

// carryOut continues an action, and prints its report.
func (a *app) carryOut(ctx context.Context, db *database, token string, by batch.By) error {
	s := operator.NewBulks(db.desk)
	before, err := s.Get(ctx, token)
	if err != nil {
		return err
	}
	p, err := s.Resume(ctx, token, by, func(p operator.Progress) {
		if !a.wantsJSON {
			a.printErrorLine(fmt.Sprintf("%d of %d", p.Next, p.Selected))
		}
	})
	if err != nil && p.Next == before.Next {
		return err // nothing was done in this call, so there is no report
	}
	free := context.WithoutCancel(ctx) // the report of an interrupted action is printed, too
	if shown := a.bulkReport(free, db, token); err == nil || !errors.Is(shown, errLeft) {
		return errors.Join(err, shown)
	}
	return err
}

// bulkReport prints how far an action has come.
func (a *app) bulkReport(ctx context.Context, db *database, token string) error {
	s := operator.NewBulks(db.desk)
	p, err := s.Get(ctx, token)
	if err != nil {
		return err
	}
	r, err := s.Report(ctx, token)
	if err != nil {
		return err
	}
	done := bulkAnswer{p, notNull(r.NotDone)}
	if err := a.print(done, func(page *page) { page.printBulkAnswer(done) }); err != nil {
		return err
	}
	if len(done.NotDone) > 0 {
		return fmt.Errorf("%w: nothing was done to %d batches", errLeft, len(done.NotDone))
	}
	return nil
}

func (a *app) cancelBulk() *cobra.Command {
	c := &cobra.Command{
		Use: "cancel [flags] TOKEN", Short: "Give the rest of a bulk action up", Args: cobra.ExactArgs(1),
		Long: `Ends a bulk action. A process that carries it out stops within 100 batches. What was done stays
done.`,
	}
	t := a.addActFlags(c, false)
	return a.databaseCommand(c, func(ctx context.Context, db *database, args []string) error {
		by, err := t.actor()
		if err != nil {
			return err
		}
		if _, err := operator.NewBulks(db.desk).Cancel(ctx, args[0], by); err != nil {
			return err
		}
		if err := a.bulkReport(ctx, db, args[0]); !errors.Is(err, errLeft) {
			return err
		}
		return nil
	})
}

func (a *app) showBulk() *cobra.Command {
	c := &cobra.Command{
		Use: "show TOKEN", Short: "How far a bulk action has come, and what was not done", Args: cobra.ExactArgs(1),
		Long: `Shows a bulk action: who began it and went on with it, how far it has come, and each batch to
which nothing was done, with the reason. Exit code 6 says that there are such batches.`,
	}
	return a.databaseCommand(c, func(ctx context.Context, db *database, args []string) error {
		return a.bulkReport(ctx, db, args[0])
	})
}

// bulkList holds the bulk actions that a store keeps.
type bulkList struct {
	Bulks []operator.Progress `json:"bulks"`
}

func (a *app) listBulks() *cobra.Command {
	c := &cobra.Command{
		Use: "list", Short: "The bulk actions", Args: cobra.NoArgs,
		Long: `Lists the bulk actions that began last, the newest first, a hundred at most. One that is open and
was not changed for a while has lost its process: "dltbatch bulk resume TOKEN" goes on with it. An
action is kept for 30 days after its last change.`,
	}
	return a.databaseCommand(c, func(ctx context.Context, db *database, _ []string) error {
		list, err := operator.NewBulks(db.desk).List(ctx)
		if err != nil {
			return err
		}
		return a.print(bulkList{notNull(list)}, func(p *page) {
			t := p.table("TOKEN", "ACTION", "STATE", "BATCHES", "HAD THEIR TURN", "DONE", "BEGUN", "CHANGED", "BY")
			for _, b := range list {
				t.row(stylePlain, b.Token, b.Bulk.Action, b.State, b.Selected, b.Next, b.Done, timeText(b.Begun), timeText(b.Changed), b.Events[0].By.Actor)
			}
			t.finish()
		})
	})
}

func (p *page) printProgress(b operator.Progress) {
	p.line("%s: %d of %d batches had their turn, done to %d; %s, as of %s", b.Bulk.Action, b.Next, b.Selected, b.Done, b.State, timeText(b.Changed))
}

func (p *page) printBulkAnswer(c bulkAnswer) {
	p.line("done to %d of %d batches", c.Done, c.Selected)
	switch {
	case c.State == operator.BulkCancelled:
		p.line("it was cancelled after %d", c.Next)
	case c.State == operator.BulkOpen && c.Next < c.Selected:
		p.line("it has come to %d; go on with: dltbatch bulk resume %s --reason WHY", c.Next, c.Token)
	}
	p.line("")
	t := p.table("EVENT", "AT BATCH", "BY", "REASON")
	for _, e := range c.Events {
		t.row(stylePlain, e.Event, e.Next, e.By.Actor, e.By.Reason)
	}
	t.finish()
	if len(c.NotDone) == 0 {
		return
	}
	p.line("")
	t = p.table("SERVICE", "ID", "NOT DONE BECAUSE")
	for _, n := range c.NotDone {
		t.row(stylePlain, laneText(n.Service), n.ID, p.ids(n.Why))
	}
	t.finish()
}
