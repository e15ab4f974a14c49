package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Limits of one survey.
const (
	maxHeldLanes = 10_000 // most lanes with a control of their own
	maxLeftRows  = 1000   // most batches that are read to find those left by gone instances
)

// Facts are all that a Desk reads in order to say what is wrong.
type Facts struct {
	Causes Causes      `json:"causes"`
	Stats  store.Stats `json:"stats"`
	// Counted is true if the store keeps counts and instances; otherwise Stats is the zero value.
	Counted bool `json:"counted"`
	// Everything is the control of all lanes. Held are the lanes with a control of their own,
	// 10,000 at most; HeldMore is true if there are more.
	Everything batch.Control   `json:"everything,omitzero"`
	Held       []batch.Control `json:"held"`
	HeldMore   bool            `json:"held_more,omitzero"`
	// Left counts, by the name of the instance, the batches that gone instances were submitting
	// and that need no decision. A name that a live instance has is left out, because that
	// instance was started again.
	Left map[string]int `json:"left,omitempty"`
	// SetAside is the first batch that a policy set aside; its ID is "" if there is none.
	SetAside batch.Record `json:"set_aside,omitzero"`
	// DecisionSince is since when the outcome of the example has been in doubt, where batches need
	// a decision.
	DecisionSince time.Time `json:"decision_since,omitzero"`
}

// Situation holds the incidents; the command, the console and the pages show the same.
type Situation struct {
	Facts
	State State `json:"state"`
	// Incidents are sorted, the worst first.
	Incidents []Incident `json:"incidents"`
	// Moving are the batches that move by themselves and belong to no incident, by their cause,
	// with the batches behind them.
	Moving []MovingGroup `json:"moving"`
}

// MovingGroup holds batches that move by themselves: a group, and the batches behind it.
type MovingGroup struct {
	Group
	// Behind is how many of the group's batches wait behind others of the group.
	Behind int `json:"behind,omitzero"`
	// Held says why no instance posts batches of the example's lane at present, since when, and
	// which instances hold them back; "" if an instance posts.
	Held string `json:"held,omitzero"`
}

// Situation says what is wrong. It reads what [Desk.Causes] and [Desk.Stats] read, and the
// controls of lanes. With a store that keeps no counts it finds no incidents about instances.
func (d *Desk) Situation(ctx context.Context, q CausesQuery) (Situation, error) {
	s, err := d.readFacts(ctx, q)
	if err != nil {
		return Situation{}, fmt.Errorf("situation: %w", err)
	}
	return s.Situation(), nil
}

func (d *Desk) readFacts(ctx context.Context, q CausesQuery) (s Facts, err error) {
	if s.Stats, s.Counted, err = d.readCounts(ctx); err != nil {
		return s, err
	}
	if s.Causes, err = d.causes(ctx, q, unservedLanes(s.Stats.Instances)); err != nil {
		return s, err
	}
	if s.Everything, err = d.Control(ctx, batch.Everything()); err != nil {
		return s, err
	}
	if s.Held, s.HeldMore, err = d.heldLanes(ctx); err != nil {
		return s, err
	}
	if s.Left, err = d.countLeft(ctx, s.Stats.Instances); err != nil {
		return s, err
	}
	if s.Stats.Quarantined > 0 { // the counted number; the quarantine may have ended since
		first, _, err := d.store.List(ctx, store.ListQuery{Quarantined: true, Limit: 1})
		if err != nil {
			return s, err
		}
		if len(first) > 0 {
			s.SetAside = first[0]
		}
	}
	for _, g := range s.Causes.Groups {
		if g.Cause != batch.CauseDecision && !g.Called || g.Root != "" || g.Example.ID == "" {
			continue
		}
		rec, err := d.Get(ctx, g.Example.Key)
		if errors.Is(err, batch.ErrNotFound) {
			continue
		}
		if err != nil {
			return s, err
		}
		if since := cmp.Or(rec.DoubtSince, rec.CreatedAt); s.DecisionSince.IsZero() || since.Before(s.DecisionSince) {
			s.DecisionSince = since
		}
	}
	return s, nil
}

// heldLanes reads the lanes with a control of their own, page by page. more is true if there may
// be more of them.
func (d *Desk) heldLanes(ctx context.Context) (all []batch.Control, more bool, err error) {
	q := store.ControlsQuery{Start: true, Limit: 1000}
	for len(all) < maxHeldLanes {
		page, err := d.Controls(ctx, q)
		if err != nil {
			return nil, false, err
		}
		if all = append(all, page...); len(page) < q.Limit {
			return all, false, nil
		}
		q.Start, q.After = false, page[len(page)-1].Service
	}
	return all, true, nil
}

// readCounts reads the counts. The bool is false if the store keeps none.
func (d *Desk) readCounts(ctx context.Context) (store.Stats, bool, error) {
	s, err := d.Stats(ctx)
	if errors.Is(err, store.ErrUnsupported) {
		return store.Stats{}, false, nil
	}
	return s, err == nil, err
}

// countLeft counts the batches that gone instances were submitting, that are not final yet and
// that need no decision.
func (d *Desk) countLeft(ctx context.Context, instances []store.Instance) (map[string]int, error) {
	left := map[string]int{}
	for _, i := range instances {
		if !i.Live && i.Claims > 0 {
			left[i.Name] = 0
		}
	}
	for _, i := range instances {
		if i.Live {
			delete(left, i.Name)
		}
	}
	if len(left) == 0 {
		return left, nil
	}
	// The list begins with the oldest batches, and gone instances left older batches than live
	// ones have.
	rows, _, err := d.store.List(ctx, store.ListQuery{States: []batch.State{batch.Submitting}, Limit: maxLeftRows})
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		if _, is := left[r.ClaimedBy]; is && r.Decision == "" { // another incident is about batches that need a decision
			left[r.ClaimedBy]++
		}
	}
	return left, nil
}

// Situation derives the incidents from the facts that were read. It is a pure function.
func (s Facts) Situation() Situation {
	x := judgement{Facts: s, now: s.Causes.At.Add(s.Causes.Age), incidents: map[IncidentKind]*Incident{}, movingGroups: map[batch.Cause]*MovingGroup{}}
	if x.now.IsZero() {
		x.now = s.Stats.At.Add(s.Stats.Age)
	}
	x.judgeInstances()
	x.judgeControls()
	x.judgeGroups()
	x.judgeCounts()
	x.judgeFlow()
	out := Situation{Facts: s, Incidents: []Incident{}, Moving: []MovingGroup{}}
	for _, kind := range incidentKinds {
		if i := x.incidents[kind]; i != nil {
			out.Incidents = append(out.Incidents, *i)
		}
		if kind == IncidentGone {
			out.Incidents = append(out.Incidents, x.goneIncidents...)
		}
	}
	for n := range out.Incidents {
		x.finishIncident(&out.Incidents[n])
	}
	for _, m := range x.movingGroups {
		if m.Example.ID != "" {
			if m.Held = x.whyLaneHeld(m.Example.Cause, m.Example.Service, m.Ledger); m.Held != "" {
				m.Example.Text = waitText(m.Example, m.Held)
			}
		}
		out.Moving = append(out.Moving, *m)
	}
	slices.SortFunc(out.Moving, func(a, b MovingGroup) int { return compareCounts(a.Batches, b.Batches, a.Reason, b.Reason) })
	out.State = x.state(out.Incidents)
	return out
}

func (x *judgement) state(all []Incident) State {
	switch {
	case x.incidents[IncidentNoInstance] != nil:
		return StateStopped
	case x.closedKind != "":
		return StateLedger
	}
	for _, i := range all {
		if !i.ByItself {
			return StatePerson
		}
	}
	switch {
	case x.Causes.Incomplete:
		return StatePart
	case len(all) > 0:
		return StateWaits
	}
	return StateWell
}
