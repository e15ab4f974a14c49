package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

type historyList struct {
	History []batch.Act  `json:"history"`
	Next    store.Cursor `json:"next,omitzero"` // for --after; "" at the end
}

func (a *app) history() *cobra.Command {
	n := batchFlags{app: a}
	var lane string
	var ofEverything bool
	var after string
	var q store.ActsQuery
	c := &cobra.Command{
		Use: "history [flags] [ID]", Short: "Who did what", Args: cobra.MaximumNArgs(1),
		Long: `Lists the acts of operators. Without an argument it lists those upon all batches, lanes and
everything, the newest first; the acts of one bulk action that stand together are one row, which
has its token ("dltbatch bulk show" has each batch). For a batch, for a lane (--lane) and for
everything as a whole (--all) it lists the oldest first. The JSON is an object with "history",
each a batch.Act, and "next" for --after.`,
	}
	n.addFlags(c)
	c.Flags().StringVar(&lane, "lane", "", "the acts upon this `SERVICE`")
	c.Flags().BoolVar(&ofEverything, "all", false, "the acts upon everything as a whole")
	c.Flags().IntVar(&q.Limit, "limit", 100, "how many at most, up to 1000, where all are listed")
	c.Flags().StringVar(&after, "after", "", "go on from the `CURSOR` of an earlier list of all")
	c.MarkFlagsMutuallyExclusive("lane", "all")
	return a.databasesCommand(c, func(ctx context.Context, where *databases, args []string) (err error) {
		var acts []batch.Act
		var next store.Cursor
		byLane, byBatch := c.Flags().Changed("lane"), len(args) > 0 || c.Flags().Changed("data-change-id")
		ofAll := !byLane && !byBatch && !ofEverything
		switch {
		case (byLane || ofEverything) && byBatch:
			return fmt.Errorf("%w: name a batch, a lane or --all", errUsage)
		case !ofAll && (after != "" || c.Flags().Changed("limit")):
			return fmt.Errorf("%w: --after and --limit are for the list of all acts", errUsage)
		case ofAll:
			q.After = store.Cursor(after)
			acts, next, err = joinPage(ctx, where, 0, func(a, b batch.Act) int { return b.At.Compare(a.At) }, nil,
				func(ctx context.Context, db *database) ([]batch.Act, store.Cursor, error) {
					return db.desk.Acts(ctx, q)
				})
		case byLane:
			var db *database
			var service batch.ServiceID
			if db, service, _, err = where.findLane(ctx, lane); err == nil {
				acts, err = db.desk.LaneHistory(ctx, batch.Only(service))
			}
		case ofEverything:
			acts, _, err = joinPage(ctx, where, 0, func(a, b batch.Act) int { return a.At.Compare(b.At) }, nil,
				func(ctx context.Context, db *database) (acts []batch.Act, _ store.Cursor, err error) {
					acts, err = db.desk.LaneHistory(ctx, batch.Everything())
					return acts, "", err
				})
		default:
			var db *database
			var rec batch.Record
			if db, rec, err = n.findStored(ctx, where, args); err == nil {
				acts, err = db.desk.History(ctx, rec.Key)
			}
		}
		if err != nil {
			return err
		}
		return a.print(historyList{notNull(acts), next}, func(p *page) {
			p.printActs(acts, ofAll, next != "")
			if next != "" {
				p.line("more: --after %s", string(next))
			}
		})
	})
}
