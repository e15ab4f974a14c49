package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/operator"
)

func (a *app) causes() *cobra.Command {
	var q operator.CausesQuery
	var refresh bool
	c := &cobra.Command{
		Use: "causes [flags]", Short: "All that stands still, grouped by why, and what moves it",
		Long: `Groups all open batches by what they wait for, the largest group first, each with an example and the
command that moves it. A number with + is a lower bound. "sampled" means that the places of some batches
were estimated. Where a look takes more than 0.2 s, the store keeps it, and all processes read it for fifty times as
long as it took; its age stands above it. --refresh and --within look again. The JSON is operator.Causes.`,
	}
	c.Flags().DurationVar(&q.Within, "within", 10*time.Second, "how long to look")
	c.Flags().BoolVar(&refresh, "refresh", false, "look now")
	return a.command(c, func(ctx context.Context, db *database, _ []string) error {
		q.Kept = !refresh && !c.Flags().Changed("within")
		found, err := db.desk.Causes(ctx, q)
		if err != nil {
			return err
		}
		return a.print(found, func(p *page) { p.causes(found) })
	})
}

func (p *page) causes(c operator.Causes) {
	if c.Age > 0 {
		p.line("this look is %s old; --refresh looks again", age(c.Age))
	}
	if len(c.Groups) == 0 {
		p.line("nothing is open")
	} else {
		t := p.table("BATCHES", "LANES", "CAUSE", "REMEDY", "STATE", "ERROR", "OLDEST")
		for _, g := range c.Groups {
			cause := string(g.Cause)
			if g.Root != "" {
				cause += " (" + string(g.Root) + ")"
			}
			if g.Sampled {
				cause += ", sampled"
			}
			state := ""
			if g.State != 0 {
				state = g.State.String()
			}
			style := alarm(g.Remedy != batch.RemedyWait && g.Remedy != batch.RemedyBlocker)
			t.row(style, least(g.Batches, g.AtLeast), g.Lanes, cause, g.Remedy, state, g.Kind, age(g.Oldest))
		}
		t.end()
		for _, g := range c.Groups {
			p.group(g)
		}
	}
	if c.Incomplete {
		p.line("")
		p.line("incomplete: the time was over; see --within")
	}
}

// group shows the example of a group, and the remedy.
func (p *page) group(g operator.Group) {
	p.line("")
	if g.Why != "" {
		p.line("%s: %s", g.Cause, g.Why)
	}
	at := g.Example
	if at.ID == "" {
		return
	}
	p.line("%s, for example %s of %s", string(g.Cause), string(at.ID), lane(at.Service))
	p.line("  %s", at.Text)
	if g.Blocker.ID != "" {
		at = g.Blocker
		p.line("  at the front: %s: %s", string(at.ID), at.Text)
	}
	if mend := mend(at); mend != "" {
		p.line("  $ %s", mend)
	}
}

// mend is the command that carries a remedy out; "" for a remedy without a command.
func mend(e batch.Explanation) string {
	const why = " --reason WHY"
	id, service := quote(string(e.ID)), quote(string(e.Service))
	switch e.Remedy {
	case batch.RemedyResume:
		if e.Control.All {
			return "dltbatch resume --all" + why
		}
		return "dltbatch resume " + service + why
	case batch.RemedyRelease:
		return "dltbatch release " + service + why
	case batch.RemedyDecide:
		return "dltbatch decide " + id + " committed|unknown|rejected" + why
	case batch.RemedyBlocker:
		return "dltbatch explain " + quote(string(e.Blocker.ID))
	case batch.RemedyRequeue:
		return "dltbatch requeue " + id + why
	}
	return ""
}
