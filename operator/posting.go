package operator

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/incident"
	"github.com/dltbatch/dltbatch/internal/legible"
	"github.com/dltbatch/dltbatch/store"
)

// ledgerKinds are the kinds of incidents about closed ledgers, the worst first.
var ledgerKinds = []IncidentKind{IncidentLedgerRefuses, IncidentLedgerDown, IncidentLedgerBusy}

// instancePauses is what live instances do not post. Each ledger, and each service, is paused
// separately. An instance posts nothing only if all its ledgers are paused.
type instancePauses struct {
	instances []pausedInstance         // instances that post nothing
	ledgers   map[string]*pausedLedger // by name: ledgers that are paused in an instance that posts to others
	since     map[IncidentKind]time.Time
}

// pausedInstance is an instance that posts nothing.
type pausedInstance struct {
	instance string
	kind     IncidentKind // the worst of the instance's ledgers
	since    time.Time    // the latest of its ledgers: until then the instance posted something
	reason   string
}

// pausedLedger is a ledger to which instances post nothing.
type pausedLedger struct {
	kind         IncidentKind // the worst of the instances
	instances    []string     // instances that post to their other ledgers
	allInstances []string     // these, and the instances that post nothing at all
	since        time.Time
	reason       string
}

// addInstance adds what a live instance does not post.
func (p *instancePauses) addInstance(i store.Instance) {
	w := pausedInstance{instance: i.Name}
	posts := !i.Paused
	var ledgerPauses []store.Pause
	for _, one := range i.Pauses {
		kind, since := ledgerKind(one.Kind), i.Seen.Add(-one.For)
		switch {
		case kind == IncidentLedgerBusy && one.For < busyIncidentAfter:
			posts = posts || one.All // the pause may be over before the row is written again
		case !one.All:
			if at := p.since[kind]; at.IsZero() || since.Before(at) {
				p.since[kind] = since
			}
		default:
			ledgerPauses = append(ledgerPauses, one)
			w.kind = worseKind(w.kind, kind)
			if since.After(w.since) {
				w.since = since
			}
		}
	}
	for _, one := range ledgerPauses {
		l := p.ledgers[one.Ledger]
		if l == nil {
			l = &pausedLedger{}
			p.ledgers[one.Ledger] = l
		}
		l.kind, l.allInstances = worseKind(l.kind, ledgerKind(one.Kind)), append(l.allInstances, i.Name)
		l.reason = cmp.Or(l.reason, one.Why)
		if since := i.Seen.Add(-one.For); l.since.IsZero() || since.Before(l.since) {
			l.since = since
		}
		if posts {
			l.instances = append(l.instances, i.Name)
		}
		if len(ledgerPauses) == 1 {
			w.reason = one.Why
		} else {
			w.reason = legible.Sentences(w.reason, ledgerSays(one.Ledger, one.Kind, one.Why))
		}
	}
	if !posts && len(ledgerPauses) > 0 {
		p.instances = append(p.instances, w)
	}
}

// NotPosted says what an instance does not post: " to ledger east", or " of lane s". It is "" for
// an instance that has one ledger and posts nothing at all.
func NotPosted(i store.Instance, p store.Pause) string {
	switch {
	case !p.All:
		return " of lane " + string(p.Service)
	case i.Paused && len(i.Pauses) == 1:
		return ""
	}
	return " to ledger " + p.Ledger
}

// worseKind returns the kind that comes first in ledgerKinds.
func worseKind(a, b IncidentKind) IncidentKind {
	if a == "" || slices.Index(ledgerKinds, b) < slices.Index(ledgerKinds, a) {
		return b
	}
	return a
}

// ledgerSays says why one of several ledgers takes nothing.
func ledgerSays(name string, kind batch.ErrorKind, why string) string {
	return "Ledger " + name + ": " + cmp.Or(why, incident.LedgerClosed(kind))
}

// judgePosting finds the incidents about what is not posted; live is the number of live instances.
func (x *judgement) judgePosting(p instancePauses, live int) {
	x.lanePausedSince, x.pausedLedgers = p.since, map[string]IncidentKind{}
	for name, l := range p.ledgers {
		others := slices.DeleteFunc(slices.Clone(p.instances), func(w pausedInstance) bool { return slices.Contains(l.allInstances, w.instance) })
		if len(l.allInstances)+len(others) == live {
			x.pausedLedgers[name] = l.kind
		}
	}
	for _, w := range p.instances {
		s := x.incidentOf(w.kind)
		s.Instances = append(s.Instances, w.instance)
		s.setSince(w.since)
		s.Why = cmp.Or(s.Why, w.reason)
	}
	for _, kind := range ledgerKinds {
		if s := x.incidents[kind]; s != nil {
			s.Text = incident.InstancesPostNothing(s.Instances, live, kind.errorKind())
			if x.closedKind == "" && len(p.instances) == live {
				x.closedKind = kind
			}
		}
		x.judgePartly(kind, p, live)
	}
}

// judgePartly finds incidents about paused ledgers of instances that post to other ledgers.
func (x *judgement) judgePartly(kind IncidentKind, p instancePauses, live int) {
	var names, instances []string
	var why string
	var since time.Time
	for _, name := range slices.Sorted(maps.Keys(p.ledgers)) {
		l := p.ledgers[name]
		if l.kind != kind || len(l.instances) == 0 {
			continue
		}
		if names = append(names, name); since.IsZero() || l.since.Before(since) {
			since = l.since
		}
		for _, i := range l.instances {
			if !slices.Contains(instances, i) {
				instances = append(instances, i)
			}
		}
		why = legible.Sentences(why, ledgerSays(name, kind.errorKind(), l.reason))
	}
	if len(names) == 0 {
		return
	}
	text, s := incident.LedgersGetNothing(names, instances, live, kind.errorKind()), x.incidentOf(kind)
	if s.Text != "" { // the text says first that other instances post nothing at all
		s.Why = legible.Sentences(s.Why, text, why)
	} else if s.Text, s.Why = text, why; len(names) == 1 {
		s.Why = p.ledgers[names[0]].reason
	}
	s.setSince(since)
	s.Instances = append(s.Instances, instances...)
}

// worstPauseKind returns the worst kind of incident among the ledgers to which no instance posts.
func (x *judgement) worstPauseKind() (kind IncidentKind) {
	for _, k := range x.pausedLedgers {
		kind = worseKind(kind, k)
	}
	return kind
}

// laneGate is what holds back the POSTs of one lane in all live instances.
type laneGate struct {
	isClosed  bool
	kind      IncidentKind // the worst of the instances
	instances []string
	since     time.Time // the latest of the instances: until then one of them posted
	reason    string
}

// gateOf returns the gate of a lane of a ledger. The gate is open if one live instance posts.
func gateOf(service batch.ServiceID, ledger string, instances []store.Instance) (g laneGate) {
	for _, i := range instances {
		if !i.Live {
			continue
		}
		at := slices.IndexFunc(i.Pauses, func(p store.Pause) bool {
			of := p.All && (p.Ledger == ledger || i.Paused) || !p.All && p.Service == service
			return of && (ledgerKind(p.Kind) != IncidentLedgerBusy || p.For >= busyIncidentAfter)
		})
		if at < 0 {
			return laneGate{}
		}
		p := i.Pauses[at]
		g.isClosed, g.kind, g.instances = true, worseKind(g.kind, ledgerKind(p.Kind)), append(g.instances, i.Name)
		if since := i.Seen.Add(-p.For); since.After(g.since) {
			g.since = since
		}
		g.reason = cmp.Or(g.reason, p.Why)
	}
	return g
}

// text says since when the gate is closed, and by which instances.
func (g laneGate) text() string {
	by := "instance " + g.instances[0]
	if n := len(g.instances); n > 1 {
		by = incident.Count(n, "instance", "instances")
	}
	s := "Held since " + g.since.UTC().Format("2006-01-02 15:04:05Z") + " by " + by
	if g.reason != "" {
		s += ": " + g.reason
	}
	return s
}
