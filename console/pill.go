package console

import (
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/store"
)

// mark is a state as people see it: a word, with an icon and a tone. The tone adds nothing that
// the word does not say.
type mark struct{ Tone, Icon, Word string }

// Tones of marks and of notes. Each is a class of the style sheet.
const (
	toneOK   = "ok"   // done, or all well
	toneRun  = "run"  // under way
	toneWait = "wait" // waits
	toneWarn = "warn" // not known, or held by a person
	toneBad  = "bad"  // failed, or does not move
)

// markOf returns the mark of a state of a batch, an order, a bulk action, an instance or a lane.
func markOf(of any) mark {
	word := fmt.Sprint(of)
	m := mark{toneWait, "clock", word}
	switch s := of.(type) {
	case mark:
		return s
	case batch.State:
		m.Tone, m.Icon = batchTone(s)
	case order.State:
		switch s {
		case order.Dequeued:
			m.Tone, m.Icon = toneRun, "send"
		case order.Confirmed:
			m.Tone, m.Icon = toneOK, "ok"
		case order.Failed:
			m.Tone, m.Icon = toneBad, "bad"
		case order.Quarantined:
			m = mark{toneBad, "bad", word + ": refused alone"}
		}
	case operator.BulkState:
		switch s {
		case operator.BulkOpen:
			m.Tone, m.Icon = toneRun, "send"
		case operator.BulkCancelled:
			m.Icon = "bad"
		default:
			m.Tone, m.Icon = toneOK, "ok"
		}
	case store.Instance:
		switch {
		case !s.Live:
			return mark{toneBad, "down", "gone"}
		case s.Paused:
			return mark{toneBad, "pause", "posts nothing"}
		case len(s.Pauses) > 0:
			return mark{toneWarn, "pause", "posts in part"}
		case len(s.Unserved) > 0:
			return mark{toneWarn, "warn", "holds lanes"}
		}
		return mark{toneOK, "ok", "live"}
	}
	return m
}

func batchTone(s batch.State) (tone, icon string) {
	switch s {
	case batch.Submitting:
		return toneRun, "send"
	case batch.Pending, batch.Valid:
		return toneRun, "ledger"
	case batch.Unknown:
		return toneWarn, "doubt"
	case batch.Committed:
		return toneOK, "ok"
	case batch.Invalid, batch.Rejected:
		return toneBad, "bad"
	}
	return toneWait, "clock"
}

// heldMarks returns the marks for a lane's pause, halt and policy; none if the lane has none.
func heldMarks(c batch.Control) (marks []mark) {
	if !c.PausedAt.IsZero() {
		marks = append(marks, mark{toneWarn, "pause", "paused"})
	}
	if !c.HaltedAt.IsZero() {
		marks = append(marks, mark{toneBad, "halt", "halted"})
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
