package otelbatch

import (
	"context"
	"errors"

	"github.com/dltbatch/dltbatch/batch"
)

// nowhere is the context of what the Runner does by itself. A meter looks in a context for a span,
// to name it as an example. Here that would be a span around Run: it says nothing, and each read
// costs an allocation.
var nowhere = context.Background()

// event counts an event.
func (m *Metrics) event(e batch.Event) {
	switch e.Kind {
	case batch.EventClaimed:
		if e.Attempt == 1 {
			m.wait.record(nowhere, e.SinceAdded.Seconds(), key{})
		}
		if e.Again {
			m.resends.add(1, key{})
		}
	case batch.EventState, batch.EventInDoubt:
		m.outcome(e)
	case batch.EventFinal:
		m.outcome(e)
		m.final(e)
	case batch.EventOrderBreach:
		m.breaches.add(1, key{})
		if e.State == batch.Committed { // no other event reports the outcome
			m.outcome(e)
			m.final(e)
		}
	case batch.EventDecision:
		m.decisions.add(1, key{})
		m.outcome(e)
	case batch.EventVanished:
		m.vanished.add(1, key{})
	case batch.EventHalted:
		m.halts.add(1, key{})
	case batch.EventQuarantined:
		m.quarantined.add(1, key{})
	case batch.EventLaneHeld:
		m.held.add(1, key{})
	case batch.EventPaused:
		m.pauses.add(1, key{kind(e.Err)})
	case batch.EventTrouble:
		m.troubles.add(1, key{e.Part})
	case batch.EventOperated:
		m.operated(e)
	}
}

// outcome counts an outcome that was written.
func (m *Metrics) outcome(e batch.Event) {
	if e.InRequest > 0 {
		result := key{accepted}
		if e.State != batch.Pending {
			result = key{kind(e.Err)}
		}
		m.attempts.add(1, result)
		m.attempt.record(nowhere, e.Took.Seconds(), result)
	}
	m.takenOver(e)
	switch {
	case e.Kind == batch.EventInDoubt && e.By == batch.BySubmitter:
		m.doubts.add(1, key{})
	case e.By == batch.ByMonitor && e.From == batch.Submitting && e.State != batch.Submitting:
		m.resolved.add(1, key{e.State.String(), e.By.String()})
	}
}

func (m *Metrics) takenOver(e batch.Event) {
	if e.TakenOver {
		m.takeovers.add(1, key{})
	}
}

// final counts a batch that became final.
func (m *Metrics) final(e batch.Event) {
	state := key{e.State.String()}
	m.finals.add(1, state)
	if e.SinceAdded > 0 {
		m.whole.record(nowhere, e.SinceAdded.Seconds(), state)
	}
	if e.SincePosted > 0 {
		m.decided.record(nowhere, e.SincePosted.Seconds(), state)
	}
}

// operated counts the final states and the ends of doubts that people decided.
func (m *Metrics) operated(e batch.Event) {
	if e.Act.Action == batch.ActionDecide {
		m.resolved.add(1, key{e.State.String(), e.By.String()})
	}
	if finalAct(e) {
		m.final(e)
	}
}

// finalAct reports whether an operator's act made the batch final.
func finalAct(e batch.Event) bool {
	return (e.Act.Action == batch.ActionDecide || e.Act.Action == batch.ActionCancel) && (e.State == batch.Committed || e.State == batch.Rejected)
}

// kind returns the kind of a ledger's answer; other where it has none.
func kind(err error) string {
	if e, ok := errors.AsType[*batch.SubmissionError](err); ok && e != nil {
		return string(e.Kind)
	}
	return other
}
