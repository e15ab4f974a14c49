package operator

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/explain"
	"github.com/dltbatch/dltbatch/internal/incident"
	"github.com/dltbatch/dltbatch/internal/legible"
	"github.com/dltbatch/dltbatch/store"
)

// Limits of a judgement.
const (
	// busyIncidentAfter is how long an instance must post nothing before a busy ledger becomes an
	// incident. A shorter pause is over before the instance writes its row again.
	busyIncidentAfter = 15 * time.Second
	// laneTries is the number of failed attempts of a batch from which its lane's ledger is an
	// incident. A single failed attempt is usually followed by one that works.
	laneTries = 3
	// meetTimeLimit is how old a batch may be before it is an incident that no instance has taken
	// batches of its lane, or that the lane's settings are not recorded. Normally an instance does
	// both at its next scan.
	meetTimeLimit = time.Minute
	// countsOldAfter is the age from which counts are old. The longest rest of an instance is
	// added to it.
	countsOldAfter = 10 * time.Minute
)

// judgement derives incidents from the facts that were read.
type judgement struct {
	Facts
	now           time.Time
	incidents     map[IncidentKind]*Incident
	goneIncidents []Incident
	movingGroups  map[batch.Cause]*MovingGroup
	// closedKind is the kind of incident because of which no instance posts anything; "" if an
	// instance posts. pausedLedgers holds the ledgers to which no instance posts, with the kind of
	// incident.
	closedKind    IncidentKind
	pausedLedgers map[string]IncidentKind
	// lanePausedSince is when a single service was paused, for each kind of incident.
	lanePausedSince map[IncidentKind]time.Time
}

// incidentOf returns the incident of a kind. It creates the incident if there is none.
func (x *judgement) incidentOf(kind IncidentKind) *Incident {
	if x.incidents[kind] == nil {
		x.incidents[kind] = &Incident{Kind: kind}
	}
	return x.incidents[kind]
}

// setSince sets Since to t if t is earlier.
func (i *Incident) setSince(t time.Time) {
	if i.Since.IsZero() || !t.IsZero() && t.Before(i.Since) {
		i.Since = t
	}
}

// ledgerKind returns the kind of incident for a ledger that is closed because of an error of this
// kind.
func ledgerKind(kind batch.ErrorKind) IncidentKind {
	switch kind {
	case batch.KindMisconfigured:
		return IncidentLedgerRefuses
	case batch.KindBusy:
		return IncidentLedgerBusy
	}
	return IncidentLedgerDown
}

// isLedgerError reports whether an error of this kind comes from the state of the ledger, and not
// from the batch.
func isLedgerError(kind batch.ErrorKind) bool {
	return kind == batch.KindMisconfigured || kind == batch.KindBusy || kind == batch.KindUnavailable
}

// errorKind is the inverse of ledgerKind.
func (k IncidentKind) errorKind() batch.ErrorKind {
	switch k {
	case IncidentLedgerRefuses:
		return batch.KindMisconfigured
	case IncidentLedgerBusy:
		return batch.KindBusy
	}
	return batch.KindUnavailable
}

// judgeInstances finds the incidents about live instances and about gone ones.
func (x *judgement) judgeInstances() {
	if !x.Counted {
		return
	}
	live := 0
	var last time.Time
	var restTime time.Duration // the longest time that a live instance may rest
	p := instancePauses{ledgers: map[string]*pausedLedger{}, since: map[IncidentKind]time.Time{}}
	for _, i := range x.Stats.Instances {
		if !i.Live {
			if i.Seen.After(last) {
				last = i.Seen
			}
			if n := x.Left[i.Name]; n > 0 && !slices.ContainsFunc(x.goneIncidents, func(g Incident) bool { return g.Instances[0] == i.Name }) {
				x.goneIncidents = append(x.goneIncidents, Incident{Kind: IncidentGone, Text: incident.InstanceGone(i.Name, n), Since: i.Seen, Instances: []string{i.Name}, Batches: n})
			}
			continue
		}
		live++
		restTime = max(restTime, i.Every)
		x.addWarnings(i)
		p.addInstance(i)
	}
	x.judgePosting(p, live)
	if live == 0 {
		s := x.incidentOf(IncidentNoInstance)
		s.Text, s.Since = incident.NoInstance, last
	} else if !x.Stats.At.IsZero() && x.Stats.Age > countsOldAfter+restTime {
		s := x.incidentOf(IncidentCountsOld)
		s.Text, s.Since = incident.NoCounts, x.Stats.At
	}
	if n := x.Stats.Quarantined; n > 0 && x.SetAside.ID != "" {
		s := x.incidentOf(IncidentSetAside)
		s.Text, s.Since = incident.SetAside(n), x.SetAside.FinalAt
		if e := x.SetAside.Error; e != nil {
			s.Why = e.Message
		}
	}
	if n := x.Stats.RefusedOrders; n > 0 {
		s := x.incidentOf(IncidentOrderRefused)
		s.Text, s.Since = incident.Refused(n), x.Stats.OldestRefused
	}
}

// addWarnings adds the warnings of an instance's store. Instances on one database often have the
// same warnings.
func (x *judgement) addWarnings(i store.Instance) {
	if len(i.Warnings) == 0 {
		return
	}
	s := x.incidentOf(IncidentStore)
	s.Text = incident.Warns
	if i.WarnsFor > 0 {
		s.setSince(i.Seen.Add(-i.WarnsFor))
	}
	s.Instances = append(s.Instances, i.Name)
	for _, w := range i.Warnings {
		if !strings.Contains(s.Why, w) {
			s.Why = legible.Sentences(s.Why, w)
		}
	}
}

// judgeControls finds the incidents about what people have paused and what batches have halted.
func (x *judgement) judgeControls() {
	halted, paused := 0, 0
	for _, c := range append(slices.Clone(x.Held), x.Everything) {
		if !c.HaltedAt.IsZero() {
			halted++
			if s := x.incidentOf(IncidentHalted); s.Since.IsZero() || c.HaltedAt.Before(s.Since) {
				s.addControl(c)
			}
		}
		if !c.PausedAt.IsZero() {
			s := x.incidentOf(IncidentPaused)
			if !c.All {
				paused++
			}
			if s.Since.IsZero() || c.All || c.PausedAt.Before(s.Since) {
				s.addControl(c)
			}
		}
	}
	if halted > 0 {
		x.incidents[IncidentHalted].Text = incident.Halted(halted)
	}
	switch {
	case !x.Everything.PausedAt.IsZero():
		x.incidents[IncidentPaused].Text = incident.AllPaused
	case paused > 0:
		x.incidents[IncidentPaused].Text = incident.Paused(paused)
	}
}

// addControl makes a paused or halted lane the example, so that the text and the command are about
// the same lane.
func (i *Incident) addControl(c batch.Control) {
	switch {
	case i.Kind == IncidentHalted && !c.HaltedAt.IsZero():
		i.Example.Control, i.Why, i.Since = c, c.HaltReason, c.HaltedAt
	case i.Kind == IncidentPaused && !c.PausedAt.IsZero():
		i.Example.Control, i.Why, i.Since = c, actorText(c.PausedBy), c.PausedAt
	}
}

// actorText names the person who acted, with the reason.
func actorText(b batch.By) string {
	if b.Reason == "" {
		return "By " + b.Actor + "."
	}
	return "By " + b.Actor + ": " + b.Reason
}

// judgeGroups adds each group of batches to an incident, or to the batches that move by
// themselves.
func (x *judgement) judgeGroups() {
	lanes := map[IncidentKind]int{} // lanes from which nothing is posted although instances post
	for _, g := range x.Causes.Groups {
		kind := x.incidentKind(g)
		if kind == "" {
			x.addMoving(g)
			continue
		}
		s := x.incidentOf(kind)
		s.addGroup(g)
		if g.Cause != batch.CauseBehind && kind == ledgerKind(g.Kind) && x.closedKind == "" {
			lanes[kind] += g.Lanes
		}
	}
	for kind, n := range lanes {
		if s := x.incidents[kind]; len(s.Instances) == 0 {
			s.Text = incident.LanesPostNothing(n, kind.errorKind())
			s.setSince(x.lanePausedSince[kind])
			if s.Example.LastError != nil {
				s.Why = s.Example.LastError.Message
			}
		}
	}
	for kind, s := range x.incidents {
		if s.Text == "" {
			s.setText(kind)
		}
	}
	if s := x.incidents[IncidentDecision]; s != nil {
		s.Since = x.DecisionSince
	}
	for _, kind := range []IncidentKind{IncidentDisagree, IncidentUnserved, IncidentNotRecorded, IncidentHeld} {
		// Nothing has moved these batches since the oldest was added: that is the earliest known
		// time.
		if s := x.incidents[kind]; s != nil && s.Oldest > 0 {
			s.setSince(x.now.Add(-s.Oldest))
		}
	}
}

// judgeCounts finds incidents about batches that were counted and not seen by the survey: the
// survey did not reach them, or is older than the counts, or more lanes have a control than were
// read.
func (x *judgement) judgeCounts() {
	if n := x.Stats.Undecided; n > 0 && x.incidents[IncidentDecision] == nil && (x.Causes.Incomplete || x.Stats.At.After(x.Causes.At)) {
		s := x.incidentOf(IncidentDecision)
		s.Text, s.Batches = incident.NeedDecision(n), n
	}
	if n := x.Stats.Halted; n > 0 && x.incidents[IncidentHalted] == nil && x.HeldMore {
		s := x.incidentOf(IncidentHalted)
		s.Text, s.Lanes = incident.Halted(n), n
	}
}

// setText sets the sentence of an incident about batches.
func (i *Incident) setText(kind IncidentKind) {
	switch kind {
	case IncidentDecision:
		i.Text, i.Why = incident.NeedDecision(i.Batches-i.Behind), i.Example.Decision
	case IncidentHalted: // the lane was released meanwhile
		i.Text = incident.Halted(i.Lanes)
	case IncidentPaused:
		i.Text = incident.Paused(i.Lanes)
	case IncidentDisagree:
		i.Text = incident.Disagree
	case IncidentUnserved:
		i.Text = incident.Unserved(i.Lanes)
	case IncidentNotRecorded:
		i.Text = incident.NotRecorded(i.Lanes)
	case IncidentHeld:
		i.Text = incident.Held(i.Lanes)
	}
}

// incidentKind returns the kind of incident that a group belongs to; "" if the group moves by
// itself.
func (x *judgement) incidentKind(g Group) IncidentKind {
	root := cmp.Or(g.Root, g.Cause)
	switch root {
	case batch.CauseDecision:
		return IncidentDecision
	case batch.CauseHalted:
		return IncidentHalted
	case batch.CausePaused:
		return IncidentPaused
	case batch.CauseHeld:
		return IncidentHeld
	case batch.CauseUnserved:
		return IncidentUnserved
	case CauseUnknown:
		switch {
		case g.Missing == MissingAgreement:
			return IncidentDisagree
		case g.Missing != MissingLedger && g.Oldest > meetTimeLimit:
			return IncidentNotRecorded
		}
	}
	_, stopped := x.incidents[IncidentNoInstance]
	switch {
	case stopped:
		return IncidentNoInstance
	case x.closedKind != "" && waitsForLedger(root, x.closedKind):
		return x.closedKind
	case root == CauseUnknown && len(x.pausedLedgers) > 0: // no instance takes batches of this lane, since its ledger is closed
		return x.worstPauseKind()
	case x.pausedLedgers[g.Ledger] != "" && waitsForLedger(root, x.pausedLedgers[g.Ledger]):
		return x.pausedLedgers[g.Ledger]
	case root == CauseUnknown && g.Oldest > meetTimeLimit:
		return IncidentUnserved
	case root == batch.CauseDelayed && isLedgerError(g.Kind) && g.Attempts >= laneTries:
		return ledgerKind(g.Kind)
	case g.Called:
		return IncidentDecision
	}
	return ""
}

// waitsForLedger reports whether a batch with this cause moves once instances post again. The
// parameter closed is the incident that says why the ledger is closed.
func waitsForLedger(c batch.Cause, closed IncidentKind) bool {
	return c == CauseUnknown || explain.ByLedger(c, closed.errorKind())
}

// addGroup adds the numbers of a group to the incident.
func (i *Incident) addGroup(g Group) {
	i.Batches += g.Batches
	if g.Root != "" {
		i.Behind += g.Batches
	} else {
		i.Lanes += g.Lanes
	}
	i.AtLeast, i.Sampled = i.AtLeast || g.AtLeast, i.Sampled || g.Sampled
	i.Oldest = max(i.Oldest, g.Oldest)
	if i.Why == "" && (i.Kind == IncidentDisagree || i.Kind == IncidentNotRecorded) {
		i.Why = g.Why
	}
	held := i.Example.Control
	switch {
	case g.Root == "" && g.Example.ID != "" && (i.Example.ID == "" || i.Kind == IncidentDecision && g.Cause == batch.CauseDecision && i.Example.Cause != g.Cause):
		i.Example, i.ledger = g.Example, g.Ledger
		if g.Remedy == batch.RemedyRelease {
			i.Blocker = g.Blocker
		}
	case g.Root != "" && i.Example.ID == "" && g.Blocker.ID != "":
		i.Example, i.ledger = g.Blocker, g.Ledger
	default:
		return
	}
	if held.All || !i.Example.Control.Closed() { // a pause of everything takes precedence over any pause of a lane
		i.Example.Control = held
	}
	i.addControl(i.Example.Control)
}

// addMoving adds a group to the batches that move by themselves. A group that waits behind another
// one is counted with that one.
func (x *judgement) addMoving(g Group) {
	root := cmp.Or(g.Root, g.Cause)
	m := x.movingGroups[root]
	if m == nil {
		m = &MovingGroup{Group: Group{Reason: Reason{Cause: root}}}
		x.movingGroups[root] = m
	}
	m.Batches += g.Batches
	if g.Root != "" {
		m.Behind += g.Batches
	} else {
		m.Lanes += g.Lanes
		m.Reason.Remedy = g.Remedy
		if m.Kind == "" {
			m.Kind = g.Kind
		}
	}
	m.AtLeast, m.Sampled = m.AtLeast || g.AtLeast, m.Sampled || g.Sampled
	m.Oldest = max(m.Oldest, g.Oldest)
	if g.Root == "" && m.Example.ID == "" {
		m.Example, m.Ledger = g.Example, g.Ledger
	}
}

// judgeFlow finds out whether the queue grows. If nothing is posted, another incident already says
// why.
func (x *judgement) judgeFlow() {
	if x.closedKind != "" || x.incidents[IncidentNoInstance] != nil || !x.Everything.PausedAt.IsZero() {
		return
	}
	if why := FlowOf(x.Stats).Growing; why != "" {
		s := x.incidentOf(IncidentGrowing)
		s.Text, s.Why, s.Since = incident.Growing, why, x.Stats.RisingSince
	}
}

// finishIncident sets the fields that follow from the other fields.
func (x *judgement) finishIncident(i *Incident) {
	if !i.Since.IsZero() {
		i.For = max(0, x.now.Sub(i.Since))
	}
	i.Why = legible.Sentences(i.Why)
	i.Sampled = i.Sampled && i.Batches > 0
	i.ByItself = i.Kind == IncidentLedgerBusy
	i.setRemedy()
	if held := x.whyHeld(i.Example.Cause, i.ledger); i.Example.ID != "" && (held != "" || i.Example.Text == "") {
		i.Example.Text = waitText(i.Example, held)
	}
}

// whyHeld says why a batch of a ledger with this cause is not posted although nothing in its lane
// holds it: no instance runs, or no instance posts. It is "" if the batch's own explanation is
// complete.
func (x *judgement) whyHeld(c batch.Cause, ledger string) string {
	shut := x.pausedLedgers[ledger]
	switch {
	case x.incidents[IncidentNoInstance] != nil && movesItself(c):
		return incident.NoInstance
	case x.closedKind != "" && (shut == "" || shut == x.closedKind):
		if waitsForLedger(c, x.closedKind) {
			return x.incidents[x.closedKind].Text
		}
	case c == CauseUnknown && len(x.pausedLedgers) > 0:
		return x.incidents[x.worstPauseKind()].Text
	case shut != "" && waitsForLedger(c, shut):
		return incident.LanePostsNothing(shut.errorKind())
	}
	return ""
}

// whyHeldBy returns whyLaneHeld from the stored counts and instances alone: the reason, since when
// it holds, and the instances.
func whyHeldBy(c batch.Cause, service batch.ServiceID, ledger string, counted bool, s store.Stats) string {
	x := judgement{Facts: Facts{Stats: s, Counted: counted}, incidents: map[IncidentKind]*Incident{}}
	x.judgeInstances()
	return x.whyLaneHeld(c, service, ledger)
}

// whyLaneHeld is whyHeld for a lane. It adds since when the reason holds, and the instances.
func (x *judgement) whyLaneHeld(c batch.Cause, service batch.ServiceID, ledger string) string {
	held, lane := x.whyHeld(c, ledger), gateOf(service, ledger, x.Stats.Instances)
	if !lane.isClosed || !waitsForLedger(c, lane.kind) {
		return held
	}
	return legible.Sentences(cmp.Or(held, incident.LanePostsNothing(lane.kind.errorKind())), lane.text())
}

// movesItself reports whether a batch with this cause needs only an instance in order to move.
func movesItself(c batch.Cause) bool { return c == CauseUnknown || explain.ByInstance(c) }

// waitText returns the text of an explanation, followed by the sentence that says why no instance
// moves the batch.
func waitText(e batch.Explanation, held string) string {
	if e.Cause == CauseUnknown {
		return legible.Sentences(e.State.String()+": it waits in its lane", held)
	}
	return explain.WithCause(e, held)
}
