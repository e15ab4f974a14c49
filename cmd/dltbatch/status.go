package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/internal/desks"
	"github.com/dltbatch/dltbatch/internal/incident"
	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/store"
)

// stats reads the counts and the instances.
func (db *database) stats(ctx context.Context, refresh bool) (store.Stats, error) {
	desk, err := operator.New(db.Store)
	if err != nil {
		return store.Stats{}, err
	}
	if refresh {
		if _, err := desk.RefreshStats(ctx, store.RefreshQuery{By: "dltbatch command"}); err != nil {
			return store.Stats{}, err
		}
	}
	return desk.Stats(ctx)
}

func (a *app) status() *cobra.Command {
	var refresh bool
	c := &cobra.Command{
		Use: "status [flags]", Short: "How much is open, since when, and who runs",
		Long: `Begins with what is wrong, as dltbatch causes has it. Then it shows the counts of everything that
is open, how batches flow in the last half minute, and the instances. Running instances count, and
the store keeps it: look at the age first. --refresh counts now, where the counts are older than
15 s and it is not too soon after the last count. The JSON is store.Stats with the incidents and
the flow.`,
	}
	c.Flags().BoolVar(&refresh, "refresh", false, "count now")
	return a.databasesCommand(c, func(ctx context.Context, all *databases, _ []string) error {
		answers, err := askAll(ctx, all, func(ctx context.Context, db *database) (operator.Situation, error) {
			s, err := db.stats(ctx, refresh)
			if err != nil {
				return operator.Situation{}, err
			}
			now, err := db.situation(ctx)
			now.Stats = s
			return now, err
		})
		if err != nil {
			return err
		}
		now, answer := joinSituations(all, answers, func(s operator.Situation) statusAnswer {
			return statusAnswer{incidentsOf(s), operator.FlowOf(s.Stats), s.Stats}
		})
		return a.print(answer, func(p *page) {
			p.line("%s", string(now.State))
			p.line("")
			p.printIncidents(now.Incidents, "status")
			p.printStatus(now.Stats)
			if all.areSeveral() {
				p.line("")
				p.printShards(answers)
			}
		})
	})
}

// printShards prints a line for each shard.
func (p *page) printShards(answers []desks.Answer[operator.Situation]) {
	t := p.table("SHARD", "STATE", "OPEN", "LANES", "OLDEST", "BECOME FINAL", "NEED A DECISION", "INSTANCES")
	for _, x := range answers {
		if x.Err != nil {
			t.row(styleRed, x.Shard, "did not answer", "", "", "", "", "", "")
			continue
		}
		s := x.Value.Stats
		open, live, oldest := 0, 0, ""
		for _, n := range s.Open {
			open += n
		}
		for _, i := range s.Instances {
			if i.Live {
				live++
			}
		}
		if !s.Oldest.IsZero() {
			oldest = ageText(s.At.Sub(s.Oldest))
		}
		t.row(alarmStyle(x.Value.State != operator.StateWell), x.Shard, string(x.Value.State), open, s.Lanes, oldest, operator.PerSecond(operator.FlowOf(s).Final), s.Undecided, live)
	}
	t.finish()
}

// statusAnswer is what "status" prints.
type statusAnswer struct {
	incidentsPart
	Flow operator.Flow `json:"flow"`
	store.Stats
}

// presentCountsAge is the age up to which the counts have the head NOW. An instance counts every
// 15 s while a batch or an order is open.
const presentCountsAge = time.Minute

func (p *page) printStatus(s store.Stats) {
	live := 0
	for _, i := range s.Instances {
		if i.Live {
			live++
		}
	}
	if s.At.IsZero() {
		p.line("nobody has counted yet: an instance does, and so does dltbatch status --refresh")
		p.line("instances  %d live of %d", live, len(s.Instances))
		return
	}
	head, by := "NOW", ""
	if s.Age > presentCountsAge { // no instance counts, or nothing is open
		head = "AT " + timeText(s.At)
	}
	if s.By != "" {
		by = ", by " + s.By
	}
	named := func(live bool) bool {
		return slices.ContainsFunc(s.Instances, func(i store.Instance) bool { return i.Name == s.By && i.Live == live })
	}
	gone := named(false) && !named(true)
	if gone {
		by += ", which has gone; --refresh counts now"
	}
	t := p.table("WHAT", head)
	open := 0
	for _, n := range s.Open {
		open += n
	}
	t.row(alarmStyle(gone), "counted", ageText(s.Age)+" ago"+by)
	t.row(stylePlain, "open batches", fmt.Sprintf("%d in %s", open, incident.Count(s.Lanes, "lane", "lanes")))
	for _, state := range batch.States() {
		if n := s.Open[state]; n > 0 {
			t.row(stylePlain, "  "+state.String(), n)
		}
	}
	if !s.Oldest.IsZero() {
		t.row(stylePlain, "oldest", ageText(s.At.Sub(s.Oldest))+", added "+timeText(s.Oldest))
	}
	if f := operator.FlowOf(s); f.Known {
		t.row(stylePlain, "become final", operator.PerSecond(f.Final))
		if f.AddedKnown {
			t.row(stylePlain, "are added", operator.PerSecond(f.Added))
		}
		for _, took := range []struct {
			what string
			store.Times
		}{{"queue time", f.Queue}, {"submit time", f.Flight}, {"finality", f.Finality}} {
			if took.N > 0 {
				t.row(stylePlain, took.what, took.Mean().Round(time.Millisecond))
			}
		}
	}
	t.row(alarmStyle(s.Undecided > 0), "need a decision", s.Undecided)
	t.row(stylePlain, "in doubt", s.InDoubt)
	if !s.OldestDoubt.IsZero() {
		t.row(stylePlain, "oldest doubt", ageText(s.At.Sub(s.OldestDoubt))+", since "+timeText(s.OldestDoubt))
	}
	t.row(alarmStyle(s.Quarantined > 0), "quarantined", s.Quarantined)
	t.row(alarmStyle(s.Halted > 0), "lanes halted", s.Halted)
	t.row(alarmStyle(s.Paused > 0), "lanes paused", s.Paused)
	if s.AllPaused {
		t.row(styleRed, "everything", "paused")
	}
	for _, state := range []string{order.Queued.String(), order.Dequeued.String()} {
		if n := s.Orders[state]; n > 0 {
			t.row(stylePlain, "orders "+state, n)
		}
	}
	if s.RefusedOrders > 0 {
		t.row(styleRed, "orders refused within a day", s.RefusedOrders)
	}
	t.row(alarmStyle(live == 0), "instances", fmt.Sprintf("%d live of %d", live, len(s.Instances)))
	if s.Schema > 0 {
		t.row(stylePlain, "schema", s.Schema)
	}
	for _, size := range s.Sizes {
		t.row(stylePlain, "size of "+size.Name, fmt.Sprintf("%.1f MB, %d dead rows", float64(size.Bytes)/1e6, size.Dead))
	}
	t.finish()
	if len(s.OldestLanes) == 0 {
		return
	}
	p.line("")
	t = p.table("LANE", "OLDEST", "OPEN")
	for _, l := range s.OldestLanes {
		t.row(stylePlain, laneText(l.Service), ageText(s.At.Sub(l.Oldest)), l.Open)
	}
	t.finish()
}

func alarmStyle(on bool) string {
	if on {
		return styleRed
	}
	return stylePlain
}
