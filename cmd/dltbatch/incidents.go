package main

import (
	"context"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/incident"
	"github.com/dltbatch/dltbatch/operator"
)

// lookFor bounds the survey of all lanes in a command that prints more than the survey.
const lookFor = 5 * time.Second

// situation says what is wrong, by a survey that another process has kept, where there is one.
func (db *database) situation(ctx context.Context) (operator.Situation, error) {
	return db.desk.Situation(ctx, operator.CausesQuery{Within: lookFor, Kept: true})
}

// wrong is the part of an answer with the incidents.
type wrong struct {
	State     operator.State      `json:"state"`
	Incidents []operator.Incident `json:"incidents"`
}

func wrongIn(s operator.Situation) wrong { return wrong{s.State, s.Incidents} }

// incidents shows the incidents, each with its remedy. The command that shows them is not advised.
func (p *page) incidents(all []operator.Incident, shows string) {
	for _, i := range all {
		style := red
		if i.ByItself {
			style = plain
		}
		p.styled(style, "%s%s", p.ids(i.Text), since(i))
		if i.Batches > 0 {
			p.line("  %s", concerned(i))
		}
		if i.Why != "" {
			p.line("  %s", p.ids(i.Why))
		}
		if i.Example.ID != "" {
			p.line("  for example %s of %s: %s", p.id(string(i.Example.ID)), lane(i.Example.Service), p.ids(i.Example.Text))
		}
		if i.Blocker.ID != "" {
			p.line("  halted by %s: %s", p.id(string(i.Blocker.ID)), p.ids(i.Blocker.Text))
		}
		p.line("  %s", i.Do)
		if i.Command != "" && i.Command != "dltbatch "+shows {
			p.line("  $ %s", i.Command)
		}
		p.line("")
	}
}

// since says since when an incident is there.
func since(i operator.Incident) string {
	if i.Since.IsZero() {
		return ""
	}
	return fmt.Sprintf(" Since %s, for %s.", when(i.Since), age(i.For))
}

// concerned counts the batches of an incident.
func concerned(i operator.Incident) string {
	text := "1 batch"
	if i.Batches > 1 || i.AtLeast {
		text = least(i.Batches, i.AtLeast) + " batches"
	}
	if i.Lanes > 0 {
		text += " in " + incident.Count(i.Lanes, "lane", "lanes")
	}
	if i.Oldest > 0 {
		text += ", the oldest for " + age(i.Oldest)
	}
	if i.Behind > 0 {
		text += fmt.Sprintf("; %d of them wait behind the others", i.Behind)
	}
	if i.Sampled {
		text += "; some places are estimated"
	}
	return text
}

// mend returns the command that carries a remedy out; "" for a remedy without a command.
func mend(e batch.Explanation) string { return operator.Command(e) }
