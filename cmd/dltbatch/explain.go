package main

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/dltbatch/dltbatch/batch"
)

// explainAnswer is what "explain" prints.
type explainAnswer struct {
	batch.Explanation
	// Row holds the explanations of the blocking batches, each one blocking the batch before it.
	Row []batch.Explanation `json:"row"`
}

// maxExplainedRow is the number of blocking batches that explain follows at most.
const maxExplainedRow = 10

func (a *app) explain() *cobra.Command {
	n := batchFlags{app: a}
	c := &cobra.Command{
		Use: "explain [flags] [ID]", Short: "Why a batch does not move, and what moves it", Args: cobra.MaximumNArgs(1),
		Long: `Says why a batch does not move, follows the batches in its way to the one at the front, and names
the command that moves that. The JSON is batch.Explanation, and "row" with those of the batches in
the way.`,
	}
	n.addFlags(c)
	return a.databasesCommand(c, func(ctx context.Context, all *databases, args []string) error {
		db, rec, err := n.findStored(ctx, all, args)
		if err != nil {
			return err
		}
		e, err := db.desk.Explain(ctx, rec.Key)
		if err != nil {
			return err
		}
		x := explainAnswer{Explanation: e, Row: []batch.Explanation{}}
		for e.Remedy == batch.RemedyBlocker && len(x.Row) < maxExplainedRow {
			if e, err = db.desk.Explain(ctx, e.Blocker); err != nil {
				return err
			}
			x.Row = append(x.Row, e)
		}
		return a.print(x, func(p *page) {
			for _, e := range slices.Insert(slices.Clone(x.Row), 0, x.Explanation) {
				p.line("%s of %s (version %d)", p.id(string(e.ID)), laneText(e.Service), e.Version)
				p.line("  %s", p.ids(e.Text))
			}
			p.line("")
			p.line("cause %s, remedy %s", string(e.Cause), string(e.Remedy))
			if mend := remedyCommand(e); mend != "" {
				p.line("  $ %s", mend)
			}
		})
	})
}
