package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/desks"
	"github.com/dltbatch/dltbatch/store"
)

// batchesAnswer is what "list" prints.
type batchesAnswer struct {
	Batches []batch.Record `json:"batches"`
	Next    store.Cursor   `json:"next,omitzero"` // for --after; "" at the end
}

func (a *app) list() *cobra.Command {
	var q store.ListQuery
	var after, tag string
	var states []string
	var final bool
	c := &cobra.Command{
		Use: "list [flags]", Short: "Batches by age, open ones unless asked otherwise",
		Long: `Lists batches, the oldest first. Without --state, --tag, --quarantined or --all it lists what is
open. With --tag it finds at once what the application stored with the batch, such as --tag
invoice=4711. Payloads are never shown. The JSON is an object with "batches", each a batch.Record,
and "next" for --after.`,
	}
	f := c.Flags()
	f.String("service", "", "only this `SERVICE`")
	f.StringSliceVar(&states, "state", nil, "only these states: "+join(batch.States()))
	f.StringVar(&tag, "tag", "", "only with this tag: `NAME=VALUE`, or a value under any name; final ones, too")
	f.BoolVar(&q.Quarantined, "quarantined", false, "only what a policy set aside")
	f.BoolVar(&final, "all", false, "final ones, too")
	f.DurationVar(&q.OlderThan, "older-than", 0, "at least this old")
	f.DurationVar(&q.NewerThan, "newer-than", 0, "younger than this")
	f.IntVar(&q.Limit, "limit", 100, "how many at most, up to 1000")
	f.StringVar(&after, "after", "", "go on from the `CURSOR` of an earlier list")
	completeFlag(c, "state", textsOf(batch.States()))
	return a.databasesCommand(c, func(ctx context.Context, all *databases, _ []string) (err error) {
		where, service, err := a.laneOfFlag(ctx, all, c, "service")
		if q.Service = service; err != nil {
			return err
		}
		if q.States, err = parse[batch.State](states); err != nil {
			return err
		}
		if f.Changed("tag") {
			if q.Tag, err = batch.ParseTag(tag); err != nil {
				return fmt.Errorf("%w: %w", errUsage, err)
			}
		}
		q.After = store.Cursor(after)
		q.Open = len(states) == 0 && tag == "" && !q.Quarantined && !final
		recs, next, err := joinPage(ctx, where, q.Bounded().Limit, desks.CompareAge, func(r batch.Record) store.Cursor { return store.CursorAfter(r.CreatedAt, string(r.ID)) },
			func(ctx context.Context, db *database) ([]batch.Record, store.Cursor, error) {
				return db.desk.List(ctx, q)
			})
		if err != nil {
			return err
		}
		return a.print(batchesAnswer{notNull(recs), next}, func(p *page) {
			p.printBatches(recs)
			if next != "" {
				p.line("more: --after %s", string(next))
			}
		})
	})
}

// printBatches prints a list of batches.
func (p *page) printBatches(recs []batch.Record) {
	t := p.table("SERVICE", "ID", "STATE", "ATTEMPTS", "ADDED", "ERROR")
	for _, r := range recs {
		t.row(alarmStyle(r.Decision != "" || r.Quarantined), laneText(r.Service), r.ID, r.State, r.Attempt, timeText(r.CreatedAt), errorText(r.Error))
	}
	t.finish()
}
