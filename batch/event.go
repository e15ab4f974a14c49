package batch

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// EventKind says what an [Event] is about.
type EventKind string

// The kinds of events.
const (
	// EventAdded: stored by this process, in state Queued.
	EventAdded EventKind = "added"
	// EventClaimed: an attempt is counted; the batch is about to be posted.
	EventClaimed EventKind = "claimed"
	// EventState: the batch is in a new state.
	EventState EventKind = "state"
	// EventFinal: the outcome is final.
	EventFinal EventKind = "final"
	// EventInDoubt: an attempt ended without its outcome being known.
	EventInDoubt EventKind = "in_doubt"
	// EventDecision: the batch cannot go on by itself; Err says why.
	EventDecision EventKind = "needs_decision"
	// EventOrderBreach: a batch that was final was committed after all; others may have
	// gone ahead. Where the strategy relies on the ledger's keeping the order of
	// submission also one that the ledger had accepted and lost, and that is sent again,
	// or had decided against and executes after all: Err names one that went ahead, or may have.
	EventOrderBreach EventKind = "order_breach"
	// EventVanished: the ledger no longer has a batch that it had committed (a fork).
	// The batch stays Committed; Err says what the ledger says now.
	EventVanished EventKind = "vanished"
	// EventPaused and EventResumed: nothing is posted in the scope of Service (or at all) for a while.
	EventPaused  EventKind = "paused"
	EventResumed EventKind = "resumed"
	// EventHalted: nothing leaves a lane until it is released. A batch ended Invalid or
	// Rejected, by [PolicyHalt]; or the ledger took back what it had executed of it, several
	// times in a row, and Err says so. Key is that batch.
	EventHalted EventKind = "halted"
	// EventQuarantined: the batch was set aside, by [PolicyQuarantine].
	EventQuarantined EventKind = "quarantined"
	// EventOperated: an operator changed something through this process; Act says what.
	EventOperated EventKind = "operated"
	// EventLaneHeld: a strategy gave a bad answer or panicked; its lane stays where it is.
	EventLaneHeld EventKind = "lane_held"
	// EventTrouble: a loop failed unexpectedly and starts again after a pause. Or nothing
	// pauses, and Err says that the ledger's traits are other ones than those recorded
	// (dltbatch.ErrOtherTraits), or what the store warns of (dltbatch.Health.Warnings).
	EventTrouble EventKind = "trouble"
)

// Event is something that happened, told after it was written.
type Event struct {
	Kind    EventKind `json:"kind"`
	Key     Key       `json:"key,omitzero"` // Key.ID is "" for what concerns a service or the whole
	State   State     `json:"state,omitzero"`
	Attempt int       `json:"attempt,omitzero"`
	At      time.Time `json:"at"` // this process's clock
	Err     error     `json:"-"`  // in JSON its text, as error
	// Act is what was done, with EventOperated.
	Act Act `json:"act,omitzero"`
}

// MarshalJSON writes the error as its text.
func (e Event) MarshalJSON() ([]byte, error) {
	type plain Event
	v := struct {
		plain
		Err string `json:"error,omitzero"`
	}{plain: plain(e)}
	if e.Err != nil {
		v.Err = e.Err.Error()
	}
	return json.Marshal(v)
}

// UnmarshalJSON reads what MarshalJSON writes. Of the error it has the text only.
func (e *Event) UnmarshalJSON(data []byte) error {
	type plain Event
	v := struct {
		*plain
		Err string `json:"error"`
	}{plain: (*plain)(e)}
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	if e.Err = nil; v.Err != "" {
		e.Err = errors.New(v.Err)
	}
	return nil
}

// Observer is told of every event, synchronously and after the write. It is
// never skipped while the process lives; after a crash the store is the truth.
// Observe is called from several goroutines at once, must be quick and must not
// call the Runner's blocking methods. A panic in it is contained and logged.
type Observer interface {
	Observe(ctx context.Context, e Event)
}

// ObserverFunc is an [Observer] that is a func.
type ObserverFunc func(ctx context.Context, e Event)

// Observe calls f.
func (f ObserverFunc) Observe(ctx context.Context, e Event) { f(ctx, e) }
