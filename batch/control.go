package batch

import (
	"fmt"
	"time"
)

// Scope is what a control is about: one service, or everything.
type Scope struct {
	All     bool      `json:"all"`     // everything; then Service is ""
	Service ServiceID `json:"service"` // "" is a service like any other
}

// Everything is the scope of all services, those to come included.
func Everything() Scope { return Scope{All: true} }

// Only is the scope of one service.
func Only(service ServiceID) Scope { return Scope{Service: service} }

// Validate reports whether controls of the scope can be stored. The error is an [*InputError].
func (s Scope) Validate() error {
	if s.All && s.Service != "" {
		return &InputError{Field: "Scope.Service", Value: Excerpt(string(s.Service), 64), Want: "none, since All is set"}
	}
	return checkText("Scope.Service", string(s.Service), MaxServiceLen)
}

// String names the scope for people.
func (s Scope) String() string {
	if s.All {
		return "everything"
	}
	return fmt.Sprintf("service %q", Excerpt(string(s.Service), MaxServiceLen))
}

// Policy is what becomes of a lane when one of its batches ends Invalid or Rejected,
// and no operator made it so. The values are stored.
type Policy uint8

// The policies.
const (
	// PolicyDefault: nothing is said; the policy of the Runner that records the end counts.
	PolicyDefault Policy = iota
	// PolicyContinue: the lane goes on.
	PolicyContinue
	// PolicyHalt: nothing leaves the lane until it is released. What is on its way is followed.
	PolicyHalt
	// PolicyQuarantine: the lane goes on, and the batch is set aside: it can be listed,
	// and is kept until somebody requeues or acquits it.
	PolicyQuarantine
)

// Known reports whether p is one of the four.
func (p Policy) Known() bool { return p <= PolicyQuarantine }

var policyNames = [...]string{
	PolicyDefault: "default", PolicyContinue: "continue", PolicyHalt: "halt", PolicyQuarantine: "quarantine",
}

// String returns the policy in lower case.
func (p Policy) String() string {
	if !p.Known() {
		return fmt.Sprintf("policy(%d)", uint8(p))
	}
	return policyNames[p]
}

// Control is what holds a lane, or everything, beside its batches: what operators
// said, and what a policy did. Times are the database's.
type Control struct {
	Scope
	// PausedAt is zero where nobody paused it; PausedBy is who did.
	PausedAt time.Time `json:"paused_at,omitzero"`
	PausedBy By        `json:"paused_by,omitzero"`
	// Policy is that which was set for the lane; of everything always the default.
	Policy Policy `json:"policy"`
	// HaltedAt is when the batch HaltedBy halted the lane, by [PolicyHalt] or because the
	// ledger took back what it had executed of it; zero where it is not halted.
	HaltedAt time.Time `json:"halted_at,omitzero"`
	HaltedBy ID        `json:"halted_by,omitzero"`
	// HaltReason says why in words, at most [MaxErrorText] bytes; empty where the policy
	// alone is the reason.
	HaltReason string `json:"halt_reason,omitzero"`
	// Version is raised by every change, also by a halt, to the time in microseconds at
	// least, and stays when the control says nothing any more. It is 0 where nothing was ever
	// set. What an operator ends or sets is that of the version that the operator saw.
	Version int64 `json:"version"`
}

// Closed reports whether nothing may leave by this control: paused or halted.
func (c Control) Closed() bool { return !c.PausedAt.IsZero() || !c.HaltedAt.IsZero() }

// Set reports whether there is anything to be known of the control.
func (c Control) Set() bool { return c.Closed() || c.Policy != PolicyDefault }
