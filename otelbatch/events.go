package otelbatch

import (
	"context"
	"errors"

	"github.com/dltbatch/dltbatch/batch"
)

// noContext is the context of the Runner's own work. A meter looks in a context for a span, to
// record it with the value as an exemplar. Here that would be a span around Run, which is of no
// use, and each look costs an allocation.
var noContext = context.Background()

// countEvent counts an event.
func (m *Metrics) countEvent(e batch.Event) {
	switch e.Kind {
	case batch.EventClaimed:
		if e.Attempt == 1 {
			m.waitTime.record(noContext, e.SinceAdded.Seconds(), labelValues{})
		}
		if e.Again {
			m.resends.add(1, labelValues{})
		}
	case batch.EventState, batch.EventInDoubt:
		m.countOutcome(e)
	case batch.EventFinal:
		m.countOutcome(e)
		m.countFinal(e)
	case batch.EventOrderBreach:
		m.breaches.add(1, labelValues{})
		if e.State == batch.Committed { // the outcome is in no other event
			m.countOutcome(e)
			m.countFinal(e)
		}
	case batch.EventDecision:
		m.decisions.add(1, labelValues{})
		m.countOutcome(e)
	case batch.EventVanished:
		m.vanished.add(1, labelValues{})
	case batch.EventHalted:
		m.halts.add(1, labelValues{})
	case batch.EventQuarantined:
		m.quarantined.add(1, labelValues{})
	case batch.EventLaneHeld:
		m.held.add(1, labelValues{})
	case batch.EventPaused:
		m.pauses.add(1, labelValues{kindOfReason(e.Err)})
	case batch.EventTrouble:
		m.troubles.add(1, labelValues{e.Part})
	case batch.EventOperated:
		m.countOperated(e)
	}
}

// countOutcome counts an outcome that was written.
func (m *Metrics) countOutcome(e batch.Event) {
	if e.InRequest > 0 {
		result := labelValues{resultAccepted}
		if e.State != batch.Pending {
			result = labelValues{kindOfReason(e.Err)}
		}
		m.attempts.add(1, result)
		m.attemptTime.record(noContext, e.Took.Seconds(), result)
	}
	m.countTakeover(e)
	switch {
	case e.Kind == batch.EventInDoubt && e.By == batch.BySubmitter:
		m.doubts.add(1, labelValues{})
	case e.By == batch.ByMonitor && e.From == batch.Submitting && e.State != batch.Submitting:
		m.resolvedDoubts.add(1, labelValues{e.State.String(), e.By.String()})
	}
}

func (m *Metrics) countTakeover(e batch.Event) {
	if e.TakenOver {
		m.takeovers.add(1, labelValues{})
	}
}

// countFinal counts a batch that became final.
func (m *Metrics) countFinal(e batch.Event) {
	state := labelValues{e.State.String()}
	m.finals.add(1, state)
	if e.SinceAdded > 0 {
		m.batchTime.record(noContext, e.SinceAdded.Seconds(), state)
	}
	if e.SincePosted > 0 {
		m.outcomeTime.record(noContext, e.SincePosted.Seconds(), state)
	}
}

// countOperated counts the final states and the ends of doubts that operators decided.
func (m *Metrics) countOperated(e batch.Event) {
	if e.Act.Action == batch.ActionDecide {
		m.resolvedDoubts.add(1, labelValues{e.State.String(), e.By.String()})
	}
	if isFinalAct(e) {
		m.countFinal(e)
	}
}

// isFinalAct reports whether an operator's act made the batch final.
func isFinalAct(e batch.Event) bool {
	return (e.Act.Action == batch.ActionDecide || e.Act.Action == batch.ActionCancel) && (e.State == batch.Committed || e.State == batch.Rejected)
}

// kindOfReason returns the kind of a ledger's answer, or otherValue if it has none.
func kindOfReason(err error) string {
	if e, ok := errors.AsType[*batch.SubmissionError](err); ok && e != nil {
		return string(e.Kind)
	}
	return otherValue
}
