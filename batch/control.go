package batch

import (
	"fmt"
	"strings"
	"time"
)

// Scope is the range of a control: one service, or everything.
type Scope struct {
	All     bool      `json:"all"`     // whether the scope is everything; Service is "" then
	Service ServiceID `json:"service"` // the service, if not All; "" is a service like any other
}

// Everything returns the scope of all services, with services that will be added later.
func Everything() Scope { return Scope{All: true} }

// Only returns the scope of one service.
func Only(service ServiceID) Scope { return Scope{Service: service} }

// Validate reports whether controls of the scope can be stored. The error is an [*InputError].
func (s Scope) Validate() error {
	if s.All && s.Service != "" {
		return &InputError{Field: "Scope.Service", Value: Excerpt(string(s.Service), 64), Want: "none, since All is set"}
	}
	return CheckText("Scope.Service", string(s.Service), MaxServiceLen)
}

// String names the scope for people.
func (s Scope) String() string {
	if s.All {
		return "everything"
	}
	return fmt.Sprintf("service %q", Excerpt(string(s.Service), MaxServiceLen))
}

// Policy decides how a lane goes on when one of its batches ends Invalid or Rejected without
// an operator's act. The values are stored.
type Policy uint8

// The policies.
const (
	// PolicyDefault: the lane has no policy of its own; the policy of the Runner that records
	// the end counts.
	PolicyDefault Policy = iota
	// PolicyContinue: the lane goes on.
	PolicyContinue
	// PolicyHalt: nothing leaves the lane until an operator releases it. Batches in flight are
	// followed.
	PolicyHalt
	// PolicyQuarantine: the lane goes on, and the batch is set aside: it can be listed, and is
	// kept until an operator requeues or acquits it.
	PolicyQuarantine
)

// Known reports whether p is one of the policies above.
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

// Control holds back a lane, or everything, apart from its batches: by operators' acts and by
// a policy. Times are the database's.
type Control struct {
	Scope
	// PausedAt is when the scope was paused; zero if it is not paused. PausedBy is the person who
	// paused it.
	PausedAt time.Time `json:"paused_at,omitzero"`
	PausedBy By        `json:"paused_by,omitzero"`
	// Policy is the lane's own policy; always the default for everything.
	Policy Policy `json:"policy"`
	// HaltedAt is when the batch HaltedBy halted the lane, by [PolicyHalt] or because the
	// ledger executed this batch and took it back. It is zero where the lane is not halted.
	HaltedAt time.Time `json:"halted_at,omitzero"`
	HaltedBy ID        `json:"halted_by,omitzero"`
	// HaltReason gives the reason in words, at most [MaxErrorText] bytes. It is empty where
	// the policy alone is the reason.
	HaltReason string `json:"halt_reason,omitzero"`
	// Version grows with every change, halts included, at least to the present time in
	// microseconds. It stays when nothing is set any more. It is 0 where nothing was ever set.
	// An operator's Resume, SetPolicy or Release applies to the version that the operator saw.
	Version int64 `json:"version"`
}

// Closed reports whether the control lets nothing leave: paused or halted.
func (c Control) Closed() bool { return !c.PausedAt.IsZero() || !c.HaltedAt.IsZero() }

// InEffect reports whether the control has an effect: a pause, a halt or a policy.
func (c Control) InEffect() bool { return c.Closed() || c.Policy != PolicyDefault }

// String returns the scope and what holds it, such as "everything: paused".
func (c Control) String() string {
	var held []string
	if !c.PausedAt.IsZero() {
		held = append(held, "paused")
	}
	if !c.HaltedAt.IsZero() {
		held = append(held, "halted by "+string(c.HaltedBy))
	}
	if c.Policy != PolicyDefault {
		held = append(held, "policy "+c.Policy.String())
	}
	if held == nil {
		return c.Scope.String()
	}
	return c.Scope.String() + ": " + strings.Join(held, ", ")
}
