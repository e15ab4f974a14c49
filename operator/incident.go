package operator

import (
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// IncidentKind is the kind of an incident.
type IncidentKind string

// The incidents, the worst first. [Situation] sorts them in this order.
const (
	// IncidentNoInstance: no instance runs, so that nothing moves.
	IncidentNoInstance IncidentKind = "no_instance"
	// IncidentLedgerRefuses, IncidentLedgerDown and IncidentLedgerBusy: instances post nothing, or
	// nothing of some lanes, because the ledger refuses this client, cannot be reached, or is
	// busy.
	IncidentLedgerRefuses IncidentKind = "ledger_refuses"
	IncidentLedgerDown    IncidentKind = "ledger_down"
	IncidentLedgerBusy    IncidentKind = "ledger_busy"
	// IncidentDecision: batches need a decision of a person, or a person was called because they
	// have not moved for long.
	IncidentDecision IncidentKind = "decision"
	// IncidentHalted: lanes are halted.
	IncidentHalted IncidentKind = "halted"
	// IncidentDisagree: instances have recorded different settings.
	IncidentDisagree IncidentKind = "disagree"
	// IncidentUnserved: no instance takes the batches of some lanes.
	IncidentUnserved IncidentKind = "unserved"
	// IncidentNotRecorded: settings that an explanation needs are not on record.
	IncidentNotRecorded IncidentKind = "not_recorded"
	// IncidentHeld: the strategy takes no batch of some lanes.
	IncidentHeld IncidentKind = "held"
	// IncidentPaused: a person has paused everything, or lanes.
	IncidentPaused IncidentKind = "paused"
	// IncidentGone: an instance has gone, and batches that it was submitting are not final.
	IncidentGone IncidentKind = "instance_gone"
	// IncidentStore: the store of an instance has a warning, such as a log that grows.
	IncidentStore IncidentKind = "store_warns"
	// IncidentGrowing: more batches are added than become final.
	IncidentGrowing IncidentKind = "growing"
	// IncidentSetAside: batches were set aside by a policy.
	IncidentSetAside IncidentKind = "set_aside"
	// IncidentOrderRefused: the ledger refused single orders of auto-batching within the last day.
	IncidentOrderRefused IncidentKind = "order_refused"
	// IncidentCountsOld: instances run, and the kept counts are older than ten minutes plus the
	// longest rest of an idle instance.
	IncidentCountsOld IncidentKind = "counts_old"
)

// incidentKinds lists the kinds in their order, the worst first.
var incidentKinds = []IncidentKind{
	IncidentNoInstance, IncidentLedgerRefuses, IncidentLedgerDown, IncidentLedgerBusy, IncidentDecision, IncidentHalted, IncidentDisagree,
	IncidentUnserved, IncidentNotRecorded, IncidentHeld, IncidentPaused, IncidentGone, IncidentStore, IncidentGrowing, IncidentSetAside, IncidentOrderRefused, IncidentCountsOld,
}

// Rank is the index of the kind among all kinds, the worst first. A kind that is not in the list
// comes last.
func (k IncidentKind) Rank() int {
	if at := slices.Index(incidentKinds, k); at >= 0 {
		return at
	}
	return len(incidentKinds)
}

// OfInstances reports whether the incident concerns instances and not batches or lanes.
func (k IncidentKind) OfInstances() bool {
	switch k {
	case IncidentNoInstance, IncidentLedgerRefuses, IncidentLedgerDown, IncidentLedgerBusy, IncidentGone, IncidentStore, IncidentCountsOld:
		return true
	}
	return false
}

// Incident is one thing that is wrong. Its sentence is the same wherever the incident is shown.
// Once the incident is over, it is no longer listed.
type Incident struct {
	Kind IncidentKind `json:"kind"`
	// Text is the sentence. Why quotes a reason: the ledger's answer, the reason of the person who
	// paused, or a batch's explanation; "" for none.
	Text string `json:"text"`
	Why  string `json:"why,omitzero"`
	// Since is when the incident began, on the database's clock, or the earliest time that is
	// known; zero if none is known. For lanes that are halted or paused, Since, Why and Command
	// are about the example. For is the time since then.
	Since time.Time     `json:"since,omitzero"`
	For   time.Duration `json:"for_ns,omitzero"`
	// Do is the remedy in words. Command is the command that does it, or that shows more. Page is
	// the relative address in the console where it can be done, and Link is the label of that
	// page. Command and Page may be "", where the remedy is outside the command and the console.
	Do      string `json:"do"`
	Command string `json:"command,omitzero"`
	Page    string `json:"page,omitzero"`
	Link    string `json:"link,omitzero"`
	// ByItself is true if the incident ends without a person.
	ByItself bool `json:"by_itself,omitzero"`
	// Batches is the number of open batches concerned, and Lanes the number of their lanes. Behind
	// is how many of Batches only wait behind others of them. AtLeast and Sampled are as in
	// [Group]. Oldest is the age of the oldest batch.
	Batches int           `json:"batches,omitzero"`
	Behind  int           `json:"behind,omitzero"`
	Lanes   int           `json:"lanes,omitzero"`
	AtLeast bool          `json:"at_least,omitzero"`
	Sampled bool          `json:"sampled,omitzero"`
	Oldest  time.Duration `json:"oldest_ns,omitzero"`
	// Instances are the names of the instances concerned.
	Instances []string `json:"instances,omitempty"`
	// Example explains one of the batches, and Blocker the batch that halted its lane. The ID is
	// "" if there is none.
	Example batch.Explanation `json:"example,omitzero"`
	Blocker batch.Explanation `json:"blocker,omitzero"`

	ledger string // the ledger of the example
}

// State is the state of the store and its instances as a whole, in words.
type State string

// The states, the best first.
const (
	StateWell State = "all well" // nothing is wrong
	// StateWaits: something is wrong, and all of it ends without a person.
	StateWaits State = "waits, and goes on by itself"
	// StatePart: as far as is known no person is needed, but the survey did not reach all lanes.
	StatePart    State = "not everything was looked at"
	StatePerson  State = "needs a person"    // something waits for a person
	StateLedger  State = "nothing is posted" // no instance posts: the ledger is down, busy, or refuses this client
	StateStopped State = "no instance runs"
)
