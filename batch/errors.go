package batch

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Errors about the caller's input. Nothing was stored.
var (
	// ErrInvalidInput is wrapped by every [*InputError]. Correct the field it names.
	ErrInvalidInput = errors.New("dltbatch: invalid input")
	// ErrConflict means that the id (or the idempotency key) is known with other bytes. The
	// same id with the same bytes is not an error.
	ErrConflict = errors.New("dltbatch: the id is known with other content")
	// ErrEnded is wrapped by every [*EndedError]. Only a new id sends the batch again.
	ErrEnded = errors.New("dltbatch: the batch was added before, and has ended")
)

// Errors about a batch that is stored.
var (
	// ErrNotFound means that no batch with this key is stored: it was never added, its
	// transaction was rolled back, or retention removed it and kept nothing of it.
	ErrNotFound = errors.New("dltbatch: no such batch")
	// ErrInDoubt means that an attempt may still take effect, so that the batch can be neither
	// cancelled nor given up. Ask again later, or use Decide.
	ErrInDoubt = errors.New("dltbatch: an attempt is in doubt")
	// ErrNotAllowed means that the state table has no such move from the batch's present
	// state.
	ErrNotAllowed = errors.New("dltbatch: move not allowed")
	// ErrMovedOn is wrapped by every [*MovedOnError]. Look at the present state, and decide
	// about that.
	ErrMovedOn = errors.New("dltbatch: moved on since it was seen")
	// ErrForgotten comes with an [EventTrouble]: a claim shows that the database has forgotten
	// something that this process knows of the batch, as after an asynchronous failover or the
	// restore of a backup. The batch is not posted: it is in doubt, and the ledger is asked.
	ErrForgotten = errors.New("dltbatch: the database has forgotten an attempt")
)

// EndedError means that an added batch was added before, under this id or this DataChangeID, and
// that retention removed it after it had ended as Rejected or Invalid. Nothing of the call was
// stored. An application that still wants the effect adds a batch under a new id: that is a
// decision, because a person may have cancelled the first one. It wraps [ErrEnded].
type EndedError struct {
	// Record is the part of the removed batch's record that its tombstone keeps.
	Record Record `json:"record"`
}

// Error implements error.
func (e *EndedError) Error() string {
	s := ErrEnded.Error() + ": batch " + Excerpt(e.Record.Key.String(), 80) + " ended as " + e.Record.State.String()
	if e.Record.Error != nil {
		s += " (" + string(e.Record.Error.Kind) + ")"
	}
	return s + "; to send it all the same, use a new id"
}

// Unwrap returns [ErrEnded].
func (e *EndedError) Unwrap() error { return ErrEnded }

// MovedOnError means that a batch, or a control, has changed since the operator saw it: it has
// another version. Nothing was done. It wraps [ErrMovedOn].
type MovedOnError struct {
	// Seen is the version that the operator saw.
	Seen int64 `json:"seen"`
	// Now is the present batch; the zero Record where a control moved on.
	Now Record `json:"now,omitzero"`
	// Control is the present control; the zero Control where a batch moved on.
	Control Control `json:"control,omitzero"`
}

// Error implements error.
func (e *MovedOnError) Error() string {
	if e.Now.ID == "" {
		return fmt.Sprintf("%s: the control of %s is at version %d, seen was version %d",
			ErrMovedOn, e.Control.Scope, e.Control.Version, e.Seen)
	}
	if e.Now.Version == e.Seen {
		return fmt.Sprintf("%s: batch %s was removed and added again", ErrMovedOn, Excerpt(e.Now.Key.String(), 80))
	}
	return fmt.Sprintf("%s: batch %s is %s at version %d, seen was version %d",
		ErrMovedOn, Excerpt(e.Now.Key.String(), 80), e.Now.State, e.Now.Version, e.Seen)
}

// Unwrap returns [ErrMovedOn].
func (e *MovedOnError) Unwrap() error { return ErrMovedOn }

// InputError names the field of the caller's input that is wrong, its value and the expected
// value. It wraps [ErrInvalidInput], and Err where there is a cause.
type InputError struct {
	Key   Key    // key of the batch with the error, if known
	Field string // name of the field in the struct or the document
	Value string // bounded excerpt of the value; never a payload or a secret
	Want  string
	Err   error
}

// Error implements error.
func (e *InputError) Error() string {
	s := "dltbatch: invalid " + e.Field
	if e.Value != "" {
		s += fmt.Sprintf(" %q", e.Value)
	}
	s += ": want " + e.Want
	if e.Key.ID != "" {
		key := Excerpt(e.Key.String(), 80)
		if strings.ContainsAny(key, "\n\t") { // a bad key must not break the log line
			key = strconv.Quote(key)
		}
		s += " (batch " + key + ")"
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns [ErrInvalidInput] and the cause.
func (e *InputError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrInvalidInput}
	}
	return []error{ErrInvalidInput, e.Err}
}
