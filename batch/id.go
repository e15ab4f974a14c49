package batch

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The longest accepted names, in bytes. Real batch ids have 128.
const (
	MaxIDLen      = 256
	MaxServiceLen = 256
)

// ID names a batch on its ledger: on Sawtooth and Splinter the header signature, 128
// lower-case hex digits; elsewhere the caller's own id. An ID is unique in a store, across
// services.
type ID string

// ServiceID is the partition within which order is kept. On Splinter it is "circuit::service";
// on Sawtooth "" or any name the application chooses; on Canton the party.
type ServiceID string

// Key names a batch in a store.
type Key struct {
	Service ServiceID `json:"service"`
	ID      ID        `json:"id"`
}

// String returns "service/id", or the id alone where the service is "".
func (k Key) String() string {
	if k.Service == "" {
		return string(k.ID)
	}
	return string(k.Service) + "/" + string(k.ID)
}

// Validate reports whether the key can be stored. The error is an [*InputError].
func (k Key) Validate() error {
	if k.ID == "" {
		return &InputError{Field: "ID", Want: `an id, not ""`}
	}
	if err := CheckText("ID", string(k.ID), MaxIDLen); err != nil {
		return err
	}
	return CheckText("Service", string(k.Service), MaxServiceLen)
}

// CheckText returns an error for text with bytes that databases and logs treat differently:
// invalid UTF-8, NUL and other control characters.
func CheckText(field, s string, maxLen int) error {
	switch {
	case len(s) > maxLen:
		return &InputError{Field: field, Value: Excerpt(s, 64), Want: "at most " + numberText(maxLen) + " bytes, has " + numberText(len(s))}
	case !utf8.ValidString(s):
		return &InputError{Field: field, Value: Excerpt(s, 64), Want: "valid UTF-8"}
	case strings.IndexFunc(s, unicode.IsControl) >= 0:
		return &InputError{Field: field, Value: Excerpt(s, 64), Want: "no control characters"}
	}
	return nil
}
