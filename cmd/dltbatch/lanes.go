package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// laneList is an answer of lanes.
type laneList struct {
	Everything batch.Control      `json:"everything"`
	Lanes      []store.LaneCounts `json:"lanes"`
	// Controls are the controls of lanes that are paused, halted or have a policy.
	Controls []batch.Control  `json:"controls"`
	Next     *batch.ServiceID `json:"next,omitempty"` // for --after; absent at the end
}

func (a *app) lanes() *cobra.Command {
	q := store.CountsQuery{}
	var after string
	c := &cobra.Command{
		Use: "lanes [flags] [SERVICE]", Short: "Lanes with open batches, and those that are held", Args: cobra.MaximumNArgs(1),
		Long: `Counts the open batches of lanes, in byte order of services, and shows what is paused, halted or has a
policy of its own. The JSON is an object with "everything" and "controls" (batch.Control), "lanes"
(store.LaneCounts) and "next" for --after.`,
	}
	c.Flags().IntVar(&q.Limit, "limit", 100, "how many lanes at most, up to 1000")
	c.Flags().StringVar(&after, "after", "", "go on behind this `SERVICE`")
	return a.command(c, func(ctx context.Context, db *database, args []string) (err error) {
		var all laneList
		if all.Everything, err = db.desk.Control(ctx, batch.Everything()); err != nil {
			return err
		}
		if len(args) > 0 {
			service, err := db.lane(ctx, args[0])
			if err != nil {
				return err
			}
			q.Service = &service
			control, err := db.desk.Control(ctx, batch.Only(service))
			if err != nil {
				return err
			}
			all.Controls = []batch.Control{control}
		} else {
			q.After, q.Start = batch.ServiceID(after), !c.Flags().Changed("after")
			all.Controls, err = db.desk.Controls(ctx, store.ControlsQuery{After: q.After, Start: q.Start, Limit: 1000})
			if err != nil {
				return err
			}
		}
		if all.Lanes, err = db.desk.Lanes(ctx, q); err != nil {
			return err
		}
		if n := len(all.Lanes); q.Service == nil && n > 0 && n >= q.Bounded().Limit {
			all.Next = &all.Lanes[n-1].Service
		}
		all.Lanes, all.Controls = some(all.Lanes), some(all.Controls)
		return a.print(all, func(p *page) { p.lanes(all, q.Bounded().Cap) })
	})
}

func (p *page) lanes(all laneList, limit int) {
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
			t.row(plain, lane(l.Service), least(l.Waiting, l.Waiting >= limit), strings.Join(attempted, ", "))
		}
		t.end()
	}
	if all.Next != nil {
		p.line("more: --after %s", quote(string(*all.Next)))
	}
	held := slices.DeleteFunc(append([]batch.Control{all.Everything}, all.Controls...), func(c batch.Control) bool { return !c.Set() })
	if len(held) > 0 {
		p.line("")
		p.controls(held...)
	}
}

// controls shows pauses, halts and policies.
func (p *page) controls(list ...batch.Control) {
	t := p.table("HELD", "PAUSED", "BY", "REASON", "HALTED", "BY BATCH", "POLICY", "VERSION")
	for _, c := range list {
		scope := "everything"
		if !c.All {
			scope = lane(c.Service)
		}
		t.row(alarm(c.Closed()), scope, when(c.PausedAt), c.PausedBy.Actor, strings.TrimSpace(c.PausedBy.Reason+" "+c.HaltReason), when(c.HaltedAt), c.HaltedBy, c.Policy, c.Version)
	}
	t.end()
}
