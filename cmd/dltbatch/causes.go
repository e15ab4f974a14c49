package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/dltbatch/dltbatch/operator"
)

func (a *app) causes() *cobra.Command {
	var q operator.CausesQuery
	var refresh bool
	c := &cobra.Command{
		Use: "causes [flags]", Short: "What is wrong, all that stands still and why, and what moves it",
		Long: `Begins with what is wrong, the worst first: one sentence each, since when, the batches concerned,
and what to do, with the command. Then come the batches that move by themselves, by what they wait
for. A number with + is a lower bound. "sampled" means that the places of some batches were
estimated. Where a survey takes more than 0.2 s, the store keeps it, and all processes read it for
fifty times as long as it took; its age stands above it. --refresh and --within look again. The
JSON is operator.Causes with the incidents.`,
	}
	c.Flags().DurationVar(&q.Within, "within", 10*time.Second, "how long to look")
	c.Flags().BoolVar(&refresh, "refresh", false, "look now")
	return a.databasesCommand(c, func(ctx context.Context, all *databases, _ []string) error {
		all.timeLimit = q.Within
		q.Kept = !refresh && !c.Flags().Changed("within")
		answers, err := askAll(ctx, all, func(ctx context.Context, db *database) (operator.Situation, error) { return db.desk.Situation(ctx, q) })
		if err != nil {
			return err
		}
		found, answer := joinSituations(all, answers, func(s operator.Situation) causesAnswer { return causesAnswer{incidentsOf(s), s.Moving, s.Causes} })
		return a.print(answer, func(p *page) { p.printCauses(found) })
	})
}

// causesAnswer is what "causes" prints.
type causesAnswer struct {
	incidentsPart
	Moving []operator.MovingGroup `json:"moving"`
	operator.Causes
}

func (p *page) printCauses(s operator.Situation) {
	if s.Causes.Age > 0 {
		p.line("this look is %s old; --refresh looks again", ageText(s.Causes.Age))
	}
	p.printIncidents(s.Incidents, "causes")
	switch {
	case len(s.Moving) > 0:
		p.line("moves by itself:")
		t := p.table("BATCHES", "LANES", "CAUSE", "BEHIND", "ERROR", "OLDEST", "FOR EXAMPLE")
		for _, m := range s.Moving {
			cause := string(m.Cause)
			if m.Sampled {
				cause += ", sampled"
			}
			t.row(stylePlain, countText(m.Batches, m.AtLeast), m.Lanes, cause, m.Behind, m.Kind, ageText(m.Oldest), m.Example.ID)
		}
		t.finish()
		for _, m := range s.Moving {
			if m.Held != "" {
				p.line("%s of %s: %s", p.id(string(m.Example.ID)), laneText(m.Example.Service), p.ids(m.Held))
			}
		}
	case s.Causes.Incomplete:
	case len(s.Causes.Groups) == 0 && len(s.Incidents) == 0:
		p.line("all well: nothing is open")
	case len(s.Causes.Groups) == 0:
		p.line("no batch is open")
	}
	if s.Causes.Incomplete {
		p.line("")
		p.line("not everything was looked at: the time was over; see --within")
	}
}
