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

// CauseUnknown is the cause of batches that cannot be explained because the record of their
// ledger's settings lacks something; Why gives the reason. [Desk.Explain] returns a
// [*SettingsError] for such batches.
const CauseUnknown batch.Cause = "unknown"

// Bounds of one survey of all lanes.
const (
	// maxSampledLanes is the largest number of lanes in which the batches behind the front are
	// read, too. They are read where the strategy may take more than one batch of a lane at once.
	maxSampledLanes = 1000
	// maxSampledBatches is how many batches of such a lane are read: this many that were never
	// attempted, and this many that wait for a further attempt.
	maxSampledBatches = 20
	// surveyPageLanes is the number of lanes that one call of the store's Survey reads.
	surveyPageLanes = 5000
	// maxExampleLanes is the number of lanes in which an example for a group is looked for.
	maxExampleLanes = 3
	// maxCountedBatches bounds the count of waiting batches in each lane.
	maxCountedBatches = 1000
	// defaultTimeLimit is the limit if CausesQuery.Within is not set.
	defaultTimeLimit = 10 * time.Second
)

// CausesQuery bounds a survey of all lanes.
type CausesQuery struct {
	// Within limits how long the survey may take. Lanes that were not reached in that time are
	// left out, and the report is marked incomplete. The default is 10 s.
	Within time.Duration
	// Kept is true to accept a stored survey of another process; Within is then ignored.
	// Causes.Age is the age of that survey.
	Kept bool
}

// Causes are the open batches of a store, grouped by the reason why they wait.
type Causes struct {
	At time.Time `json:"at"` // of the last survey, on the database's clock
	// Age is the time since At for a stored survey, and 0 for a survey made by this call.
	Age time.Duration `json:"age_ns"`
	// Groups are sorted by size, the largest first.
	Groups []Group `json:"groups"`
	// Batches and Lanes are the numbers counted; AtLeast is true if there are more batches.
	Batches int  `json:"batches"`
	Lanes   int  `json:"lanes"`
	AtLeast bool `json:"at_least,omitzero"`
	// Incomplete is true if the time ran out before all lanes were reached: the lanes after the
	// lane After, in byte order, are missing.
	Incomplete bool            `json:"incomplete,omitzero"`
	After      batch.ServiceID `json:"after,omitzero"`
}

// Reason holds the facts that the batches of a group have in common.
type Reason struct {
	Cause  batch.Cause  `json:"cause"`
	Remedy batch.Remedy `json:"remedy,omitzero"`
	// Root is set with [batch.RemedyBlocker]: the cause of the batch that blocks. If that batch is
	// blocked in turn, Root, State and Kind describe the last batch of the chain.
	Root batch.Cause `json:"root,omitzero"`
	// State and Kind are the state and the last error of the batch that blocks, or, if no batch
	// blocks, of the batches themselves. State is 0 where it is not known.
	State batch.State     `json:"state,omitzero"`
	Kind  batch.ErrorKind `json:"kind,omitzero"`
	// Called is true if a person was called about that batch because it has not moved for long,
	// and its cause is not [batch.CauseDecision].
	Called bool `json:"called,omitzero"`
	// Ledger is the name of the lanes' ledger, set in [Causes]. It is "" if no instance has taken
	// batches of the lanes yet.
	Ledger string `json:"ledger,omitzero"`
	// Why says in words which setting is missing, with CauseUnknown; Missing says it as a
	// constant.
	Why     string  `json:"why,omitzero"`
	Missing Missing `json:"missing,omitzero"`
}

// Missing names, with CauseUnknown, the setting that the record lacks.
type Missing string

// The values of [Missing].
const (
	MissingLedger    Missing = "ledger"    // no instance has taken batches of the lane yet
	MissingRecord    Missing = "record"    // the settings that an explanation depends on are not recorded
	MissingAgreement Missing = "agreement" // instances have recorded different settings
)

// Group is a number of batches that wait for the same reason.
type Group struct {
	Reason
	Batches int `json:"batches"`
	// AtLeast is true if there may be more batches: at most 1,000 waiting batches of a lane are
	// counted.
	AtLeast bool `json:"at_least,omitzero"`
	Lanes   int  `json:"lanes"`
	// Oldest is the time since the oldest batch of the group was added. Where the survey did not
	// read that batch, Oldest is the age of the batch before it.
	Oldest time.Duration `json:"oldest_ns"`
	// Attempts is the largest number of attempts of a batch in the group. For blocked batches it
	// is the largest number of attempts of any batch in their lanes.
	Attempts int `json:"attempts,omitzero"`
	// Example explains one batch of the group. Its ID is "" if the store was not asked for an
	// example, or if the batches have changed meanwhile.
	Example batch.Explanation `json:"example"`
	// Blocker explains the last batch in the chain of batches that blocks the example; its ID is
	// "" if no batch blocks the example.
	Blocker batch.Explanation `json:"blocker,omitzero"`
	// Sampled is true if some batches were not read one by one. Where the strategy may take
	// several batches of a lane at once, by their conflicts, the survey reads 1,000 lanes in this
	// way, and the first batches of each. It counts the others as waiting behind the front.
	Sampled bool `json:"sampled,omitzero"`
}

// surveyCauses reads all lanes and groups their open batches.
func (d *Desk) surveyCauses(ctx context.Context, q CausesQuery, unserved map[batch.ServiceID]string) (Causes, error) {
	bounded, cancel := context.WithTimeout(ctx, q.Within)
	defer cancel()
	c := itemCollector{groups: map[Reason]*Group{}, lanes: map[Reason][]batch.ServiceID{}}
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
	c.report.At = v.surveyTime
	if err := c.readExamples(ctx, v); err != nil {
		return Causes{}, err
	}
	return c.sortedCauses(), nil
}

// laneItem is a number of batches of one lane that wait for the same reason.
type laneItem struct {
	Reason
	// id is "" for batches that the survey did not read: they wait behind the others.
	id        batch.ID
	place     int // place in the order of claims; -1 if claims do not reach the batch
	count     int
	atLeast   bool
	isSampled bool
	created   time.Time // when the oldest batch was added
	// explanation and blocker have no sentences yet. The ID of blocker is "" if no batch blocks.
	explanation, blocker batch.Explanation
}

// itemCollector groups items by their reasons.
type itemCollector struct {
	report Causes
	groups map[Reason]*Group
	lanes  map[Reason][]batch.ServiceID // the first lanes of each reason
}

// addItems adds the items of one lane, which was read at the time at.
func (c *itemCollector) addItems(at time.Time, l store.LaneSurvey, items []laneItem) {
	c.report.Lanes++
	for i := range items {
		it := &items[i]
		it.Ledger = l.Ledger
		g := c.groups[it.Reason]
		if g == nil {
			g = &Group{Reason: it.Reason}
			c.groups[it.Reason] = g
		}
		if !slices.ContainsFunc(items[:i], func(o laneItem) bool { return o.Reason == it.Reason }) {
			if g.Lanes++; g.Lanes <= maxExampleLanes {
				c.lanes[it.Reason] = append(c.lanes[it.Reason], l.Service)
			}
		}
		g.Batches += it.count
		c.report.Batches += it.count
		g.AtLeast, g.Sampled = g.AtLeast || it.atLeast, g.Sampled || it.isSampled
		c.report.AtLeast = c.report.AtLeast || it.atLeast
		g.Attempts = max(g.Attempts, attemptsAt(l, i, it.Root != ""))
		if age := at.Sub(it.created); age > g.Oldest {
			g.Oldest = age
		}
		if g.Example.ID == "" && it.id != "" {
			g.Example, g.Blocker = it.explanation, it.blocker
		} else if g.Blocker.ID == "" {
			g.Blocker = it.blocker
		}
	}
}

// attemptsAt returns the attempts of the row at a place. For a batch that others block, it returns
// the largest number of attempts in the lane.
func attemptsAt(l store.LaneSurvey, place int, behind bool) int {
	most := 0
	for i := range l.Rows {
		if behind || i == place {
			most = max(most, l.Rows[i].Row.Attempt)
		}
	}
	return most
}

// readExamples looks for examples of the groups that have none yet, and adds the sentences to all
// examples.
func (c *itemCollector) readExamples(ctx context.Context, v *surveyView) error {
	var lanesToRead []batch.ServiceID
	for r, g := range c.groups {
		if g.Example.ID == "" {
			for _, lane := range c.lanes[r] {
				if !slices.Contains(lanesToRead, lane) {
					lanesToRead = append(lanesToRead, lane)
				}
			}
		}
	}
	if len(lanesToRead) > 0 {
		_, _, err := v.judgePage(ctx, store.SurveyQuery{Services: lanesToRead, Window: 2, Cap: 2}, func(_ time.Time, l store.LaneSurvey, items []laneItem) {
			for _, it := range items {
				it.Ledger = l.Ledger
				if g := c.groups[it.Reason]; it.id != "" && g != nil && g.Example.ID == "" {
					g.Example, g.Blocker = it.explanation, it.blocker
				}
			}
		})
		if err != nil {
			return err
		}
	}
	for _, g := range c.groups {
		if halter := g.Example.Blocker; g.Remedy == batch.RemedyRelease && g.Example.ID != "" {
			if e, err := v.desk.Explain(ctx, halter); err == nil {
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

func (c *itemCollector) sortedCauses() Causes {
	for _, g := range c.groups {
		c.report.Groups = append(c.report.Groups, *g)
	}
	slices.SortFunc(c.report.Groups, func(a, b Group) int { return compareCounts(a.Batches, b.Batches, a.Reason, b.Reason) })
	return c.report
}

// compareCounts sorts the larger of two numbers first, and equal numbers by their reasons.
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
