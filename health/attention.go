package health

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

// Attention is one cause for which a Runner does not do all that it should. [Health.Attention]
// lists them.
type Attention struct {
	// Part is what the cause is about, one of the Part constants.
	Part string `json:"part"`
	// Since is when it began, on this process's clock; zero where nobody knows.
	Since time.Time `json:"since,omitzero"`
	// Text is a sentence for people. It has no secrets, but names services and hosts.
	Text string `json:"text"`
}

// String returns part and text.
func (a Attention) String() string { return a.Part + ": " + a.Text }

// The parts of an [Attention].
const (
	PartRun      = "run"      // Run does not run
	PartDatabase = "database" // it is not reached, or takes no writes
	PartLedger   = "ledger"   // it is not reached, or refuses this client
	PartStreams  = "streams"  // of the ledger's events
	PartPosting  = "posting"  // nothing is posted, for a service or at all
	PartBatches  = "batches"  // some wait for a person, or none moves
	PartLoops    = "loops"    // a loop fails, or stands
	PartWarnings = "warnings" // of the store
)

// Bounds of the verdict. They are longer than what delivery without any trouble takes.
const (
	// standstill is how long batches may wait without a sign that any of them moves.
	standstill = 10 * time.Minute
	// staleCounts is how old the counts of the database may be: longer than the pause after a count
	// that took as long as it may.
	staleCounts = 10 * time.Minute
	// loopSilence is how long the loops that look at the database all the time may show no success.
	loopSilence = 10 * time.Minute
)

// Attention is the verdict about a Runner at a moment: nil says that all is well, as far as this
// process knows. It is a pure function of Health, and the one rule by which package probe, and the
// metrics of package otelbatch, judge a part. A pause or a failure is listed from its first moment
// on, and many are over soon by themselves: look at Since before you call a person.
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
		if p.Condition == ConditionFailing {
			add(p.name, p.FailingSince, "has failed for %s: %v", ago(now, p.FailingSince), p.Err)
		}
	}
	if h.Paused {
		add(PartPosting, h.PausedSince, "nothing has been posted for %s, because %s", ago(now, h.PausedSince), pauseWords(h.PausedBecause))
	}
	for _, list := range []struct {
		services []batch.ServiceID
		what     string
	}{
		{h.PausedServices, "nothing is posted, because the ledger is busy, unreachable or refuses this client"},
		{h.HaltedServices, "the lane is halted, because the ledger took a batch back again and again"},
		{h.HeldServices, "this Run does not serve it"},
	} {
		if len(list.services) > 0 {
			add(PartPosting, time.Time{}, "%s: %s", someServices(list.services), list.what)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(h.Loops)) {
		l := h.Loops[name]
		looks := name == "queuer" || name == "monitor" // the others wait for work
		switch {
		case l.Condition == ConditionFailing:
			add(PartLoops, l.FailingSince, "%s has failed for %s: %v", name, ago(now, l.FailingSince), l.Err)
		case looks && !l.LastSuccess.IsZero() && now.Sub(l.LastSuccess) > loopSilence+h.Rest:
			add(PartLoops, l.LastSuccess, "%s has done nothing for %s", name, ago(now, l.LastSuccess))
		}
	}
	all = append(all, h.Counts.attention(now, staleCounts+h.Rest)...)
	for _, w := range h.Warnings {
		add(PartWarnings, time.Time{}, "%v", w)
	}
	return all
}

func ago(now, since time.Time) time.Duration { return now.Sub(since).Round(time.Second) }

// pauseWords says what a pause waits for.
func pauseWords(err error) string {
	switch {
	case err == nil:
		return "the ledger is busy"
	case errors.Is(err, dlt.ErrMisconfigured):
		if e, is := errors.AsType[*batch.SubmissionError](err); is { // its kind is said already
			return "the ledger refuses this client: " + e.Message
		}
		return "the ledger refuses this client: " + err.Error()
	}
	return err.Error()
}

// someServices names a few services.
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

// Counts are what a Runner knows of all batches of the database: it reads the counts that the store
// keeps every 15 s ([store.Stats]).
type Counts struct {
	// ReadAt is when they were read, on this process's clock, and Age how old they were then.
	// ReadAt is zero where nobody has counted yet, or the store lacks [store.CanCountOpen].
	ReadAt time.Time     `json:"read_at,omitzero"`
	Age    time.Duration `json:"age,omitzero"`
	// Waiting are batches that have to be posted, or posted again. Undecided need a person's
	// decision: among them are those that have not moved for Options.StuckAfter. Halted are lanes.
	Waiting   int `json:"waiting,omitzero"`
	Undecided int `json:"undecided,omitzero"`
	Halted    int `json:"halted,omitzero"`
	// StandingSince is since when batches wait, in lanes that nobody has paused or halted, and none
	// of the whole database moves: the ledger has none in hand, and no instance saw one become
	// final, nor this one have one accepted.
	StandingSince time.Time `json:"standing_since,omitzero"`
}

// attention is the part of the verdict that comes from the counts.
func (c Counts) attention(now time.Time, stale time.Duration) (all []Attention) {
	if c.ReadAt.IsZero() {
		return nil
	}
	if age := now.Sub(c.ReadAt) + c.Age; age > stale {
		all = append(all, Attention{PartBatches, now.Add(-age), fmt.Sprintf("nobody has counted the open batches for %s", age.Round(time.Second))})
	}
	if c.Undecided > 0 {
		all = append(all, Attention{PartBatches, time.Time{}, fmt.Sprintf("batches that wait for a person's decision: %d", c.Undecided)})
	}
	if c.Halted > 0 {
		all = append(all, Attention{PartBatches, time.Time{}, fmt.Sprintf("lanes that are halted until a person releases them: %d", c.Halted)})
	}
	if since := c.StandingSince; !since.IsZero() && now.Sub(since) > standstill {
		all = append(all, Attention{PartBatches, since, fmt.Sprintf("no batch has moved for %s, and so many wait: %d", ago(now, since), c.Waiting)})
	}
	return all
}
