package batch

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// EventKind is the kind of an [Event].
type EventKind string

// The kinds of events.
const (
	// EventAdded: this process stored the batch, in state Queued.
	EventAdded EventKind = "added"
	// EventClaimed: an attempt is counted; the batch is about to be posted.
	EventClaimed EventKind = "claimed"
	// EventState: the batch is in a new state.
	EventState EventKind = "state"
	// EventFinal: the outcome is final.
	EventFinal EventKind = "final"
	// EventInDoubt: an attempt ended, and its outcome is not known.
	EventInDoubt EventKind = "in_doubt"
	// EventDecision: a person is called, because the batch cannot go on by itself, or has not
	// moved for dltbatch.Options.StuckAfter. Err says why. It comes once until the batch moves or
	// a person acts.
	EventDecision EventKind = "needs_decision"
	// EventOrderBreach: a batch that was final was committed after all; later batches may have
	// gone ahead. Where the strategy relies on the ledger to keep the order of submission,
	// there are two more cases: the ledger lost a batch that it had accepted, and the batch is
	// sent again; or the ledger executes a batch that it had decided against. Err then names a
	// batch that went ahead, or may have. Where the store's answer to a commit was lost, the
	// event may come twice, or about a batch that was perhaps never final: Err says so.
	EventOrderBreach EventKind = "order_breach"
	// EventVanished: the ledger no longer has a batch that it had committed (a fork).
	// The batch stays Committed; Err says what the ledger says now.
	EventVanished EventKind = "vanished"
	// EventPaused and EventResumed: nothing is posted for Service, or, where that is "", to Ledger
	// for a while.
	// EventPaused comes again, without an EventResumed before, if the kind of reason changes.
	EventPaused  EventKind = "paused"
	EventResumed EventKind = "resumed"
	// EventHalted: nothing leaves a lane until an operator releases it. Key is a batch that
	// ended Invalid or Rejected, by [PolicyHalt]; or a batch that the ledger executed and took
	// back, several times in a row, as Err says. Where the store's answer was lost, the event
	// may come twice.
	EventHalted EventKind = "halted"
	// EventQuarantined: the batch was set aside, by [PolicyQuarantine].
	EventQuarantined EventKind = "quarantined"
	// EventOperated: an operator changed something through this process; Act is the change.
	EventOperated EventKind = "operated"
	// EventLaneHeld: a strategy gave a bad answer or panicked, or the ledger cannot serve the
	// service (Err says why). The lane stays where it is.
	EventLaneHeld EventKind = "lane_held"
	// EventTrouble: a loop failed unexpectedly and starts again after a pause. Two kinds of
	// trouble pause nothing: the ledger's traits differ from the recorded ones (Err is
	// dltbatch.ErrOtherTraits), or the store warns (health.Health.Warnings).
	EventTrouble EventKind = "trouble"
)

// Event reports something that happened, after it was written. A field that does not apply to the
// event, or is not known, is zero.
type Event struct {
	Kind  EventKind `json:"kind"`
	Key   Key       `json:"key,omitzero"` // Key.ID is "" in events about a service or the whole
	State State     `json:"state,omitzero"`
	// By is the part that claimed the batch or found its outcome out, or ByOperator; 0 in other
	// events. From is the batch's state before; 0 where By is 0 or an operator.
	From    State `json:"from,omitzero"`
	By      Actor `json:"by,omitzero"`
	Attempt int   `json:"attempt,omitzero"`
	// Again, in EventClaimed, is true if the batch is sent again although the ledger has accepted
	// it before, or may have.
	Again bool `json:"again,omitzero"`
	// TakenOver is true if another instance made the attempt and wrote no outcome before its claim
	// expired, because it has died or hangs. Of each such attempt, one event has TakenOver.
	TakenOver bool `json:"taken_over,omitzero"`
	// Part is the part of the Runner that failed, with EventTrouble: "queuer", for example.
	Part string `json:"part,omitzero"`
	// Ledger is the name of the ledger, with EventPaused and EventResumed.
	Ledger string    `json:"ledger,omitzero"`
	At     time.Time `json:"at"` // time of the event on this process's clock
	// Instance names the Runner that reports the event (dltbatch.Options.Instance).
	Instance string `json:"instance,omitzero"`
	// Err is the batch's error after the event, or the cause of an event without a batch. In
	// EventState, EventFinal, EventInDoubt, EventDecision and EventQuarantined it is a
	// [*SubmissionError], whose Kind classifies the ledger's answer, or nil. In EventPaused it
	// wraps a SubmissionError, and the client's own error. In EventOrderBreach, EventVanished
	// and EventHalted it may say more than the batch's error. In JSON it is the text, as error.
	Err error `json:"-"`
	// Act is the operator's act, with EventOperated.
	Act Act `json:"act,omitzero"`
	// TraceParent is the trace context that was added with the batch ([Batch].TraceParent), in the
	// events of its claims and outcomes, and in EventOperated about a batch. In EventAdded the
	// Observer's context has it.
	TraceParent string `json:"trace_parent,omitzero"`

	// SinceAdded is the time from Add, on the database's clock: in EventClaimed to the claim, in
	// EventOperated to the final state that an operator gave the batch, in other events to the
	// write that they report. It is 0 in EventAdded, in EventVanished, in EventOperated about an
	// open batch, in events without a batch, and where the store does not say (store.Ref.Created).
	SinceAdded time.Duration `json:"since_added_ns,omitzero"`
	// SincePosted is the time from the end of the last POST that may have had an effect to the
	// write of its outcome, where a query or an event of the ledger found that out. It is on the
	// database's clock, or, where acceptance and outcome were one write, on this process's. It is
	// 0 in all other events.
	SincePosted time.Duration `json:"since_posted_ns,omitzero"`

	// QueryTook is the duration of the query, about this batch and perhaps others, that found the
	// outcome out, and SinceQuery the time from its answer to the event, both on this process's
	// clock. They are 0 where an event of the ledger, the answer to a POST or a person did.
	QueryTook  time.Duration `json:"query_took_ns,omitzero"`
	SinceQuery time.Duration `json:"since_query_ns,omitzero"`

	// SinceAnswered and all fields below it are about the POST whose answer caused the event, also
	// where the acceptance was written together with the outcome: then they are in the EventState
	// to Pending, not in the event of the outcome. In EventPaused only StatusCode, Code and
	// Endpoint are set.

	// SinceAnswered is the time from the answer to the POST to the event, on this process's clock:
	// the answer waited for its write.
	SinceAnswered time.Duration `json:"since_answered_ns,omitzero"`

	// Took is the POST's duration on this process's clock. Where the attempt made several POSTs,
	// it is the last one's.
	Took time.Duration `json:"took_ns,omitzero"`
	// InRequest is the number of batches in the POST. Of the events EventState, EventInDoubt and
	// EventFinal, one has InRequest above 0 for each attempt that was posted, unless its
	// outcome could not be written, or came too late.
	InRequest int `json:"in_request,omitzero"`
	// StatusCode is the HTTP status of a failure, and Code the ledger's own code. They are 0
	// where the batch was accepted.
	StatusCode int `json:"status_code,omitzero"`
	Code       int `json:"code,omitzero"`
	// Endpoint is the endpoint of a POST that failed, without credentials and query. It is ""
	// where the batch was accepted: clients name the endpoint of failures only.
	Endpoint string `json:"endpoint,omitzero"`
}

// LogValue implements [slog.LogValuer]. It has the fields that tell what happened, as far as they
// are set, under the names that the Runner's own log gives them. A time that only a metric needs
// is not among them.
func (e Event) LogValue() slog.Value {
	attrs := append(make([]slog.Attr, 0, 10), slog.String("kind", string(e.Kind)))
	text := func(name, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(name, value))
		}
	}
	number := func(name string, n int) {
		if n != 0 {
			attrs = append(attrs, slog.Int(name, n))
		}
	}
	text("ledger", e.Ledger)
	text("service", string(e.Key.Service))
	text("batch", string(e.Key.ID))
	number("attempt", e.Attempt)
	if e.State.Known() {
		text("state", e.State.String())
	}
	if e.Act.Action != "" {
		text("action", string(e.Act.Action))
		text("scope", e.Act.Scope.String())
		text("actor", e.Act.Actor)
		text("reason", Excerpt(e.Act.Reason, MaxErrorText))
	}
	number("status_code", e.StatusCode)
	number("code", e.Code)
	text("endpoint", e.Endpoint)
	if e.InRequest > 0 {
		attrs = append(attrs, slog.Duration("took", e.Took))
	}
	if e.Err != nil {
		attrs = append(attrs, slog.Any("error", e.Err))
	}
	return slog.GroupValue(attrs...)
}

// String returns the kind and the fields of LogValue in one line, such as
//
//	final service=alice batch=4711 attempt=1 state=committed
func (e Event) String() string {
	var b strings.Builder
	for i, a := range e.LogValue().Group() {
		value := Excerpt(a.Value.String(), MaxErrorText)
		if strings.ContainsFunc(value, func(r rune) bool { return !unicode.IsGraphic(r) || strings.ContainsRune(` "=`, r) }) {
			value = strconv.Quote(value)
		}
		if i > 0 {
			b.WriteString(" " + a.Key + "=")
		}
		b.WriteString(value)
	}
	return b.String()
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

// UnmarshalJSON reads the output of MarshalJSON. The error comes back as text only.
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

// Observer receives events, after the write. A panic in it is contained and logged. After a crash
// the store is the truth.
//
// As dltbatch.Options.Observer it receives every event synchronously: none is skipped while the
// process lives. Observe is then called from several goroutines at once, must be quick and must
// not call the Runner's blocking methods. As one of dltbatch.Options.Observers it is called later,
// for one event after the other, and may take its time: if it falls far behind, it misses events,
// and nobody waits for it.
//
// ctx has the values of the context of Add, or of the operator's call, for the events of that
// call. For all other events it has the values of Run's context, but not its end. So a trace or
// a tenant in the context reaches the Observer.
type Observer interface {
	Observe(ctx context.Context, e Event)
}

// ObserverFunc makes an [Observer] of a func.
type ObserverFunc func(ctx context.Context, e Event)

// Observe calls f.
func (f ObserverFunc) Observe(ctx context.Context, e Event) { f(ctx, e) }
