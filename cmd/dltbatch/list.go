package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/desks"
	"github.com/dltbatch/dltbatch/store"
)

// batches is an answer of list.
type batches struct {
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
	complete(c, "state", words(batch.States()))
	return a.over(c, func(ctx context.Context, all *databases, _ []string) (err error) {
		where, service, err := a.only(ctx, all, c, "service")
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
		recs, next, err := listed(ctx, where, q.Bounded().Limit, desks.CompareAge, func(r batch.Record) store.Cursor { return store.CursorAfter(r.CreatedAt, string(r.ID)) },
			func(ctx context.Context, db *database) ([]batch.Record, store.Cursor, error) {
				return db.desk.List(ctx, q)
			})
		if err != nil {
			return err
		}
		return a.print(batches{some(recs), next}, func(p *page) {
			p.batches(recs)
			if next != "" {
				p.line("more: --after %s", string(next))
			}
		})
	})
}

// batches shows a list of batches.
func (p *page) batches(recs []batch.Record) {
	t := p.table("SERVICE", "ID", "STATE", "ATTEMPTS", "ADDED", "ERROR")
	for _, r := range recs {
		t.row(alarm(r.Decision != "" || r.Quarantined), lane(r.Service), r.ID, r.State, r.Attempt, when(r.CreatedAt), failed(r.Error))
	}
	t.end()
}
