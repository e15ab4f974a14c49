package order

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dltbatch/dltbatch/batch"
)

// State is the state of an order. The values are stored: they never change their meaning.
type State uint8

// The states. docs/glossary.md#auto-batch has the first two; the others are outcomes.
const (
	// Queued waits until its party is idle.
	Queued State = iota + 1
	// Dequeued is part of a batch whose outcome is open.
	Dequeued
	// Confirmed is final: its batch was committed.
	Confirmed
	// Failed is final: its deadline passed before it was part of a batch ([KindExpired]),
	// or a person ended its batch.
	Failed
	// Quarantined is final: the ledger refused it alone, or the [Builder] can make no
	// batch of it. The Engine never infers that an order is at fault.
	Quarantined
)

var stateNames = [...]string{
	Queued: "queued", Dequeued: "dequeued", Confirmed: "confirmed", Failed: "failed", Quarantined: "quarantined",
}

// String returns the state's name in lower case.
func (s State) String() string {
	if s < Queued || s > Quarantined {
		return fmt.Sprintf("order state(%d)", uint8(s))
	}
	return stateNames[s]
}

// Final reports whether nothing changes an order in this state any more.
func (s State) Final() bool { return s >= Confirmed && s <= Quarantined }

// MarshalText returns the state's name in lower case; nothing for the zero value, which is
// no state. The error is a [*batch.InputError].
func (s State) MarshalText() ([]byte, error) {
	if int(s) >= len(stateNames) {
		return nil, noState(s.String())
	}
	return []byte(stateNames[s]), nil
}

// UnmarshalText reads the output of MarshalText. The error is a [*batch.InputError].
func (s *State) UnmarshalText(word []byte) error {
	i := slices.Index(stateNames[:], string(word))
	if i < 0 {
		return noState(string(word))
	}
	*s = State(i)
	return nil
}

func noState(word string) error {
	return &batch.InputError{Field: "OrderState", Value: batch.Excerpt(word, 64), Want: "one of " + strings.Join(stateNames[Queued:], ", ")}
}

// KindExpired is the error of an order that Failed because no batch took it before its
// deadline.
const KindExpired batch.ErrorKind = "expired"
