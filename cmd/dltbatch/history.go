package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dltbatch/dltbatch/batch"
)

type historyList struct {
	History []batch.Act `json:"history"`
}

func (a *app) history() *cobra.Command {
	var n naming
	var of string
	var all bool
	c := &cobra.Command{
		Use: "history [flags] [ID]", Short: "Who did what to a batch, a lane or everything", Args: cobra.MaximumNArgs(1),
		Long: `Lists the acts of operators, the oldest first: upon a batch, upon a lane (--lane), or upon everything
(--all). The JSON is an object with "history", each a batch.Act.`,
	}
	n.flags(c)
	c.Flags().StringVar(&of, "lane", "", "the acts upon this `SERVICE`")
	c.Flags().BoolVar(&all, "all", false, "the acts upon everything")
	c.MarkFlagsMutuallyExclusive("lane", "all")
	return a.command(c, func(ctx context.Context, db *database, args []string) (err error) {
		var acts []batch.Act
		switch byLane := c.Flags().Changed("lane"); {
		case (byLane || all) && (len(args) > 0 || c.Flags().Changed("data-change-id")):
			return fmt.Errorf("%w: name a batch, a lane or --all", errUsage)
		case byLane:
			acts, err = db.desk.LaneHistory(ctx, batch.Only(batch.ServiceID(of)))
		case all:
			acts, err = db.desk.LaneHistory(ctx, batch.Everything())
		default:
			var rec batch.Record
			if rec, err = n.find(ctx, db, args); err == nil {
				acts, err = db.desk.History(ctx, rec.Key)
			}
		}
		if err != nil {
			return err
		}
		return a.print(historyList{some(acts)}, func(p *page) { p.acts(acts) })
	})
}
