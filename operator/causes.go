package operator

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/explain"
	"github.com/dltbatch/dltbatch/store"
)

// CauseUnknown is the cause of batches about which the record of their route does not say
// enough: Why is the reason. [Desk.Explain] gives a [*SettingsError] for them.
const CauseUnknown batch.Cause = "unknown"

// Bounds of one survey of all lanes.
const (
	// maxSampledLanes is the number of lanes of which also the batches behind the front are read,
	// where the strategy may take more than one batch of a lane at once.
	maxSampledLanes = 1000
	// maxSampledBatches is the number of batches that are read of such a lane: so many of those
	// that were never tried, and as many of those that wait for a further attempt.
	maxSampledBatches = 20
	// surveyPageLanes is the number of lanes that one call of the store's Survey reads.
	surveyPageLanes = 5000
	// maxExampleLanes is the number of lanes of a group in which an example is looked for.
	maxExampleLanes = 3
	// maxCountedBatches bounds the count of waiting batches in each lane.
	maxCountedBatches = 1000
	// defaultTimeLimit is CausesQuery.Within where it is not set.
	defaultTimeLimit = 10 * time.Second
)

// CausesQuery bounds a survey of all lanes.
type CausesQuery struct {
	// Within is how long the survey may take. Lanes that were not reached by then are left out,
	// and the report is marked incomplete. Defaults to 10 s.
	Within time.Duration
	// Kept says that a survey which another process has kept will do; Within does not count then.
	// Causes.Age is its age.
	Kept bool
}

// Causes are the open batches of a store, grouped by the reason why they wait.
type Causes struct {
	At time.Time `json:"at"` // of the last survey, on the database's clock
	// Age is the time since At of a kept survey; 0 for a survey that was made for the caller.
	Age time.Duration `json:"age_ns"`
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

// Reason has the facts that the batches of a group have in common.
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
	// Called says that a person was called about that batch, because it has not moved for long,
	// and that its cause is not [batch.CauseDecision].
	Called bool `json:"called,omitzero"`
	// Ledger is the name of the lanes' ledger: set in [Causes], and "" where no instance has met
	// them.
	Ledger string `json:"ledger,omitzero"`
	// Why names the missing setting, with CauseUnknown, and Missing says what is missing.
	Why     string  `json:"why,omitzero"`
	Missing Missing `json:"missing,omitzero"`
}

// Missing names the setting that the record lacks, with CauseUnknown.
type Missing string

// The values of [Missing].
const (
	MissingLedger    Missing = "ledger"    // no instance has taken batches of the lane
	MissingRecord    Missing = "record"    // the settings that an answer depends on
	MissingAgreement Missing = "agreement" // instances have recorded different settings
)

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
	// Attempts is the most that one of them has made; of batches in whose way others are, the most
	// that a batch of their lanes has made.
	Attempts int `json:"attempts,omitzero"`
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

// surveyCauses looks at all lanes.
func (d *Desk) surveyCauses(ctx context.Context, q CausesQuery, unserved map[batch.ServiceID]string) (Causes, error) {
	bounded, cancel := context.WithTimeout(ctx, q.Within)
	defer cancel()
	c := collector{groups: map[Reason]*Group{}, lanes: map[Reason][]batch.ServiceID{}}
	v := d.newView()
	v.unserved = unserved
	for page := (store.SurveyQuery{Start: true, Brief: true, Limit: surveyPageLanes, Cap: maxCountedBatches}).Bounded(); ; page.Start = false {
		n, last, err := v.judgePage(bounded, page, c.addItems)
		if err != nil {
			if ctx.Err() == nil && bounded.Err() != nil {
				c.report.Incomplete, c.report.After = true, page.After
				break
			}
			return Causes{}, err
		}
		if n < page.Limit {
			break
		}
		page.After = last
	}
	if err := v.judgeSamples(bounded, c.addItems); err != nil {
		if ctx.Err() != nil || bounded.Err() == nil {
			return Causes{}, err
		}
		c.report.Incomplete = true
	}
	c.report.At = v.at
	if err := c.examples(ctx, v); err != nil {
		return Causes{}, err
	}
	return c.sorted(), nil
}

// item is a number of batches of one lane that wait for the same reason.
type item struct {
	Reason
	// id is "" for batches that nobody looked at: they wait behind the others.
	id      batch.ID
	place   int // in the order of claims; -1 where they do not look at it
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
	lanes  map[Reason][]batch.ServiceID // the first lanes of each
}

// addItems adds the items of one lane, seen at a moment.
func (c *collector) addItems(at time.Time, l store.LaneSurvey, items []item) {
	c.report.Lanes++
	for i := range items {
		it := &items[i]
		it.Ledger = l.Ledger
		g := c.groups[it.Reason]
		if g == nil {
			g = &Group{Reason: it.Reason}
			c.groups[it.Reason] = g
		}
		if !slices.ContainsFunc(items[:i], func(o item) bool { return o.Reason == it.Reason }) {
			if g.Lanes++; g.Lanes <= maxExampleLanes {
				c.lanes[it.Reason] = append(c.lanes[it.Reason], l.Service)
			}
		}
		g.Batches += it.n
		c.report.Batches += it.n
		g.AtLeast, g.Sampled = g.AtLeast || it.atLeast, g.Sampled || it.sampled
		c.report.AtLeast = c.report.AtLeast || it.atLeast
		g.Attempts = max(g.Attempts, attemptsAt(l, i, it.Root != ""))
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

// attemptsAt returns those of the item at a place, which is the place of its row; of a batch
// behind others, the most in its lane.
func attemptsAt(l store.LaneSurvey, place int, behind bool) int {
	most := 0
	for i := range l.Rows {
		if behind || i == place {
			most = max(most, l.Rows[i].Row.Attempt)
		}
	}
	return most
}

// examples looks for examples of groups whose batches nobody looked at, and puts all examples
// into words.
func (c *collector) examples(ctx context.Context, v *view) error {
	var ask []batch.ServiceID
	for r, g := range c.groups {
		if g.Example.ID == "" {
			for _, lane := range c.lanes[r] {
				if !slices.Contains(ask, lane) {
					ask = append(ask, lane)
				}
			}
		}
	}
	if len(ask) > 0 {
		_, _, err := v.judgePage(ctx, store.SurveyQuery{Services: ask, Window: 2, Cap: 2}, func(_ time.Time, l store.LaneSurvey, items []item) {
			for _, it := range items {
				it.Ledger = l.Ledger
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
	slices.SortFunc(c.report.Groups, func(a, b Group) int { return compareCounts(a.Batches, b.Batches, a.Reason, b.Reason) })
	return c.report
}

// compareCounts puts the larger of two numbers first, and equal ones in the order of their
// reasons.
func compareCounts(n, m int, a, b Reason) int {
	called := func(r Reason) int {
		if r.Called {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(m, n), cmp.Compare(called(a), called(b)), cmp.Compare(a.Cause, b.Cause), cmp.Compare(a.Root, b.Root),
		cmp.Compare(a.State, b.State), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Ledger, b.Ledger), cmp.Compare(a.Why, b.Why))
}
