package main

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/dltbatch/dltbatch/internal/incident"
	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/store"
)

type instanceList struct {
	wrong
	Instances []store.Instance `json:"instances"`
}

func (a *app) instances() *cobra.Command {
	c := &cobra.Command{
		Use: "instances [flags]", Short: "Who runs, and who was seen last",
		Long: `Lists the instances of Runners, also those that have died, until they are forgotten. It begins with what is
wrong with them. The JSON is an object with "instances", each a store.Instance, and the incidents.`,
	}
	return a.command(c, func(ctx context.Context, db *database, _ []string) error {
		s, err := db.stats(ctx, false)
		if err != nil {
			return err
		}
		now, err := db.situation(ctx)
		if err != nil {
			return err
		}
		w := wrongIn(now)
		w.Incidents = slices.DeleteFunc(w.Incidents, func(i operator.Incident) bool { return !i.Kind.OfInstances() })
		return a.print(instanceList{w, some(s.Instances)}, func(p *page) {
			p.incidents(w.Incidents)
			t := p.table("NAME", "STATE", "SEEN", "SINCE", "CLAIMS", "LEDGER", "VERSION", "SCHEMA")
			for _, i := range s.Instances {
				state := "live"
				switch {
				case !i.Live:
					state = "gone"
				case i.Paused:
					state = "posts nothing for " + age(i.PausedFor+i.Unseen) + ": " + incident.Closed(i.PausedKind)
				}
				if i.Shared {
					state += ", name shared"
				}
				t.row(alarm(!i.Live || i.Paused || i.Shared), i.Name, state, age(i.Unseen)+" ago", when(i.Since), i.Claims, i.Ledger, i.Version, i.Schema)
			}
			t.end()
		})
	})
}
