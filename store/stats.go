package store

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// Limits of the counts ([CanCountOpen]).
const (
	// StatsLimit is how long a count may take. After that time it is cut off, and the
	// earlier counts stay.
	StatsLimit = 10 * time.Second
	// MaxInstances is how many instances are kept: the last seen.
	MaxInstances = 1000
	// OldestLanes is how many lanes [Totals].OldestLanes has at most.
	OldestLanes = 10

	// defaultStatsAge is the default of [RefreshQuery].OlderThan.
	defaultStatsAge = 15 * time.Second
	// statsTurnLease is how long a process that counts keeps other processes from counting. If
	// that process dies, another may count after this time.
	statsTurnLease = 2 * StatsLimit
	// statsTimeShare bounds the part of the time in which processes count: one part of 50.
	statsTimeShare = 50
	// maxLivePauses is how many of its pauses an instance counts as live after it was seen last.
	// It writes its row once in each pause.
	maxLivePauses = 3
)

// RefreshQuery says when to count again.
type RefreshQuery struct {
	// OlderThan is how old the kept counts must be. Defaults to 15 s.
	OlderThan time.Duration
	// By names the instance that counts, for [Totals].By: printable text of at most
	// [batch.MaxInstanceLen] bytes.
	By string
	// Forget is the time after which an instance that is not seen any more is forgotten; 0 is
	// never.
	Forget time.Duration
}

// Bounded returns the query with the default age if none is set. The error says that By is not a
// name that a store accepts; it is a [*batch.InputError].
func (q RefreshQuery) Bounded() (RefreshQuery, error) {
	if q.OlderThan <= 0 {
		q.OlderThan = defaultStatsAge
	}
	return q, batch.CheckText("RefreshQuery.By", q.By, batch.MaxInstanceLen)
}

// StatsTurn is how processes take turns at making a text that takes long to make, such as counts.
// A store keeps it together with the text. Its methods are the rules as pure functions; now is
// always the database's clock. A process reads both, swaps them with [StatsTurn.Take], makes the
// text, and writes it with [StatsTurn.End]. So a slow process that another has overtaken changes
// nothing.
type StatsTurn struct {
	At   time.Time `json:"at,omitzero"`   // the time of the kept text; zero if none is kept
	Rest time.Time `json:"rest,omitzero"` // no process makes the text again before this time
}

// Due reports whether to count now. Times from before the clock stepped back do not count: kept
// counts that are ahead of the clock, with the rest after them, and a rest that is further ahead
// than any rule sets it.
func (t StatsTurn) Due(now time.Time, q RefreshQuery) bool {
	if t.At.After(now) {
		return true
	}
	rests := t.Rest.After(now) && t.Rest.Sub(now) <= statsTimeShare*StatsLimit
	return now.Sub(t.At) >= q.OlderThan && !rests
}

// Take returns the turn while a process counts. If the kept counts are ahead of the clock, At
// becomes zero, so that Rest counts.
func (t StatsTurn) Take(now time.Time) StatsTurn {
	if t.At.After(now) {
		t.At = time.Time{}
	}
	t.Rest = now.Add(statsTurnLease)
	return t
}

// End returns the turn after a process has counted for the time took. at is the moment of the
// counts; zero if counting failed. The rest limits counting to a small part of all processes'
// time.
func (t StatsTurn) End(now, at time.Time, took time.Duration) StatsTurn {
	if !at.IsZero() {
		t.At = at
	}
	t.Rest = now.Add(statsTimeShare * min(max(took, 0), StatsLimit))
	return t
}

// Stats are the counts and the instances that a store keeps ([TextStats], [TextInstance]).
type Stats struct {
	Totals
	// Age is the time since At, when the counts were read.
	Age time.Duration `json:"age"`
	// Instances are the instances in order of name and start, dead ones included.
	Instances []Instance `json:"instances"`
}

// RefusedFor is how long a refused order is counted. Nobody can acquit an order, and a person who
// comes to work the next day should see it.
const RefusedFor = 24 * time.Hour

// Totals are counts of open batches and orders, all of one moment, and exact. The sizes are the
// database's own figures, read at the same time.
type Totals struct {
	// At is the moment of the counts, on the database's clock. It is zero if nobody has counted
	// yet; then no other field is set.
	At   time.Time     `json:"at,omitzero"`
	Took time.Duration `json:"took"` // how long the count took
	By   string        `json:"by"`   // the instance that has counted

	// Open are the numbers of batches that are not final, by state. It has no states without
	// batches.
	Open map[batch.State]int `json:"open"`
	// Oldest is when the oldest open batch was added; zero where none is open.
	Oldest time.Time `json:"oldest,omitzero"`
	// Lanes is how many lanes have an open batch.
	Lanes int `json:"lanes"`
	// InDoubt counts open batches as [Row.InDoubt] says.
	InDoubt int `json:"in_doubt"`
	// OldestDoubt is when the oldest of these doubts began (Row.DoubtSince: the claim of the first
	// unresolved attempt); zero if there is none.
	OldestDoubt time.Time `json:"oldest_doubt,omitzero"`
	// Undecided counts open batches that need a decision of a person.
	Undecided int `json:"undecided"`
	// Quarantined counts final batches that a policy set aside.
	Quarantined int `json:"quarantined"`
	// Paused and Halted count lanes, with open batches or without. AllPaused says that
	// everything is paused.
	Paused    int  `json:"paused"`
	Halted    int  `json:"halted"`
	AllPaused bool `json:"all_paused"`
	// OldestLanes are the lanes with the oldest open batches, the oldest first.
	OldestLanes []LaneAge `json:"oldest_lanes"`

	// Orders are the orders of auto-batching that are not final, by the name of their state;
	// OldestOrder is when the oldest of them was added.
	Orders      map[string]int `json:"orders"`
	OldestOrder time.Time      `json:"oldest_order,omitzero"`
	// RefusedOrders counts the orders that were refused alone (order.Quarantined) in the last
	// [RefusedFor], and OldestRefused is when the first of them was.
	RefusedOrders int       `json:"refused_orders"`
	OldestRefused time.Time `json:"oldest_refused,omitzero"`

	// Earlier are the counts before this one, the oldest first: at most [MaxFlows].
	Earlier []OpenAt `json:"earlier,omitempty"`
	// RisingSince is the moment of the count after which each had more open batches than the one
	// before; zero where the last count has no more than the one before it.
	RisingSince time.Time `json:"rising_since,omitzero"`

	// Schema is the version of the database's schema; 0 where it has none.
	Schema int64 `json:"schema"`
	// Sizes are the parts of the database. PostgreSQL's are the tables, with their indexes.
	// SQLite's are "database" and "log".
	Sizes []Size `json:"sizes,omitempty"`
}

// LaneAge is a lane and its oldest open batch.
type LaneAge struct {
	Service batch.ServiceID `json:"service"`
	Oldest  time.Time       `json:"oldest"` // when it was added
	Open    int             `json:"open"`   // the number of the lane's open batches
}

// Size is the size of a part of a database.
type Size struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
	// Dead is how many rows wait to be cleaned up, as the server estimates it.
	Dead int64 `json:"dead"`
}

// Instance is one Run of a Runner, as other processes see it.
type Instance struct {
	// ID is this Run's own, chosen at random when it began; Name is its Options.Instance. Both
	// are printable text of at most [batch.MaxInstanceLen] bytes.
	ID   string `json:"id"`
	Name string `json:"name"`
	// Since and Seen are when its row was written first and last, on the database's clock; they
	// are set where instances are read.
	Since time.Time `json:"since,omitzero"`
	Seen  time.Time `json:"seen,omitzero"`
	// Every is the pause between two writes of its row: 15 s, and longer while nothing is open and
	// hints arrive.
	Every time.Duration `json:"every,omitzero"`
	// Host is the name of its machine; "" where the machine has none.
	Host string `json:"host,omitempty"`
	// Version is the version of this module in it.
	Version string `json:"version"`
	// Schema is the version of the schema that its code knows; 0 where the store has no schema.
	Schema int64 `json:"schema,omitzero"`
	// Ledger is the name of its ledger, or the names of all, as people read them.
	Ledger string `json:"ledger"`
	// Settings are its strategy and options, by name, as text: instances should agree on them.
	Settings map[string]string `json:"settings,omitempty"`
	// Claims is how many batches the instance has claimed, or has found the outcome of, and whose
	// outcome it has not written yet.
	Claims int `json:"claims"`
	// Paused is true if the instance posts nothing at present, because its ledger, or each of its
	// ledgers, is busy, unreachable, or refuses this client. Pauses lists the ledgers and services
	// for which this is so, whole ledgers first, and then those for which it is so for longest: at
	// most [MaxPauses].
	Paused bool    `json:"paused"`
	Pauses []Pause `json:"pauses,omitempty"`
	// Unserved are services of which it takes no batches, because its options, its ledger and the
	// store do not fit, or because another ledger has them: the first [MaxUnserved] in byte order.
	Unserved []Unserved `json:"unserved,omitempty"`
	// Warnings are the warnings of its store that stand ([Warning]), as texts: at most
	// [MaxWarnings].
	Warnings []string `json:"warnings,omitempty"`
	// WarnsFor is for how long before the instance was seen the oldest of them has stood.
	WarnsFor time.Duration `json:"warns_for_ns,omitzero"`
	// Looked is the server on which the store of the instance has checked for lost commits, and on
	// which it has found none or has paused everything; "" if no instance waits for that. See
	// postgres.Options.PauseOnLostCommits.
	Looked string `json:"looked,omitempty"`
	// Loops is, for each loop of the instance, how long before Seen a call last succeeded.
	Loops map[string]time.Duration `json:"loops,omitempty"`
	// Flows are the batches that the instance saw lately, the earliest stretch first: at most
	// [MaxFlows].
	Flows []Flow `json:"flows,omitempty"`

	// Unseen, Live and Shared are set when instances are read. Unseen is the time since Seen, or
	// until Seen if the clock was put back. Live is true if the instance was seen within three
	// times Every, 45 s at least. Shared is true if another instance had the same name at the same
	// time.
	Unseen time.Duration `json:"unseen"`
	Live   bool          `json:"live"`
	Shared bool          `json:"shared"`
}

// Pause is a ledger, or a service, for which an instance posts nothing at present.
type Pause struct {
	Ledger string `json:"ledger"`
	// Service is the paused service. All is true if the whole ledger is paused; then Service
	// is "".
	Service batch.ServiceID `json:"service,omitzero"`
	All     bool            `json:"all,omitzero"`
	// Kind is the reason: [batch.KindBusy], [batch.KindUnavailable] or [batch.KindMisconfigured].
	// Why is the error's text; "" for a busy ledger.
	Kind batch.ErrorKind `json:"kind"`
	Why  string          `json:"why,omitzero"`
	// For is how long the pause had lasted when the instance was seen.
	For time.Duration `json:"for_ns"`
}

// Unserved is a service from which an instance claims no batches.
type Unserved struct {
	Service batch.ServiceID `json:"service"`
	Why     string          `json:"why"` // the text of the error
	// For is how long this had lasted when the instance was seen.
	For time.Duration `json:"for_ns"`
}

// MaxPauses is how many pauses an Instance has at most.
const MaxPauses = 16

// MaxUnserved is how many unserved services an Instance has at most.
const MaxUnserved = 16

// MaxWarnings is how many warnings an Instance has at most.
const MaxWarnings = 8

// maxSettings and maxSettingLen bound the settings of an Instance: their number, and the bytes of
// each text.
const (
	maxSettings   = 64
	maxSettingLen = 1024
)

// Validate checks the instance. The error is a [*batch.InputError].
func (i Instance) Validate() error {
	if i.ID == "" {
		return &batch.InputError{Field: "Instance.ID", Want: "an id"}
	}
	if len(i.Settings) > maxSettings || len(i.Loops) > maxSettings {
		return &batch.InputError{Field: "Instance.Settings, Instance.Loops", Value: fmt.Sprint(len(i.Settings), " and ", len(i.Loops)), Want: fmt.Sprintf("at most %d each", maxSettings)}
	}
	if len(i.Flows) > MaxFlows {
		return &batch.InputError{Field: "Instance.Flows", Value: fmt.Sprint(len(i.Flows)), Want: fmt.Sprintf("at most %d", MaxFlows)}
	}
	if len(i.Warnings) > MaxWarnings {
		return &batch.InputError{Field: "Instance.Warnings", Value: fmt.Sprint(len(i.Warnings)), Want: fmt.Sprintf("at most %d", MaxWarnings)}
	}
	if len(i.Pauses) > MaxPauses {
		return &batch.InputError{Field: "Instance.Pauses", Value: fmt.Sprint(len(i.Pauses)), Want: fmt.Sprintf("at most %d", MaxPauses)}
	}
	if len(i.Unserved) > MaxUnserved {
		return &batch.InputError{Field: "Instance.Unserved", Value: fmt.Sprint(len(i.Unserved)), Want: fmt.Sprintf("at most %d", MaxUnserved)}
	}
	texts := append([]string{i.Host, i.Version, i.Ledger}, i.Warnings...)
	for _, p := range i.Pauses {
		texts = append(texts, p.Ledger, string(p.Service), string(p.Kind), p.Why)
	}
	for _, u := range i.Unserved {
		texts = append(texts, string(u.Service), u.Why)
	}
	for name, value := range i.Settings {
		texts = append(texts, name, value)
	}
	for name := range i.Loops {
		texts = append(texts, name)
	}
	for _, text := range texts {
		if len(text) > maxSettingLen {
			return &batch.InputError{Field: "Instance", Value: batch.Excerpt(text, 80), Want: fmt.Sprintf("texts of at most %d bytes", maxSettingLen)}
		}
	}
	return cmp.Or(batch.CheckText("Instance.ID", i.ID, batch.MaxInstanceLen), batch.CheckText("Instance.Name", i.Name, batch.MaxInstanceLen))
}

// AsOf returns the stats as they are read at now, on the database's clock: with ages, which a
// clock that stepped back does not make negative, and in order. An instance that was seen far
// ahead of now does not count as live.
func (s Stats) AsOf(now time.Time) Stats {
	if !s.At.IsZero() {
		s.Age = max(0, now.Sub(s.At))
	}
	all := slices.Clone(s.Instances)
	slices.SortFunc(all, func(a, b Instance) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID))
	})
	last := 0 // the index of the instance of this name that was seen last
	for i := range all {
		a := &all[i]
		a.Unseen = now.Sub(a.Seen).Abs() // negative before if the clock was put back; a live instance is seen again soon
		a.Live, a.Shared = a.Unseen < maxLivePauses*max(a.Every, defaultStatsAge), false
		before := &all[last]
		if last == i || before.Name != a.Name {
			last = i
			continue
		}
		// A restarted instance begins after its predecessor was seen last.
		if before.Live && a.Live && before.Seen.After(a.Since) {
			before.Shared, a.Shared = true, true
		}
		if a.Seen.After(before.Seen) {
			last = i
		}
	}
	s.Instances = all
	return s
}

// InDoubt reports whether an attempt of an open row may or may not have taken effect. The attempt
// that a live claim makes does not count, nor does a batch that the ledger has accepted.
func (r Row) InDoubt(now time.Time) bool {
	switch {
	case r.Final() || r.DoubtAttempt == 0:
		return false
	case r.State == batch.Pending, r.State == batch.Valid, r.State == batch.Invalid:
		return false
	}
	return !r.Live(now) || r.DoubtAttempt != r.Attempt
}
