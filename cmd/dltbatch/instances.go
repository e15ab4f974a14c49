package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dltbatch/dltbatch/internal/desks"
	"github.com/dltbatch/dltbatch/internal/incident"
	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/store"
)

type instanceList struct {
	incidentsPart
	Instances []store.Instance `json:"instances"`
}

func (a *app) instances() *cobra.Command {
	c := &cobra.Command{
		Use: "instances [flags]", Short: "Who runs, and who was seen last",
		Long: `Lists the instances of Runners, also those that have died, until they are forgotten. It begins
with what is wrong with them. The JSON is an object with "instances", each a store.Instance, and
the incidents.`,
	}
	return a.databasesCommand(c, func(ctx context.Context, all *databases, _ []string) error {
		answers, err := askAll(ctx, all, func(ctx context.Context, db *database) (operator.Situation, error) {
			now, err := db.situation(ctx)
			now.Incidents = slices.DeleteFunc(now.Incidents, func(i operator.Incident) bool { return !i.Kind.OfInstances() })
			return now, err
		})
		if err != nil {
			return err
		}
		now, answer := joinSituations(all, answers, func(s operator.Situation) instanceList {
			return instanceList{incidentsOf(s), notNull(s.Stats.Instances)}
		})
		return a.print(answer, func(p *page) {
			p.printIncidents(now.Incidents, "instances")
			heads := []string{"NAME", "STATE", "SEEN", "SINCE", "CLAIMS", "LEDGER", "VERSION", "SCHEMA"}
			if all.areSeveral() {
				heads = append(heads, "SHARD")
			}
			t := p.table(heads...)
			for _, x := range desks.WithoutErrors(answers) {
				for _, i := range x.Value.Stats.Instances {
					state := "live"
					switch {
					case !i.Live:
						state = "gone"
					case len(i.Pauses) > 0:
						state = notPostedText(i)
					case len(i.Unserved) > 0:
						state = "holds lanes"
					}
					if i.Shared {
						state += ", name shared"
					}
					cells := []any{i.Name, state, ageText(i.Unseen) + " ago", timeText(i.Since), i.Claims, i.Ledger, i.Version, i.Schema}
					if all.areSeveral() {
						cells = append(cells, x.Shard)
					}
					t.row(alarmStyle(state != "live"), cells...)
				}
			}
			t.finish()
			for _, x := range desks.WithoutErrors(answers) {
				for _, i := range x.Value.Stats.Instances {
					for _, u := range i.Unserved {
						if i.Live {
							p.line("%s takes no batches of lane %s for %s: %s", i.Name, laneText(u.Service), ageText(u.For+i.Unseen), u.Why)
						}
					}
				}
			}
		})
	})
}

// notPostedText says what an instance does not post, for how long, and why.
func notPostedText(i store.Instance) string {
	var parts []string
	for _, p := range i.Pauses {
		parts = append(parts, "posts nothing"+operator.NotPosted(i, p)+" for "+ageText(p.For+i.Unseen)+": "+incident.LedgerClosed(p.Kind))
	}
	return strings.Join(parts, "; ")
}
