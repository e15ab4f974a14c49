package operator

import (
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// IncidentKind is the kind of an incident.
type IncidentKind string

// The incidents, the worst first: [Situation] has them in this order.
const (
	// IncidentNoInstance: no instance runs, so that nothing moves.
	IncidentNoInstance IncidentKind = "no_instance"
	// IncidentLedgerRefuses, IncidentLedgerDown and IncidentLedgerBusy: instances post nothing, or
	// nothing of some lanes, because the ledger refuses this client, is not reached, or is busy.
	IncidentLedgerRefuses IncidentKind = "ledger_refuses"
	IncidentLedgerDown    IncidentKind = "ledger_down"
	IncidentLedgerBusy    IncidentKind = "ledger_busy"
	// IncidentDecision: batches need a decision of a person, or have not moved for so long that a
	// person was called.
	IncidentDecision IncidentKind = "decision"
	// IncidentHalted: lanes are halted.
	IncidentHalted IncidentKind = "halted"
	// IncidentDisagree: instances have recorded different settings.
	IncidentDisagree IncidentKind = "disagree"
	// IncidentUnserved: no instance takes the batches of some lanes.
	IncidentUnserved IncidentKind = "unserved"
	// IncidentNotRecorded: settings that an explanation needs are not on record.
	IncidentNotRecorded IncidentKind = "not_recorded"
	// IncidentHeld: the strategy takes nothing of some lanes.
	IncidentHeld IncidentKind = "held"
	// IncidentPaused: a person has paused everything, or lanes.
	IncidentPaused IncidentKind = "paused"
	// IncidentGone: an instance has gone, and batches that it left under way are not final.
	IncidentGone IncidentKind = "instance_gone"
	// IncidentStore: the store of an instance has a warning, such as a log that grows.
	IncidentStore IncidentKind = "store_warns"
	// IncidentGrowing: more batches come than leave.
	IncidentGrowing IncidentKind = "growing"
	// IncidentSetAside: batches were set aside by a policy.
	IncidentSetAside IncidentKind = "set_aside"
	// IncidentOrderRefused: orders of auto-batching were refused alone, within a day.
	IncidentOrderRefused IncidentKind = "order_refused"
	// IncidentCountsOld: instances run, and nobody has counted for ten minutes, and longer
	// than an idle instance rests.
	IncidentCountsOld IncidentKind = "counts_old"
)

// incidentKinds are in their order.
var incidentKinds = []IncidentKind{
	IncidentNoInstance, IncidentLedgerRefuses, IncidentLedgerDown, IncidentLedgerBusy, IncidentDecision, IncidentHalted, IncidentDisagree,
	IncidentUnserved, IncidentNotRecorded, IncidentHeld, IncidentPaused, IncidentGone, IncidentStore, IncidentGrowing, IncidentSetAside, IncidentOrderRefused, IncidentCountsOld,
}

// Rank is the place of the kind among all kinds, the worst first; a kind that is none comes last.
func (k IncidentKind) Rank() int {
	if at := slices.Index(incidentKinds, k); at >= 0 {
		return at
	}
	return len(incidentKinds)
}

// OfInstances reports whether the incident is about the instances, and no batch or lane.
func (k IncidentKind) OfInstances() bool {
	switch k {
	case IncidentNoInstance, IncidentLedgerRefuses, IncidentLedgerDown, IncidentLedgerBusy, IncidentGone, IncidentStore, IncidentCountsOld:
		return true
	}
	return false
}

// Incident is one thing that is wrong. It has one sentence, which is the same wherever the
// incident is shown, and it is not there any more once it is over.
type Incident struct {
	Kind IncidentKind `json:"kind"`
	// Text is the sentence. Why are the words of others about it: of the ledger, of the person who
	// paused, of a batch's explanation; "" for none.
	Text string `json:"text"`
	Why  string `json:"why,omitzero"`
	// Since is when it began, on the database's clock, or as early as is known; zero where nothing
	// is. Of lanes that are halted or paused it is the example's, as Why and Command are.
	// For is the time since then.
	Since time.Time     `json:"since,omitzero"`
	For   time.Duration `json:"for_ns,omitzero"`
	// Do is the remedy in words. Command does it, or shows more; Page is the
	// console's relative address that does, under the name Link. Both may be "": nothing here
	// mends it then.
	Do      string `json:"do"`
	Command string `json:"command,omitzero"`
	Page    string `json:"page,omitzero"`
	Link    string `json:"link,omitzero"`
	// ByItself says that it ends without a person.
	ByItself bool `json:"by_itself,omitzero"`
	// Batches are the open batches concerned, in Lanes; Behind of them only wait behind others of
	// them. AtLeast and Sampled are as in [Group]. Oldest is the age of the oldest.
	Batches int           `json:"batches,omitzero"`
	Behind  int           `json:"behind,omitzero"`
	Lanes   int           `json:"lanes,omitzero"`
	AtLeast bool          `json:"at_least,omitzero"`
	Sampled bool          `json:"sampled,omitzero"`
	Oldest  time.Duration `json:"oldest_ns,omitzero"`
	// Instances are the names of the instances concerned.
	Instances []string `json:"instances,omitempty"`
	// Example explains one of the batches, and Blocker the batch that halted its lane; the ID is
	// "" where there is none.
	Example batch.Explanation `json:"example,omitzero"`
	Blocker batch.Explanation `json:"blocker,omitzero"`

	ledger string // of the example
}

// State is how things are, in words.
type State string

// The states, the best first.
const (
	StateWell State = "all well" // nothing is wrong
	// StateWaits: something is wrong, and all of it ends without a person.
	StateWaits State = "waits, and goes on by itself"
	// StatePart: no person is needed as far as is known, but the survey did not reach all lanes.
	StatePart    State = "not everything was looked at"
	StatePerson  State = "needs a person"    // something waits for a person
	StateLedger  State = "nothing is posted" // by any instance: the ledger is down, busy, or refuses this client
	StateStopped State = "no instance runs"
)
