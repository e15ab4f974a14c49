package batch

import (
	"errors"
	"fmt"
)

// Errors about what the caller handed in. Nothing was stored.
var (
	// ErrInvalidInput is wrapped by every [*InputError]. Correct the field it names.
	ErrInvalidInput = errors.New("dltbatch: invalid input")
	// ErrConflict means that the id (or the idempotency key) is known with other
	// bytes. The same id with the same bytes is no error.
	ErrConflict = errors.New("dltbatch: the id is known with other content")
)

// Errors about a batch that is stored.
var (
	// ErrNotFound means that no batch of this key is stored: it was never added,
	// its transaction was rolled back, or retention removed it.
	ErrNotFound = errors.New("dltbatch: no such batch")
	// ErrInDoubt means that an attempt may still take effect, so that the batch
	// can be neither cancelled nor given up. Ask again later, or decide it.
	ErrInDoubt = errors.New("dltbatch: an attempt is in doubt")
	// ErrNotAllowed means that the state table has no such move from where the
	// batch is now.
	ErrNotAllowed = errors.New("dltbatch: move not allowed")
	// ErrMovedOn is wrapped by every [*MovedOnError]. Look at what is there now, and
	// decide about that.
	ErrMovedOn = errors.New("dltbatch: moved on since it was seen")
)

// MovedOnError means that a batch, or a control, is not as the operator saw it any more:
// its version is another. Nothing was done. It wraps [ErrMovedOn].
type MovedOnError struct {
	// Seen is the version that the operator saw.
	Seen int64 `json:"seen"`
	// Now is the batch as it is now; the zero Record where it is a control that moved on.
	Now Record `json:"now,omitzero"`
	// Control is the control as it is now; the zero Control where it is a batch that
	// moved on.
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

// InputError says which field of the caller's input is wrong, what it held and
// what was expected. It wraps [ErrInvalidInput], and Err where there is a cause.
type InputError struct {
	Key   Key    // of the batch at fault, where it is known
	Field string // as the struct or the document names it
	Value string // bounded excerpt; never a payload or a secret
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
		s += " (batch " + Excerpt(e.Key.String(), 80) + ")"
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
