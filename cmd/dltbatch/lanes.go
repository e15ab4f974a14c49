package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/desks"
	"github.com/dltbatch/dltbatch/store"
)

// laneList is what "lanes" prints.
type laneList struct {
	Everything batch.Control      `json:"everything"` // as a whole; of several shards it has the scope alone
	Lanes      []store.LaneCounts `json:"lanes"`
	// Controls are the controls of lanes that are paused, halted or have a policy.
	Controls []batch.Control  `json:"controls"`
	Next     *batch.ServiceID `json:"next,omitempty"` // for --after; absent at the end
	// Shards holds, for several shards, the control of everything in each of them.
	Shards []desks.Answer[batch.Control] `json:"shards,omitempty"`
}

func (a *app) lanes() *cobra.Command {
	q := store.CountsQuery{}
	var after string
	c := &cobra.Command{
		Use: "lanes [flags] [SERVICE]", Short: "Lanes with open batches, and those that are held", Args: cobra.MaximumNArgs(1),
		Long: `Counts the open batches of lanes, in byte order of services, and shows what is paused, halted or
has a policy of its own. The JSON is an object with "everything" and "controls" (batch.Control),
"lanes" (store.LaneCounts) and "next" for --after.`,
	}
	c.Flags().IntVar(&q.Limit, "limit", 100, "how many lanes at most, up to 1000")
	c.Flags().StringVar(&after, "after", "", "go on behind this `SERVICE`")
	return a.databasesCommand(c, func(ctx context.Context, where *databases, args []string) (err error) {
		if len(args) > 0 {
			db, service, _, err := where.findLane(ctx, args[0])
			if err != nil {
				return err
			}
			q.Service, where = &service, &databases{app: a, list: []*database{db}}
		} else {
			q.After, q.Start = batch.ServiceID(after), !c.Flags().Changed("after")
		}
		answers, err := askAll(ctx, where, func(ctx context.Context, db *database) (laneList, error) { return db.lanes(ctx, q) })
		if err != nil {
			return err
		}
		list := answers[0].Value
		if where.areSeveral() {
			list = joinLanes(answers, q.Bounded().Limit)
		}
		list.Lanes, list.Controls = notNull(list.Lanes), notNull(list.Controls)
		return a.print(list, func(p *page) { p.printLanes(list, q.Bounded().Cap) })
	})
}

// lanes reads a page of lanes of one database, or one lane.
func (db *database) lanes(ctx context.Context, q store.CountsQuery) (list laneList, err error) {
	if list.Everything, err = db.desk.Control(ctx, batch.Everything()); err != nil {
		return list, err
	}
	if q.Service != nil {
		control, err := db.desk.Control(ctx, batch.Only(*q.Service))
		if err != nil {
			return list, err
		}
		list.Controls = []batch.Control{control}
	} else if list.Controls, err = db.desk.Controls(ctx, store.ControlsQuery{After: q.After, Start: q.Start, Limit: 1000}); err != nil {
		return list, err
	}
	if list.Lanes, err = db.desk.Lanes(ctx, q); err != nil {
		return list, err
	}
	if n := len(list.Lanes); q.Service == nil && n > 0 && n >= q.Bounded().Limit {
		list.Next = &list.Lanes[n-1].Service
	}
	return list, nil
}

// joinLanes sorts the lanes of all shards into one list.
func joinLanes(answers []desks.Answer[laneList], limit int) laneList {
	all := laneList{Everything: batch.Control{Scope: batch.Everything()}}
	var pages [][]store.LaneCounts
	var more []bool
	for _, x := range desks.WithoutErrors(answers) {
		pages, more = append(pages, x.Value.Lanes), append(more, x.Value.Next != nil)
		all.Controls = append(all.Controls, x.Value.Controls...)
		all.Shards = append(all.Shards, desks.Answer[batch.Control]{Shard: x.Shard, Value: x.Value.Everything})
	}
	slices.SortFunc(all.Controls, func(a, b batch.Control) int { return cmp.Compare(a.Service, b.Service) })
	page, _, goesOn := desks.Page(pages, more, limit, func(a, b store.LaneCounts) int { return cmp.Compare(a.Service, b.Service) })
	if all.Lanes = page; goesOn {
		all.Next = &page[len(page)-1].Service
	}
	return all
}

func (p *page) printLanes(all laneList, limit int) {
	if len(all.Lanes) == 0 {
		p.line("nothing is open")
	} else {
		t := p.table("SERVICE", "WAITING", "ATTEMPTED")
		for _, l := range all.Lanes {
			var attempted []string
			for _, s := range batch.States() {
				if n := l.Attempted[s]; n > 0 {
					attempted = append(attempted, fmt.Sprintf("%d %s", n, s))
				}
			}
			t.row(stylePlain, laneText(l.Service), countText(l.Waiting, l.Waiting >= limit), strings.Join(attempted, ", "))
		}
		t.finish()
	}
	if all.Next != nil {
		p.line("more: --after %s", quoteName(string(*all.Next)))
	}
	held := slices.DeleteFunc(append([]batch.Control{all.Everything}, all.Controls...), func(c batch.Control) bool { return !c.InEffect() })
	whole := slices.DeleteFunc(slices.Clone(all.Shards), func(x desks.Answer[batch.Control]) bool { return !x.Value.InEffect() })
	if len(held) > 0 || len(whole) > 0 {
		p.line("")
		p.printShardControls(whole, held...)
	}
}

// printControls prints pauses, halts and policies.
func (p *page) printControls(list ...batch.Control) { p.printShardControls(nil, list...) }

// printShardControls prints the controls of everything in each shard of whole, and then those of
// list.
func (p *page) printShardControls(whole []desks.Answer[batch.Control], list ...batch.Control) {
	t := p.table("HELD", "PAUSED", "BY", "REASON", "HALTED", "BY BATCH", "POLICY", "VERSION")
	for i, c := range append(desks.Values(whole), list...) {
		scope := "everything"
		if i < len(whole) {
			scope = fmt.Sprintf("all of shard %d", whole[i].Shard)
		} else if !c.All {
			scope = laneText(c.Service)
		}
		t.row(alarmStyle(c.Closed()), scope, timeText(c.PausedAt), c.PausedBy.Actor, strings.TrimSpace(c.PausedBy.Reason+" "+c.HaltReason), timeText(c.HaltedAt), c.HaltedBy, c.Policy, c.Version)
	}
	t.finish()
}
