package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/store"
)

// stats reads the counts and the instances.
func (db *database) stats(ctx context.Context, refresh bool) (store.Stats, error) {
	keeper, ok := db.Store.(store.StatsKeeper)
	if !ok {
		return store.Stats{}, fmt.Errorf("stats: %w: %T is no store.StatsKeeper", store.ErrUnsupported, db.Store)
	}
	if refresh {
		if _, err := keeper.RefreshStats(ctx, store.RefreshQuery{By: "dltbatch command"}); err != nil {
			return store.Stats{}, err
		}
	}
	return keeper.Stats(ctx)
}

func (a *app) status() *cobra.Command {
	var refresh bool
	c := &cobra.Command{
		Use: "status [flags]", Short: "How much is open, since when, and who runs",
		Long: `Shows the counts of everything that is open, and the instances. Running instances count, and the store
keeps it: look at the age first. --refresh counts now, where the counts are older than 15 s and it is not
too soon after the last count. The JSON is store.Stats.`,
	}
	c.Flags().BoolVar(&refresh, "refresh", false, "count now")
	return a.command(c, func(ctx context.Context, db *database, _ []string) error {
		s, err := db.stats(ctx, refresh)
		if err != nil {
			return err
		}
		return a.print(s, func(p *page) { p.status(s) })
	})
}

func (p *page) status(s store.Stats) {
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
	t := p.table("WHAT", "NOW")
	open := 0
	for _, n := range s.Open {
		open += n
	}
	t.row(plain, "counted", age(s.Age)+" ago, by "+s.By)
	t.row(plain, "open batches", fmt.Sprintf("%d in %d lanes", open, s.Lanes))
	for _, state := range batch.States() {
		if n := s.Open[state]; n > 0 {
			t.row(plain, "  "+state.String(), n)
		}
	}
	if !s.Oldest.IsZero() {
		t.row(plain, "oldest", age(s.At.Sub(s.Oldest))+", added "+when(s.Oldest))
	}
	t.row(alarm(s.Undecided > 0), "need a decision", s.Undecided)
	t.row(plain, "in doubt", s.InDoubt)
	t.row(alarm(s.Quarantined > 0), "quarantined", s.Quarantined)
	t.row(alarm(s.Halted > 0), "lanes halted", s.Halted)
	t.row(alarm(s.Paused > 0), "lanes paused", s.Paused)
	if s.AllPaused {
		t.row(red, "everything", "paused")
	}
	for _, state := range []batch.OrderState{batch.OrderQueued, batch.OrderDequeued} {
		if n := s.Orders[state]; n > 0 {
			t.row(plain, "orders "+state.String(), n)
		}
	}
	t.row(alarm(live == 0), "instances", fmt.Sprintf("%d live of %d", live, len(s.Instances)))
	if s.Schema > 0 {
		t.row(plain, "schema", s.Schema)
	}
	for _, size := range s.Sizes {
		t.row(plain, "size of "+size.Name, fmt.Sprintf("%.1f MB, %d dead rows", float64(size.Bytes)/1e6, size.Dead))
	}
	t.end()
	if len(s.OldestLanes) == 0 {
		return
	}
	p.line("")
	t = p.table("LANE", "OLDEST", "OPEN")
	for _, l := range s.OldestLanes {
		t.row(plain, lane(l.Service), age(s.At.Sub(l.Oldest)), l.Open)
	}
	t.end()
}

func alarm(on bool) string {
	if on {
		return red
	}
	return plain
}

func (a *app) causes() *cobra.Command {
	var q operator.CausesQuery
	c := &cobra.Command{
		Use: "causes [flags]", Short: "All that stands still, grouped by why, and what moves it",
		Long: `Groups all open batches by what they wait for, the largest group first, each with an example and the
command that moves it. A number with + is a lower bound. "sampled" means that the places of some batches
were estimated. The JSON is operator.Causes.`,
	}
	c.Flags().DurationVar(&q.Within, "within", 10*time.Second, "how long to look")
	return a.command(c, func(ctx context.Context, db *database, _ []string) error {
		found, err := db.desk.Causes(ctx, q)
		if err != nil {
			return err
		}
		return a.print(found, func(p *page) { p.causes(found) })
	})
}

func (p *page) causes(c operator.Causes) {
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

// group shows the example of a group, and what to do.
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

// batches is an answer of list.
type batches struct {
	Batches []batch.Record `json:"batches"`
	Next    store.Cursor   `json:"next,omitzero"` // for --after; "" at the end
}

func (a *app) list() *cobra.Command {
	var q store.ListQuery
	var service, after string
	var states []string
	var all bool
	c := &cobra.Command{
		Use: "list [flags]", Short: "Batches by age, open ones unless asked otherwise",
		Long: `Lists batches, the oldest first. Without --state, --quarantined or --all it lists what is open. Payloads
are never shown. The JSON is an object with "batches", each a batch.Record, and "next" for --after.`,
	}
	f := c.Flags()
	f.StringVar(&service, "service", "", "only this `SERVICE`")
	f.StringSliceVar(&states, "state", nil, "only these states: "+join(batch.States()))
	f.BoolVar(&q.Quarantined, "quarantined", false, "only what a policy set aside")
	f.BoolVar(&all, "all", false, "final ones, too")
	f.DurationVar(&q.OlderThan, "older-than", 0, "at least this old")
	f.DurationVar(&q.NewerThan, "newer-than", 0, "younger than this")
	f.IntVar(&q.Limit, "limit", 100, "how many at most, up to 1000")
	f.StringVar(&after, "after", "", "go on from the `CURSOR` of an earlier list")
	complete(c, "state", words(batch.States()))
	return a.command(c, func(ctx context.Context, db *database, _ []string) (err error) {
		if f.Changed("service") {
			q.Service = (*batch.ServiceID)(&service)
		}
		if q.States, err = parse[batch.State](states); err != nil {
			return err
		}
		q.After = store.Cursor(after)
		q.Open = len(states) == 0 && !q.Quarantined && !all
		recs, next, err := db.desk.List(ctx, q)
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

// some is a list that is no null in JSON.
func some[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

type stringer interface{ String() string }

func words[T stringer](list []T) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = v.String()
	}
	return out
}

func join[T stringer](list []T) string { return strings.Join(words(list), ", ") }

// parse reads words such as the names of states.
func parse[T any, P interface {
	*T
	UnmarshalText([]byte) error
}](texts []string) ([]T, error) {
	var out []T
	for _, text := range texts {
		var v T
		if err := P(&v).UnmarshalText([]byte(text)); err != nil {
			return nil, fmt.Errorf("%w: %w", errUsage, err)
		}
		out = append(out, v)
	}
	return out, nil
}

// complete completes the values of a flag.
func complete(c *cobra.Command, flag string, values []string) {
	// The error says that the flag does not exist, or has completions already: see the test.
	_ = c.RegisterFlagCompletionFunc(flag, fixed(values))
}

func fixed(values []string) cobra.CompletionFunc {
	return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
}

// naming are the flags that name a batch beside its id.
type naming struct {
	c       *cobra.Command
	service string
	change  string
}

func (n *naming) flags(c *cobra.Command) {
	n.c = c
	c.Flags().StringVar(&n.service, "service", "", "the batch's `SERVICE`; not needed with an ID")
	c.Flags().StringVar(&n.change, "data-change-id", "", "in place of an ID, with --service: the batch with this `KEY`")
}

// find returns the batch that the first of args, or flags, name.
func (n *naming) find(ctx context.Context, db *database, args []string) (batch.Record, error) {
	byChange := n.c.Flags().Changed("data-change-id")
	switch given := n.c.Flags().Changed("service"); {
	case byChange == (len(args) > 0) || byChange && !given:
		return batch.Record{}, fmt.Errorf("%w: name one batch: an ID, or --service and --data-change-id", errUsage)
	case byChange:
		return db.desk.Find(ctx, store.FindQuery{Service: batch.ServiceID(n.service), DataChangeID: n.change})
	case given:
		return db.desk.Get(ctx, batch.Key{Service: batch.ServiceID(n.service), ID: batch.ID(args[0])})
	}
	return db.desk.Find(ctx, store.FindQuery{ID: batch.ID(args[0])})
}

// shown is an answer of show.
type shown struct {
	Batch    batch.Record   `json:"batch"`
	Attempts []batch.Report `json:"attempts"` // failed ones, and those accepted after a failure
	History  []batch.Act    `json:"history"`
}

func (a *app) show() *cobra.Command {
	var n naming
	c := &cobra.Command{
		Use: "show [flags] [ID]", Short: "One batch: its record, failed attempts and history", Args: cobra.MaximumNArgs(1),
		Long: `Shows a batch without its payload. The JSON is an object with "batch" (batch.Record), "attempts"
(batch.Report) and "history" (batch.Act).`,
	}
	n.flags(c)
	return a.command(c, func(ctx context.Context, db *database, args []string) error {
		rec, err := n.find(ctx, db, args)
		if err != nil {
			return err
		}
		s := shown{Batch: rec}
		if s.Attempts, err = db.desk.Attempts(ctx, rec.Key); err != nil {
			return err
		}
		if s.History, err = db.desk.History(ctx, rec.Key); err != nil {
			return err
		}
		s.Attempts, s.History = some(s.Attempts), some(s.History)
		return a.print(s, func(p *page) {
			p.record(rec)
			if len(s.Attempts) > 0 {
				p.line("")
				t := p.table("ATTEMPT", "AT", "RESULT", "STATUS", "CODE", "TOOK", "INSTANCE", "ENDPOINT", "TEXT")
				for _, r := range s.Attempts {
					result := string(r.Kind)
					if result == "" {
						result = "accepted"
					}
					t.row(plain, r.Attempt, when(r.At), result, r.StatusCode, r.Code, r.Took.Round(time.Millisecond), r.Instance, r.Endpoint, r.Text)
				}
				t.end()
			}
			if len(s.History) > 0 {
				p.line("")
				p.acts(s.History)
			}
		})
	})
}

func (p *page) record(r batch.Record) {
	t := p.table("BATCH", string(r.ID))
	t.row(plain, "service", lane(r.Service))
	state := r.State.String()
	if r.Final() {
		state += ", final"
	}
	t.row(plain, "state", state)
	t.row(plain, "version", r.Version)
	t.row(plain, "attempts", fmt.Sprintf("%d, %d count against the budget", r.Attempt, r.Spent))
	for _, x := range []struct{ what, text string }{
		{"data_change_id", r.DataChangeID}, {"added", when(r.CreatedAt)}, {"final", when(r.FinalAt)},
		{"claimed by", r.ClaimedBy}, {"claim ends", when(r.ClaimExpires)}, {"not before", when(r.NotBefore)},
		{"last post", when(r.LastPost)}, {"in doubt since", when(r.DoubtSince)}, {"settles", when(r.SettlesAt)},
		{"error", failed(r.Error)}, {"decision", r.Decision},
	} {
		if x.text != "" {
			t.row(alarm(x.what == "decision"), x.what, x.text)
		}
	}
	if r.Quarantined {
		t.row(red, "quarantined", "yes")
	}
	for _, receipt := range r.Receipts {
		t.row(plain, "receipt", fmt.Sprintf("%+v", receipt))
	}
	t.end()
}

func (p *page) acts(acts []batch.Act) {
	t := p.table("AT", "ACTOR", "ACTION", "UPON", "CHANGE", "REASON")
	for _, a := range acts {
		upon := string(a.Batch)
		if upon == "" {
			upon = a.Scope.String()
		}
		change := ""
		switch {
		case a.Action == batch.ActionSetPolicy:
			change = a.Policy.String()
		case a.From != 0:
			change = a.From.String() + " -> " + a.To.String()
		}
		if a.AtEnd {
			change += ", at the end"
		}
		t.row(plain, when(a.At), a.Actor, a.Action, upon, change, a.Reason)
	}
	t.end()
}

// explained is an answer of explain.
type explained struct {
	batch.Explanation
	// Row are the explanations of the batches in the way, each of the one before.
	Row []batch.Explanation `json:"row"`
}

// rowLimit bounds how far explain follows blockers.
const rowLimit = 10

func (a *app) explain() *cobra.Command {
	var n naming
	c := &cobra.Command{
		Use: "explain [flags] [ID]", Short: "Why a batch does not move, and what moves it", Args: cobra.MaximumNArgs(1),
		Long: `Says why a batch does not move, follows the batches in its way to the one at the front, and names the
command that moves that. The JSON is batch.Explanation, and "row" with those of the batches in the way.`,
	}
	n.flags(c)
	return a.command(c, func(ctx context.Context, db *database, args []string) error {
		rec, err := n.find(ctx, db, args)
		if err != nil {
			return err
		}
		e, err := db.desk.Explain(ctx, rec.Key)
		if err != nil {
			return err
		}
		x := explained{Explanation: e, Row: []batch.Explanation{}}
		for e.Remedy == batch.RemedyBlocker && len(x.Row) < rowLimit {
			if e, err = db.desk.Explain(ctx, e.Blocker); err != nil {
				return err
			}
			x.Row = append(x.Row, e)
		}
		return a.print(x, func(p *page) {
			for _, e := range slices.Insert(slices.Clone(x.Row), 0, x.Explanation) {
				p.line("%s of %s (version %d)", string(e.ID), lane(e.Service), e.Version)
				p.line("  %s", e.Text)
			}
			p.line("")
			p.line("cause %s, remedy %s", string(e.Cause), string(e.Remedy))
			if mend := mend(e); mend != "" {
				p.line("  $ %s", mend)
			}
		})
	})
}

// lanes is an answer of lanes.
type laneList struct {
	Everything batch.Control      `json:"everything"`
	Lanes      []store.LaneCounts `json:"lanes"`
	// Controls are of the lanes that are paused, halted or have a policy.
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
			service := batch.ServiceID(args[0])
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

type instanceList struct {
	Instances []store.Instance `json:"instances"`
}

func (a *app) instances() *cobra.Command {
	c := &cobra.Command{
		Use: "instances [flags]", Short: "Who runs, and who was seen last",
		Long: `Lists the instances of Runners, also those that have died, until they are forgotten. The JSON is an
object with "instances", each a store.Instance.`,
	}
	return a.command(c, func(ctx context.Context, db *database, _ []string) error {
		s, err := db.stats(ctx, false)
		if err != nil {
			return err
		}
		return a.print(instanceList{some(s.Instances)}, func(p *page) {
			t := p.table("NAME", "STATE", "SEEN", "SINCE", "CLAIMS", "LEDGER", "VERSION")
			for _, i := range s.Instances {
				state := "live"
				switch {
				case !i.Live:
					state = "gone"
				case i.Paused:
					state = "posts nothing"
				}
				if i.Shared {
					state += ", name shared"
				}
				t.row(alarm(!i.Live || i.Paused || i.Shared), i.Name, state, age(i.Unseen)+" ago", when(i.Since), i.Claims, i.Ledger, i.Version)
			}
			t.end()
		})
	})
}

type historyList struct {
	History []batch.Act `json:"history"`
}

func (a *app) history() *cobra.Command {
	var n naming
	var of string
	var all bool
	c := &cobra.Command{
		Use: "history [flags] [ID]", Short: "Who did what to a batch, a lane or everything", Args: cobra.MaximumNArgs(1),
		Long: `Lists the acts of operators, the oldest first: upon a batch, upon a lane (--lane), or upon everything
(--all). The JSON is an object with "history", each a batch.Act.`,
	}
	n.flags(c)
	c.Flags().StringVar(&of, "lane", "", "the acts upon this `SERVICE`")
	c.Flags().BoolVar(&all, "all", false, "the acts upon everything")
	c.MarkFlagsMutuallyExclusive("lane", "all")
	return a.command(c, func(ctx context.Context, db *database, args []string) (err error) {
		var acts []batch.Act
		switch byLane := c.Flags().Changed("lane"); {
		case (byLane || all) && (len(args) > 0 || c.Flags().Changed("data-change-id")):
			return fmt.Errorf("%w: name a batch, a lane or --all", errUsage)
		case byLane:
			acts, err = db.desk.LaneHistory(ctx, batch.Only(batch.ServiceID(of)))
		case all:
			acts, err = db.desk.LaneHistory(ctx, batch.Everything())
		default:
			var rec batch.Record
			if rec, err = n.find(ctx, db, args); err == nil {
				acts, err = db.desk.History(ctx, rec.Key)
			}
		}
		if err != nil {
			return err
		}
		return a.print(historyList{some(acts)}, func(p *page) { p.acts(acts) })
	})
}
