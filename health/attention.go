package health

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/incident"
)

// Attention is one cause for which a Runner does not do all that it should. [Health.Attention]
// lists them.
type Attention struct {
	// Part is the part of the Runner that the cause is about: one of the Part constants.
	Part string `json:"part"`
	// Since is when the cause began, on this process's clock. It is zero if that is not known.
	Since time.Time `json:"since,omitzero"`
	// Text is a sentence for people. It has no secrets, and it names services and hosts.
	Text string `json:"text"`
}

// String returns part and text.
func (a Attention) String() string { return a.Part + ": " + a.Text }

// The parts of an [Attention].
const (
	PartRun      = "run"      // Run does not run
	PartDatabase = "database" // the database cannot be reached, or takes no writes
	PartLedger   = "ledger"   // the ledger cannot be reached, or refuses this client
	PartStreams  = "streams"  // an event stream of the ledger is lost
	PartPosting  = "posting"  // nothing is posted to a ledger, for a service, or at all
	PartBatches  = "batches"  // batches wait for a person, or none moves; or orders were refused
	PartLoops    = "loops"    // a loop fails, or makes no progress
	PartWarnings = "warnings" // the store has warnings
)

// Bounds of the verdict. They are longer than what delivery without any trouble takes.
const (
	// standstillLimit is how long batches may wait before a standstill is a cause.
	standstillLimit = 10 * time.Minute
	// staleCountsAge is the greatest age of the database's counts that is no cause. It is longer
	// than the pause after a count that took its whole time.
	staleCountsAge = 10 * time.Minute
	// maxLoopSilence is how long a loop that reads the database all the time may have no success
	// before that is a cause.
	maxLoopSilence = 10 * time.Minute
)

// Attention returns the verdict about a Runner at a moment: nil says that all is well, as far as
// this process knows. It is a pure function of Health, and the one rule by which package probe,
// and the metrics of package otelbatch, judge a part. A pause or a failure is listed from its
// first moment on, and many are over soon by themselves: look at Since before you call a person.
func (h Health) Attention(now time.Time) (all []Attention) {
	if !h.Running {
		return []Attention{{PartRun, time.Time{}, "Run does not run"}}
	}
	add := func(part string, since time.Time, format string, args ...any) {
		all = append(all, Attention{part, since, fmt.Sprintf(format, args...)})
	}
	if h.Store.LastSuccess.IsZero() {
		add(PartDatabase, time.Time{}, "not reached yet")
	}
	for _, p := range []struct {
		name string
		PartHealth
	}{{PartDatabase, h.Store}, {PartLedger, h.Ledger}, {PartStreams, h.Streams}} {
		switch {
		case p.Condition != ConditionFailing:
		case p.name == PartLedger && h.Paused: // the cause is listed below
		default:
			add(p.name, p.FailingSince, "has failed for %s: %v", timeSince(now, p.FailingSince), p.Err)
		}
	}
	all = append(all, h.postingAttention(now)...)
	paused, pausedSince := h.pausedServices()
	for _, list := range []struct {
		services []batch.ServiceID
		since    time.Time
		what     string
	}{
		{paused, pausedSince, "nothing is posted, because the ledger is busy, unreachable or refuses this client"},
		{h.HaltedServices, h.HaltedSince, "the lane is halted, because the ledger took a batch back again and again"},
		{h.HeldServices, h.HeldSince, "this Run does not serve it"},
	} {
		if len(list.services) > 0 {
			add(PartPosting, list.since, "%s: %s", someServices(list.services), list.what)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(h.Loops)) {
		l := h.Loops[name]
		looks := name == "queuer" || name == "monitor" // these loops read the database all the time, the others wait for work
		switch {
		case l.Condition == ConditionFailing && h.loopNeedFails(name):
			// the cause is listed for what the loop needs
		case l.Condition == ConditionFailing:
			add(PartLoops, l.FailingSince, "%s has failed for %s: %v", name, timeSince(now, l.FailingSince), l.Err)
		case looks && !l.LastSuccess.IsZero() && now.Sub(l.LastSuccess) > maxLoopSilence+h.Rest:
			add(PartLoops, l.LastSuccess, "%s has done nothing for %s", name, timeSince(now, l.LastSuccess))
		}
	}
	all = append(all, h.Counts.attention(now, staleCountsAge+h.Rest)...)
	for _, w := range h.Warnings {
		add(PartWarnings, h.WarningsSince, "%s %v", incident.Warns, w)
	}
	return all
}

// postingAttention returns the causes about ledgers to which nothing is posted, or that fail while
// others work.
func (h Health) postingAttention(now time.Time) (all []Attention) {
	whole := slices.DeleteFunc(slices.Clone(h.Pauses), func(p Pause) bool { return !p.All })
	if h.Paused && len(whole) > 0 {
		last := slices.MaxFunc(whole, func(p, q Pause) int { return p.Since.Compare(q.Since) })
		part, since := PartPosting, last.Since // since then nothing at all is posted
		if h.Ledger.Condition == ConditionFailing {
			part, since = PartLedger, h.Ledger.FailingSince
		}
		return []Attention{{part, since, withDetails(incident.NothingPosted(h.PausedKind()), timeSince(now, since), pauseReasons(whole))}}
	}
	for _, kind := range incident.ClosedKinds() {
		of := slices.DeleteFunc(slices.Clone(whole), func(p Pause) bool { return p.Kind() != kind })
		if len(of) == 0 {
			continue
		}
		names := make([]string, len(of))
		for i, p := range of {
			names[i] = p.Ledger
		}
		since := of[0].Since // the beginning of the longest pause
		all = append(all, Attention{PartPosting, since, withDetails(incident.LedgersGetNothing(names, nil, 0, kind), timeSince(now, since), pauseReasons(of))})
	}
	if h.Ledger.Condition == ConditionFailing {
		return all // the cause about the whole is enough
	}
	for _, name := range slices.Sorted(maps.Keys(h.Ledgers)) {
		l := h.Ledgers[name]
		paused := slices.ContainsFunc(whole, func(p Pause) bool { return p.Ledger == name })
		if l.Condition == ConditionFailing && !paused { // for example status queries to it
			all = append(all, Attention{PartPosting, l.FailingSince, fmt.Sprintf("ledger %s has failed for %s: %v", name, timeSince(now, l.FailingSince), l.Err)})
		}
	}
	return all
}

// PausedKind is the kind of reason for which nothing at all is posted ([Pause.Kind]): of several
// ledgers the one that needs a person most. It means nothing unless Paused.
func (h Health) PausedKind() batch.ErrorKind {
	var kinds []batch.ErrorKind
	for _, p := range h.Pauses {
		if p.All {
			kinds = append(kinds, p.Kind())
		}
	}
	return incident.WorstKind(kinds...)
}

// pauseReasons joins the reasons of pauses, with the names of their ledgers if there are several.
func pauseReasons(all []Pause) error {
	if len(all) == 1 {
		return all[0].Because
	}
	var errs []string
	for _, p := range all {
		text := incident.LedgerClosed(p.Kind())
		if e, is := errors.AsType[*batch.SubmissionError](p.Because); is && e.Message != "" {
			text = e.Message
		}
		errs = append(errs, p.Ledger+": "+text)
	}
	return errors.New(strings.Join(errs, "; "))
}

// pausedServices returns the services that are paused alone, and since when the first of them is
// paused.
func (h Health) pausedServices() (all []batch.ServiceID, since time.Time) {
	for _, p := range h.Pauses {
		if !p.All {
			if all = append(all, p.Service); since.IsZero() || p.Since.Before(since) {
				since = p.Since
			}
		}
	}
	slices.Sort(all)
	return all, since
}

// loopNeedFails reports whether the part that a loop needs fails. The loops "submitter" and
// "statuses" need the ledger, and the others the database.
func (h Health) loopNeedFails(loop string) bool {
	if loop == "submitter" || loop == "statuses" {
		return h.Ledger.Condition == ConditionFailing
	}
	return h.Store.Condition == ConditionFailing
}

func timeSince(now, since time.Time) time.Duration { return now.Sub(since).Round(time.Second) }

// withDetails returns a sentence with the time since it holds, and an error.
func withDetails(sentence string, lasts time.Duration, err error) string {
	s := fmt.Sprintf("%s For %s", sentence, lasts)
	if e, is := errors.AsType[*batch.SubmissionError](err); is { // the sentence has the kind already
		s += ": " + e.Message
	} else if err != nil {
		s += ": " + err.Error()
	}
	return s
}

// someServices returns a text with the names of a few services.
func someServices(all []batch.ServiceID) string {
	const most = 5
	var names []string
	for _, s := range all[:min(len(all), most)] {
		names = append(names, fmt.Sprintf("%q", string(s)))
	}
	if len(all) > most {
		names = append(names, fmt.Sprintf("and %d more", len(all)-most))
	}
	return strings.Join(names, ", ")
}

// Counts are about all batches of the database: a Runner reads the counts that the
// store keeps every 15 s ([store.Stats]).
type Counts struct {
	// ReadAt is when the counts were read, on this process's clock, and Age their age at that
	// time. ReadAt is zero if no instance has counted yet, or if the store lacks
	// [store.CanCountOpen].
	ReadAt time.Time     `json:"read_at,omitzero"`
	Age    time.Duration `json:"age,omitzero"`
	// Waiting is the number of batches that have to be posted, or posted again. Undecided is the
	// number of batches that need a person's decision, with those that have not moved for
	// Options.StuckAfter. Halted is the number of halted lanes.
	Waiting   int `json:"waiting,omitzero"`
	Undecided int `json:"undecided,omitzero"`
	Halted    int `json:"halted,omitzero"`
	// RefusedOrders is the number of orders that were refused alone within a day.
	RefusedOrders int `json:"refused_orders,omitzero"`
	// RefusedSince is when the first of RefusedOrders was refused. UndecidedSince and HaltedSince
	// are since when this Runner has read counts with any of them. All are on this process's
	// clock, and zero if there are none.
	RefusedSince   time.Time `json:"refused_since,omitzero"`
	UndecidedSince time.Time `json:"undecided_since,omitzero"`
	HaltedSince    time.Time `json:"halted_since,omitzero"`
	// StandingSince is the beginning of a standstill: since then batches wait in lanes that are
	// not paused or halted, and no batch of the whole database moves. The ledger has no batch in
	// hand, no instance saw a batch become final, and this one had none accepted. It is zero if
	// there is no standstill.
	StandingSince time.Time `json:"standing_since,omitzero"`
}

// attention returns the causes that the counts show. stale is how old the counts may be.
func (c Counts) attention(now time.Time, stale time.Duration) (all []Attention) {
	if c.ReadAt.IsZero() {
		return nil
	}
	if age := now.Sub(c.ReadAt) + c.Age; age > stale {
		all = append(all, Attention{PartBatches, now.Add(-age), withDetails(incident.NoCounts, age.Round(time.Second), nil)})
	}
	if c.Undecided > 0 {
		all = append(all, Attention{PartBatches, c.UndecidedSince, incident.NeedDecision(c.Undecided)})
	}
	if c.Halted > 0 {
		all = append(all, Attention{PartBatches, c.HaltedSince, incident.Halted(c.Halted)})
	}
	if c.RefusedOrders > 0 {
		all = append(all, Attention{PartBatches, c.RefusedSince, incident.Refused(c.RefusedOrders)})
	}
	if since := c.StandingSince; !since.IsZero() && now.Sub(since) > standstillLimit {
		all = append(all, Attention{PartBatches, since, fmt.Sprintf("no batch has moved for %s, and so many wait: %d", timeSince(now, since), c.Waiting)})
	}
	return all
}
