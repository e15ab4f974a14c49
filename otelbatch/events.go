package otelbatch

import (
	"context"
	"errors"

	"github.com/dltbatch/dltbatch/batch"
)

// event counts an event.
func (m *Metrics) event(ctx context.Context, e batch.Event) {
	switch e.Kind {
	case batch.EventClaimed:
		if e.Attempt == 1 {
			m.wait.record(ctx, e.SinceAdded.Seconds(), key{})
		}
		if e.Again {
			m.resends.add(ctx, 1, key{})
		}
	case batch.EventState, batch.EventInDoubt:
		m.outcome(ctx, e)
	case batch.EventFinal:
		m.outcome(ctx, e)
		m.final(ctx, e)
	case batch.EventOrderBreach:
		m.breaches.add(ctx, 1, key{})
		if e.State == batch.Committed { // no other event reports the outcome
			m.outcome(ctx, e)
			m.final(ctx, e)
		}
	case batch.EventDecision:
		m.decisions.add(ctx, 1, key{})
		m.takenOver(ctx, e)
	case batch.EventVanished:
		m.vanished.add(ctx, 1, key{})
	case batch.EventHalted:
		m.halts.add(ctx, 1, key{})
	case batch.EventQuarantined:
		m.quarantined.add(ctx, 1, key{})
	case batch.EventLaneHeld:
		m.held.add(ctx, 1, key{})
	case batch.EventPaused:
		m.pauses.add(ctx, 1, key{kind(e.Err)})
	case batch.EventTrouble:
		m.troubles.add(ctx, 1, key{e.Part})
	case batch.EventOperated:
		m.operated(ctx, e)
	}
}

// outcome counts an outcome that was written.
func (m *Metrics) outcome(ctx context.Context, e batch.Event) {
	if e.InRequest > 0 {
		result := key{accepted}
		if e.State != batch.Pending {
			result = key{kind(e.Err)}
		}
		m.attempts.add(ctx, 1, result)
		m.attempt.record(ctx, e.Took.Seconds(), result)
	}
	m.takenOver(ctx, e)
	switch {
	case e.Kind == batch.EventInDoubt && e.By == batch.BySubmitter:
		m.doubts.add(ctx, 1, key{})
	case e.By == batch.ByMonitor && e.From == batch.Submitting && e.State != batch.Submitting:
		m.resolved.add(ctx, 1, key{e.State.String(), e.By.String()})
	}
}

func (m *Metrics) takenOver(ctx context.Context, e batch.Event) {
	if e.TakenOver {
		m.takeovers.add(ctx, 1, key{})
	}
}

// final counts a batch that became final.
func (m *Metrics) final(ctx context.Context, e batch.Event) {
	state := key{e.State.String()}
	m.finals.add(ctx, 1, state)
	if e.SinceAdded > 0 {
		m.whole.record(ctx, e.SinceAdded.Seconds(), state)
	}
	if e.SincePosted > 0 {
		m.decided.record(ctx, e.SincePosted.Seconds(), state)
	}
}

// operated counts the final states and the ends of doubts that people decided.
func (m *Metrics) operated(ctx context.Context, e batch.Event) {
	if e.Act.Action == batch.ActionDecide {
		m.resolved.add(ctx, 1, key{e.State.String(), e.By.String()})
	}
	switch {
	case e.Act.Action != batch.ActionDecide && e.Act.Action != batch.ActionCancel:
	case e.State == batch.Committed, e.State == batch.Rejected:
		m.final(ctx, e)
	}
}

// kind returns the kind of a ledger's answer; other where it has none.
func kind(err error) string {
	if e, ok := errors.AsType[*batch.SubmissionError](err); ok && e != nil {
		return string(e.Kind)
	}
	return other
}
