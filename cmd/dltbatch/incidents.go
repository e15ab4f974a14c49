package main

import (
	"context"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/incident"
	"github.com/dltbatch/dltbatch/operator"
)

// surveyTimeLimit limits the survey of all lanes in a command that prints more than the survey.
const surveyTimeLimit = 5 * time.Second

// situation says what is wrong, from a survey that another process has kept if there is one.
func (db *database) situation(ctx context.Context) (operator.Situation, error) {
	return db.desk.Situation(ctx, operator.CausesQuery{Within: surveyTimeLimit, Kept: true})
}

// incidentsPart holds the incidents; several answers contain it.
type incidentsPart struct {
	State     operator.State      `json:"state"`
	Incidents []operator.Incident `json:"incidents"`
}

func incidentsOf(s operator.Situation) incidentsPart { return incidentsPart{s.State, s.Incidents} }

// printIncidents prints the incidents, each with its remedy. It leaves out a remedy that is the
// command shows itself.
func (p *page) printIncidents(all []operator.Incident, shows string) {
	for _, i := range all {
		style := styleRed
		if i.ByItself {
			style = stylePlain
		}
		p.styled(style, "%s%s", p.ids(i.Text), sinceText(i))
		if i.Batches > 0 {
			p.line("  %s", batchCount(i))
		}
		if i.Why != "" {
			p.line("  %s", p.ids(i.Why))
		}
		if i.Example.ID != "" {
			p.line("  for example %s of %s: %s", p.id(string(i.Example.ID)), laneText(i.Example.Service), p.ids(i.Example.Text))
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

// sinceText says when an incident began.
func sinceText(i operator.Incident) string {
	if i.Since.IsZero() {
		return ""
	}
	return fmt.Sprintf(" Since %s, for %s.", timeText(i.Since), ageText(i.For))
}

// batchCount says how many batches an incident concerns.
func batchCount(i operator.Incident) string {
	text := "1 batch"
	if i.Batches > 1 || i.AtLeast {
		text = countText(i.Batches, i.AtLeast) + " batches"
	}
	if i.Lanes > 0 {
		text += " in " + incident.Count(i.Lanes, "lane", "lanes")
	}
	if i.Oldest > 0 {
		text += ", the oldest for " + ageText(i.Oldest)
	}
	if i.Behind > 0 {
		text += fmt.Sprintf("; %d of them wait behind the others", i.Behind)
	}
	if i.Sampled {
		text += "; some places are estimated"
	}
	return text
}

// remedyCommand returns the command that carries a remedy out; "" for a remedy without a command.
func remedyCommand(e batch.Explanation) string { return operator.Command(e) }
