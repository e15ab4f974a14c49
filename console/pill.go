package console

import (
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/store"
)

// stateMark is a state as people see it: a word, with an icon and a tone. The tone adds nothing
// that the word does not say.
type stateMark struct{ Tone, Icon, Word string }

// Tones of marks and of notes. Each is a class of the style sheet.
const (
	toneOK      = "ok"   // done, or all well
	toneRunning = "run"  // under way
	toneWaiting = "wait" // waits
	toneWarning = "warn" // not known, held by a person, or delayed
	toneBad     = "bad"  // failed, or does not move
)

// stateMarkOf returns the mark of a state of a batch, an order, a bulk action, an instance or a
// lane.
func stateMarkOf(of any) stateMark {
	word := fmt.Sprint(of)
	m := stateMark{toneWaiting, "clock", word}
	switch s := of.(type) {
	case stateMark:
		return s
	case batch.State:
		m.Tone, m.Icon = batchTone(s)
	case order.State:
		switch s {
		case order.Dequeued:
			m.Tone, m.Icon = toneRunning, "send"
		case order.Confirmed:
			m.Tone, m.Icon = toneOK, "ok"
		case order.Failed:
			m.Tone, m.Icon = toneBad, "bad"
		case order.Quarantined:
			m = stateMark{toneBad, "bad", word + ": refused alone"}
		}
	case operator.BulkState:
		switch s {
		case operator.BulkOpen:
			m.Tone, m.Icon = toneRunning, "send"
		case operator.BulkCancelled:
			m.Icon = "bad"
		default:
			m.Tone, m.Icon = toneOK, "ok"
		}
	case store.Instance:
		switch {
		case !s.Live:
			return stateMark{toneBad, "down", "gone"}
		case s.Paused:
			return stateMark{toneBad, "pause", "posts nothing"}
		case len(s.Pauses) > 0:
			return stateMark{toneWarning, "pause", "posts in part"}
		case len(s.Unserved) > 0:
			return stateMark{toneWarning, "warn", "holds lanes"}
		}
		return stateMark{toneOK, "ok", "live"}
	}
	return m
}

func batchTone(s batch.State) (tone, icon string) {
	switch s {
	case batch.Submitting:
		return toneRunning, "send"
	case batch.Pending, batch.Valid:
		return toneRunning, "ledger"
	case batch.Unknown:
		return toneWarning, "doubt"
	case batch.Committed:
		return toneOK, "ok"
	case batch.Invalid, batch.Rejected:
		return toneBad, "bad"
	}
	return toneWaiting, "clock"
}

// heldMarks returns the marks for a lane's pause, halt and policy; none if the lane has none.
func heldMarks(c batch.Control) (marks []stateMark) {
	if !c.PausedAt.IsZero() {
		marks = append(marks, stateMark{toneWarning, "pause", "paused"})
	}
	if !c.HaltedAt.IsZero() {
		marks = append(marks, stateMark{toneBad, "halt", "halted"})
	}
	return marks
}

// incidentIcon returns the icon of an incident on the first page.
func incidentIcon(k operator.IncidentKind) string {
	switch k {
	case operator.IncidentNoInstance, operator.IncidentLedgerRefuses, operator.IncidentLedgerDown, operator.IncidentGone:
		return "down"
	case operator.IncidentLedgerBusy:
		return "clock"
	case operator.IncidentPaused:
		return "pause"
	case operator.IncidentHalted:
		return "halt"
	case operator.IncidentDecision:
		return "person"
	case operator.IncidentDisagree, operator.IncidentNotRecorded:
		return "doubt"
	}
	return "warn"
}
