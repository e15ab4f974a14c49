package sqlstore

import (
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// ControlCols is a row of the table of controls.
type ControlCols struct {
	Everything   bool   `db:"everything"`
	Service      string `db:"service_id"`
	PausedAt     int64  `db:"paused_at"`
	PausedBy     string `db:"paused_by"`
	PausedReason string `db:"paused_reason"`
	Policy       int64  `db:"policy"`
	HaltedAt     int64  `db:"halted_at"`
	HaltedBy     string `db:"halted_by"`
	HaltReason   string `db:"halt_reason"`
	Version      int64  `db:"version"`
}

// Dest takes the columns, in their order.
func (c *ControlCols) Dest() []any {
	return []any{&c.Everything, &c.Service, &c.PausedAt, &c.PausedBy, &c.PausedReason, &c.Policy, &c.HaltedAt, &c.HaltedBy, &c.HaltReason, &c.Version}
}

// Control returns the control in the columns.
func (c *ControlCols) Control() batch.Control {
	reason := c.HaltReason
	if c.HaltedAt == 0 || c.HaltedAt > c.Version {
		// Code of schema version 1 has released the lane since, or halted it: it leaves both
		// columns as they are, while later code writes a version that is not before the halt.
		reason = ""
	}
	return batch.Control{
		Scope:    batch.Scope{All: c.Everything, Service: batch.ServiceID(c.Service)},
		PausedAt: FromMicro(c.PausedAt), PausedBy: batch.By{Actor: c.PausedBy, Reason: c.PausedReason},
		Policy:   batch.Policy(c.Policy),
		HaltedAt: FromMicro(c.HaltedAt), HaltedBy: batch.ID(c.HaltedBy), HaltReason: reason,
		// That code raises no version, but its pauses and halts have a time.
		Version: max(c.Version, c.PausedAt, c.HaltedAt),
	}
}

// ControlArgs are the values of a control in the order of the columns.
func ControlArgs(c batch.Control) []any {
	return []any{
		c.All, string(c.Service), ToMicro(c.PausedAt), c.PausedBy.Actor, c.PausedBy.Reason, int64(c.Policy),
		ToMicro(c.HaltedAt), string(c.HaltedBy), c.HaltReason, c.Version,
	}
}

// ControlOf returns the control of a scope among found; without one it returns a control with
// only its scope.
func ControlOf(found []ControlCols, scope batch.Scope) batch.Control {
	for i := range found {
		if found[i].Everything == scope.All && found[i].Service == string(scope.Service) {
			return found[i].Control()
		}
	}
	return batch.Control{Scope: scope}
}

// ActCols is an act as a table has it: columns that a table lacks stay zero.
type ActCols struct {
	Action string `db:"action"`
	Actor  string `db:"actor"`
	Reason string `db:"reason"`
	At     int64  `db:"at"`
	From   int64  `db:"from_state"`
	To     int64  `db:"to_state"`
	AtEnd  bool   `db:"at_end"`
	Batch  string `db:"batch"`
	Policy int64  `db:"policy"`
}

// BatchDest takes the columns of an act on a batch, in their order.
func (c *ActCols) BatchDest() []any {
	return []any{&c.Action, &c.Actor, &c.Reason, &c.At, &c.From, &c.To, &c.AtEnd}
}

// LaneDest takes the columns of an act on a lane, in their order.
func (c *ActCols) LaneDest() []any {
	return []any{&c.Action, &c.Actor, &c.Reason, &c.At, &c.Batch, &c.Policy}
}

// BatchActArgs are the values of an act on a batch in the order of the columns.
func BatchActArgs(a batch.Act) []any {
	return []any{string(a.Action), a.Actor, a.Reason, ToMicro(a.At), int64(a.From), int64(a.To), a.AtEnd}
}

// LaneActArgs are the values of an act on a lane in the order of the columns.
func LaneActArgs(a batch.Act) []any {
	return []any{string(a.Action), a.Actor, a.Reason, ToMicro(a.At), string(a.Batch), int64(a.Policy)}
}

// BatchActs returns the acts on a batch in the columns.
func BatchActs(found []ActCols, key batch.Key) []batch.Act {
	acts := acts(found, batch.Only(key.Service))
	for i := range acts {
		acts[i].Batch = key.ID
	}
	return acts
}

// LaneActs returns the acts on a lane in the columns.
func LaneActs(found []ActCols, scope batch.Scope) []batch.Act { return acts(found, scope) }

func acts(found []ActCols, scope batch.Scope) []batch.Act {
	acts := make([]batch.Act, len(found))
	for i, c := range found {
		acts[i] = batch.Act{
			By: batch.By{Actor: c.Actor, Reason: c.Reason}, Action: batch.Action(c.Action), At: FromMicro(c.At), Scope: scope,
			Batch: batch.ID(c.Batch), From: batch.State(c.From), To: batch.State(c.To), AtEnd: c.AtEnd,
			Policy: batch.Policy(c.Policy),
		}
	}
	return acts
}

// ReportCols is a row of the table of reports.
type ReportCols struct {
	Attempt    int64  `db:"attempt"`
	At         int64  `db:"at"`
	Kind       string `db:"kind"`
	StatusCode int64  `db:"status_code"`
	Code       int64  `db:"code"`
	Endpoint   string `db:"endpoint"`
	Took       int64  `db:"took"` // microseconds
	Text       string `db:"answer"`
	Instance   string `db:"instance"`
}

// Dest takes the columns, in their order.
func (c *ReportCols) Dest() []any {
	return []any{&c.Attempt, &c.At, &c.Kind, &c.StatusCode, &c.Code, &c.Endpoint, &c.Took, &c.Text, &c.Instance}
}

// ReportColsOf returns the columns of a report that fits.
func ReportColsOf(r batch.Report) ReportCols {
	return ReportCols{
		Attempt: int64(r.Attempt), At: ToMicro(r.At), Kind: string(r.Kind), StatusCode: int64(r.StatusCode), Code: int64(r.Code),
		Endpoint: r.Endpoint, Took: int64(r.Took / time.Microsecond), Text: r.Text, Instance: r.Instance,
	}
}

// Reports returns the reports in the columns.
func Reports(found []ReportCols) []batch.Report {
	reports := make([]batch.Report, len(found))
	for i, c := range found {
		reports[i] = batch.Report{
			Attempt: int(c.Attempt), At: FromMicro(c.At), Kind: batch.ErrorKind(c.Kind), StatusCode: int(c.StatusCode), Code: int(c.Code),
			Endpoint: c.Endpoint, Took: time.Duration(c.Took) * time.Microsecond, Text: c.Text, Instance: c.Instance,
		}
	}
	return reports
}

// How old positions of a list may be, given the newest: positions further back are removed.

// OldActs is the last position of acts that are not kept.
func OldActs(newest int64) int64 { return newest - batch.MaxActs }

// OldReports is the same for reports; the first, at position 1, is always kept.
func OldReports(newest int64) int64 { return newest - (batch.MaxReports - 1) }
