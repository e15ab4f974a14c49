package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/explain"
	"github.com/dltbatch/dltbatch/store"
)

// CauseUnknown is the cause of batches about which the record of their route does not say
// enough: Why is the reason. [Desk.Explain] gives a [*SettingsError] for them.
const CauseUnknown batch.Cause = "unknown"

// Bounds of one look at all lanes.
const (
	// sampledLanes is in how many lanes the places of batches behind the front are looked at,
	// where the strategy may take more than one batch of a lane at once.
	sampledLanes = 1000
	// sampledBatches is how many batches of a lane are looked at then: so many of the waiting
	// ones, and as many of the batches that wait for a further attempt.
	sampledBatches = 20
	// surveyCap bounds the count of waiting batches in each lane.
	surveyCap = 1000
	// defaultWithin is CausesQuery.Within where it is not set.
	defaultWithin = 10 * time.Second
)

// CausesQuery bounds a look at all lanes.
type CausesQuery struct {
	// Within is how long the look may take. Lanes that were not reached by then are left out,
	// and the report is marked incomplete. Defaults to 10 s.
	Within time.Duration
}

// Causes are the open batches of a store, grouped by the reason why they wait.
type Causes struct {
	At time.Time `json:"at"` // of the last look, on the database's clock
	// Groups come with the largest first.
	Groups []Group `json:"groups"`
	// Batches and Lanes are the numbers counted; AtLeast says that there are more batches.
	Batches int  `json:"batches"`
	Lanes   int  `json:"lanes"`
	AtLeast bool `json:"at_least,omitzero"`
	// Incomplete says that the time was over before all lanes were reached: the lanes behind
	// After, in byte order, are missing.
	Incomplete bool            `json:"incomplete,omitzero"`
	After      batch.ServiceID `json:"after,omitzero"`
}

// Reason is what the batches of a group have in common.
type Reason struct {
	Cause  batch.Cause  `json:"cause"`
	Remedy batch.Remedy `json:"remedy,omitzero"`
	// Root is the cause of the batch in the way, with [batch.RemedyBlocker]. Where that waits
	// for another batch in turn, Root, State and Kind describe the last batch in this row.
	Root batch.Cause `json:"root,omitzero"`
	// State and Kind are the state and the last error of the batch in the way, or, where none
	// is, of the batches themselves. State is 0 where it is not known.
	State batch.State     `json:"state,omitzero"`
	Kind  batch.ErrorKind `json:"kind,omitzero"`
	// Why names the missing setting, with CauseUnknown.
	Why string `json:"why,omitzero"`
}

// Group is a number of batches that wait for the same reason.
type Group struct {
	Reason
	Batches int `json:"batches"`
	// AtLeast says that there are more: in a lane no more than 1,000 waiting batches are
	// counted.
	AtLeast bool `json:"at_least,omitzero"`
	Lanes   int  `json:"lanes"`
	// Oldest is the time since the oldest of them was added. Where nobody looked at the batch
	// itself, but at the one before it, it is the age of that.
	Oldest time.Duration `json:"oldest_ns"`
	// Example explains one of the batches. Its ID is "" where the store was not asked for one,
	// or the batches have moved on meanwhile.
	Example batch.Explanation `json:"example"`
	// Blocker explains the batch at the end of the row that begins with the example's; its ID
	// is "" where none is in the way.
	Blocker batch.Explanation `json:"blocker,omitzero"`
	// Sampled says that some of the batches were not looked at one by one: the strategy may
	// take several of a lane at once, by conflicts, and this is looked into in 1,000 lanes, and
	// for the first batches of each. The others are counted as waiting behind the front.
	Sampled bool `json:"sampled,omitzero"`
}

// Causes groups all open batches by the reason why they wait. A batch that waits behind others
// counts as such, even if it has to wait for a time of its own as well. Its cost grows with the
// lanes that have open batches, and with the batches in flight there, not with the batches that
// wait. The lanes are not looked at in one moment. It needs a store with [store.Surveyor].
func (d *Desk) Causes(ctx context.Context, q CausesQuery) (Causes, error) {
	if q.Within <= 0 {
		q.Within = defaultWithin
	}
	begin := time.Now()
	bounded, cancel := context.WithDeadline(ctx, begin.Add(q.Within))
	defer cancel()
	c := collector{groups: map[Reason]*Group{}, lanes: map[Reason]batch.ServiceID{}}
	v := d.newView()
	for page := (store.SurveyQuery{Start: true, Cap: surveyCap}).Bounded(); ; page.Start = false {
		n, last, err := v.page(bounded, page, c.take)
		if err != nil {
			if ctx.Err() == nil && bounded.Err() != nil {
				c.report.Incomplete, c.report.After = true, page.After
				break
			}
			return Causes{}, fmt.Errorf("causes: %w", err)
		}
		if n < page.Limit {
			break
		}
		page.After = last
	}
	if err := v.samples(bounded, c.take); err != nil {
		if ctx.Err() != nil || bounded.Err() == nil {
			return Causes{}, fmt.Errorf("causes: %w", err)
		}
		c.report.Incomplete = true
	}
	c.report.At = v.at
	if err := c.examples(ctx, v); err != nil {
		return Causes{}, fmt.Errorf("causes: %w", err)
	}
	return c.sorted(), nil
}

// item is a number of batches of one lane that wait for the same reason.
type item struct {
	Reason
	// id is "" for batches that nobody looked at: they wait behind the others.
	id      batch.ID
	n       int
	atLeast bool
	sampled bool
	created time.Time // of the oldest
	// e and blocker have no sentences yet; blocker's ID is "" where none is in the way.
	e, blocker batch.Explanation
}

// collector makes groups of items.
type collector struct {
	report Causes
	groups map[Reason]*Group
	lanes  map[Reason]batch.ServiceID // the first lane of each
}

// take adds the items of one lane, seen at a moment.
func (c *collector) take(at time.Time, l store.LaneSurvey, items []item) {
	c.report.Lanes++
	for i := range items {
		it := &items[i]
		g := c.groups[it.Reason]
		if g == nil {
			g = &Group{Reason: it.Reason}
			c.groups[it.Reason] = g
			c.lanes[it.Reason] = l.Service
		}
		if !slices.ContainsFunc(items[:i], func(o item) bool { return o.Reason == it.Reason }) {
			g.Lanes++
		}
		g.Batches += it.n
		c.report.Batches += it.n
		g.AtLeast, g.Sampled = g.AtLeast || it.atLeast, g.Sampled || it.sampled
		c.report.AtLeast = c.report.AtLeast || it.atLeast
		if age := at.Sub(it.created); age > g.Oldest {
			g.Oldest = age
		}
		if g.Example.ID == "" && it.id != "" {
			g.Example, g.Blocker = it.e, it.blocker
		} else if g.Blocker.ID == "" {
			g.Blocker = it.blocker
		}
	}
}

// examples looks for examples of groups whose batches nobody looked at, and puts all examples
// into words.
func (c *collector) examples(ctx context.Context, v *view) error {
	var ask []batch.ServiceID
	for r, g := range c.groups {
		if g.Example.ID == "" && r.Cause != CauseUnknown {
			ask = append(ask, c.lanes[r])
		}
	}
	if len(ask) > 0 {
		_, _, err := v.page(ctx, store.SurveyQuery{Services: ask, Window: 2, Cap: 2}, func(_ time.Time, _ store.LaneSurvey, items []item) {
			for _, it := range items {
				if g := c.groups[it.Reason]; it.id != "" && g != nil && g.Example.ID == "" {
					g.Example, g.Blocker = it.e, it.blocker
				}
			}
		})
		if err != nil {
			return err
		}
	}
	for _, g := range c.groups {
		if halter := g.Example.Blocker; g.Remedy == batch.RemedyRelease && g.Example.ID != "" {
			if e, err := v.d.Explain(ctx, halter); err == nil {
				g.Blocker = e
			} else if !errors.Is(err, batch.ErrNotFound) && !errors.Is(err, ErrNotRecorded) && !errors.Is(err, ErrDisagree) {
				return err
			}
		}
		for _, e := range []*batch.Explanation{&g.Example, &g.Blocker} {
			if e.ID != "" && e.Cause != CauseUnknown {
				e.Text = explain.Sentence(*e)
			}
		}
	}
	return nil
}

func (c *collector) sorted() Causes {
	for _, g := range c.groups {
		c.report.Groups = append(c.report.Groups, *g)
	}
	slices.SortFunc(c.report.Groups, func(a, b Group) int { return compare(a.Batches, b.Batches, a.Reason, b.Reason) })
	return c.report
}

// compare puts the larger of two numbers first, and equal ones in the order of their reasons.
func compare(n, m int, a, b Reason) int {
	return cmp.Or(cmp.Compare(m, n), cmp.Compare(a.Cause, b.Cause), cmp.Compare(a.Root, b.Root),
		cmp.Compare(a.State, b.State), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Why, b.Why))
}

// view judges lanes page by page, and remembers the records of routes that it has read.
type view struct {
	d     *Desk
	at    time.Time
	texts map[string]string   // the record of each ledger
	rules map[string]rules    // of each ledger whose record holds for all its services
	later []batch.ServiceID   // lanes to be looked at more closely
	full  bool                // no more of these
	final map[batch.Key]final // batches that halted lanes
}

// final is the end of a batch that halted its lane.
type final struct {
	state batch.State
	kind  batch.ErrorKind
}

func (d *Desk) newView() *view {
	return &view{d: d, texts: map[string]string{}, rules: map[string]rules{}, final: map[batch.Key]final{}}
}

// page judges the lanes of a page, and returns how many the page has, and the last.
func (v *view) page(ctx context.Context, q store.SurveyQuery, take func(time.Time, store.LaneSurvey, []item)) (n int, last batch.ServiceID, err error) {
	s, err := v.d.store.Survey(ctx, q)
	if err != nil {
		return 0, "", err
	}
	v.at = s.At
	if err := v.halters(ctx, s.Lanes); err != nil {
		return 0, "", err
	}
	for _, l := range s.Lanes {
		last = l.Service
		if len(l.Rows) == 0 {
			continue // it became empty
		}
		u, err := v.rulesOf(ctx, l)
		if err != nil {
			return 0, "", err
		}
		if q.Services == nil && u.query.Window > 1 && l.Waiting > 1 && !closed(s, l) && !v.full {
			v.later = append(v.later, l.Service)
			v.full = len(v.later) == sampledLanes
			continue
		}
		take(s.At, l, v.lane(s, l, u, q.Bounded()))
	}
	return len(s.Lanes), last, nil
}

// samples judges the lanes that page has put back.
func (v *view) samples(ctx context.Context, take func(time.Time, store.LaneSurvey, []item)) error {
	for some := range slices.Chunk(v.later, 100) {
		if _, _, err := v.page(ctx, store.SurveyQuery{Services: some, Window: sampledBatches, Cap: surveyCap}, take); err != nil {
			return err
		}
	}
	return nil
}

// rulesOf returns how the lane's batches are claimed.
func (v *view) rulesOf(ctx context.Context, l store.LaneSurvey) (rules, error) {
	if u, known := v.rules[l.Ledger]; known {
		return u, nil
	}
	r, err := v.d.recorded(ctx, l.Service, l.Ledger, v.texts)
	if err != nil {
		return rules{}, err
	}
	u, err := r.rules()
	if err == nil && r.Uniform() {
		v.rules[l.Ledger] = u
	}
	return u, err
}

// halters reads the batches that halted lanes of a page.
func (v *view) halters(ctx context.Context, lanes []store.LaneSurvey) error {
	var ask []batch.Key
	for _, l := range lanes {
		if l.Control.HaltedBy != "" {
			ask = append(ask, batch.Key{Service: l.Service, ID: l.Control.HaltedBy})
		}
	}
	if len(ask) == 0 {
		return nil
	}
	recs, _, err := v.d.store.Finals(ctx, ask)
	if errors.Is(err, store.ErrUnsupported) {
		return nil
	}
	for _, rec := range recs {
		v.final[rec.Key] = final{rec.State, kind(rec.Error)}
	}
	return err
}

func kind(err *batch.SubmissionError) batch.ErrorKind {
	if err == nil {
		return ""
	}
	return err.Kind
}

// lane returns the open batches of a lane with their reasons.
func (v *view) lane(s store.Survey, l store.LaneSurvey, u rules, q store.SurveyQuery) []item {
	attempted := slices.IndexFunc(l.Rows, func(r store.LaneRow) bool { return !r.Row.Attempted() })
	if attempted < 0 {
		attempted = len(l.Rows)
	}
	waiting, window := len(l.Rows)-attempted, u.query.Window
	partial := waiting < min(l.Waiting, window) // a claim sees more than this
	if partial {
		window = waiting
	}
	sampled := partial && !closed(s, l)
	shown := l.Rows[:min(len(l.Rows), attempted+window)]
	j := judge{
		v: v, u: u, rows: l.Rows,
		look: store.Look{At: s.At, Lane: store.InOrder(shown, window), Everything: s.Everything, Service: l.Control},
	}
	items := make([]item, 0, len(l.Rows)+1)
	again := 0
	for i := range l.Rows {
		r := &l.Rows[i]
		if i < attempted && r.Row.State.Claimable() {
			again++
		}
		var it item
		if i < attempted && again > sampledBatches && r.Row.State.Claimable() { // each costs a look at the whole lane
			it = j.behind(r.Created, 1)
			it.sampled = true
		} else {
			it = j.item(r)
			it.sampled = sampled && r.Row.State.Claimable()
		}
		items = append(items, it)
	}
	if rest := l.Waiting - waiting; rest > 0 {
		front := items[len(items)-1] // of the waiting rows, which come last
		it := item{n: rest, created: front.created, Reason: front.Reason}
		if !closed(s, l) {
			it = j.behind(front.created, rest)
			it.sampled = sampled
		}
		it.atLeast = l.Waiting == q.Cap
		items = append(items, it)
	}
	return items
}

// closed reports whether nothing leaves the lane, whichever batch it is.
func closed(s store.Survey, l store.LaneSurvey) bool {
	return s.Everything.Closed() || l.Control.Closed()
}

// judge judges the batches of one lane.
type judge struct {
	v    *view
	u    rules
	rows []store.LaneRow
	look store.Look
}

// of explains one row.
func (j *judge) of(r *store.LaneRow) (batch.Explanation, error) {
	l := j.look
	l.Ref, l.Row, l.Budget, l.Footprint = r.Ref, r.Row, r.Budget, r.Footprint
	return j.u.judge(l)
}

// item explains one row, and the batch in its way.
func (j *judge) item(r *store.LaneRow) item {
	it := item{id: r.Key.ID, n: 1, created: r.Created}
	var err error
	if it.e, err = j.of(r); err != nil {
		it.Reason = j.u.unknown
		it.e = batch.Explanation{Key: r.Key, Version: r.Row.Version, State: r.Row.State, Cause: CauseUnknown}
		return it
	}
	it.Reason = Reason{Cause: it.e.Cause, Remedy: it.e.Remedy, State: r.Row.State, Kind: kind(r.Row.Error)}
	switch it.e.Remedy {
	case batch.RemedyBlocker:
		j.blocked(&it, it.e.Blocker)
	case batch.RemedyRelease:
		f := j.v.final[it.e.Blocker] // the zero value where it is not final any more
		it.State, it.Kind = f.state, f.kind
	}
	return it
}

// behind is for batches that wait behind the front of their lane: nobody looked at them.
func (j *judge) behind(created time.Time, n int) item {
	it := item{n: n, created: created, Reason: Reason{Cause: batch.CauseBehind, Remedy: batch.RemedyBlocker}}
	if j.u.choice != nil {
		it.Reason = j.u.unknown
		return it
	}
	j.blocked(&it, explain.First(j.look.Lane))
	return it
}

// blocked fills in the reason of a batch that others block, from its blocker to the end of the row.
func (j *judge) blocked(it *item, by batch.Key) {
	for range j.rows { // each batch waits for an earlier one
		i := slices.IndexFunc(j.rows, func(r store.LaneRow) bool { return r.Key == by })
		if i < 0 {
			return
		}
		r := &j.rows[i]
		e, err := j.of(r)
		it.State, it.Kind, it.Root, it.blocker = r.Row.State, kind(r.Row.Error), e.Cause, e
		if err != nil {
			it.Reason = j.u.unknown
			return
		}
		if e.Remedy != batch.RemedyBlocker {
			return
		}
		by = e.Blocker
	}
}

// unknown is the reason of batches about which too little is on record.
func unknown(err error) Reason {
	r := Reason{Cause: CauseUnknown, Why: err.Error()}
	if s, is := errors.AsType[*SettingsError](err); is { // of all services of the ledger alike
		r.Why = fmt.Sprintf("%v: %s of ledger %q: %s", s.Err, s.Setting, batch.Excerpt(s.Ledger, 64), s.Why)
	}
	return r
}
