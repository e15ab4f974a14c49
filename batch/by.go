package batch

import "time"

// MaxActorLen is the longest name of an actor, in bytes.
const MaxActorLen = 256

// By names the person or tool that changed stored data, and the reason. It is kept in the
// history.
type By struct {
	// Actor is a person or a tool: printable text of 1 to [MaxActorLen] bytes.
	Actor string `json:"actor"`
	// Reason may be empty. The first [MaxErrorText] bytes are kept, made printable: no
	// character makes a reason invalid, because people may be in a hurry.
	Reason string `json:"reason,omitzero"`
}

// Validate reports whether an actor is named. The error is an [*InputError].
func (b By) Validate() error {
	if b.Actor == "" {
		return &InputError{Field: "By.Actor", Want: "not empty: who does it"}
	}
	return CheckText("By.Actor", b.Actor, MaxActorLen)
}

// Action is the act of an operator. The values are stored.
type Action string

// The actions upon a batch.
const (
	ActionCancel  Action = "cancel"
	ActionRequeue Action = "requeue"
	ActionDecide  Action = "decide"
	// ActionAcquit ends a batch's quarantine and leaves it final as it is.
	ActionAcquit Action = "acquit"
	// ActionWithdraw asks the ledger to keep a batch from taking effect.
	ActionWithdraw Action = "withdraw"
)

// The actions upon a lane; the first two upon everything, too.
const (
	ActionPause     Action = "pause"
	ActionResume    Action = "resume"
	ActionSetPolicy Action = "set_policy"
	// ActionRelease ends a lane's halt.
	ActionRelease Action = "release"
)

// MaxActs is how many acts are kept for each batch and for each [Scope]: the newest.
const MaxActs = 100

// Act is one entry of the history: an operator's act, and the change. An act that changed
// nothing has no entry.
type Act struct {
	By
	Action Action    `json:"action"`
	At     time.Time `json:"at"` // the database's clock
	// Scope is the service or everything; for an act upon a batch, its service.
	Scope Scope `json:"scope"`
	// Batch is the batch of the act. With ActionRelease it is the batch that had halted the
	// lane. Else "".
	Batch ID `json:"batch,omitzero"`
	// From and To are the states of the batch before and after; 0 in acts upon lanes.
	From   State  `json:"from,omitzero"`
	To     State  `json:"to,omitzero"`
	Policy Policy `json:"policy,omitzero"` // ActionSetPolicy: the new one
}
