package sawtoothtest

import (
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
)

// IntKey is the family that a node executes by default: named numbers, in the encodings of
// Sawtooth's example family of the same name, so that a transaction for one is a transaction for
// the other. A payload is a CBOR map of Verb ("set", "inc" or "dec"), Name (at most 20 characters)
// and Value (0 to 4294967295). A state entry is a CBOR map of the name to its value.
//
// A transaction, and so its batch, is INVALID in these cases: an inc or dec of a name that was
// never set, a dec below zero, an inc beyond 4294967295, an unreadable payload, and an access
// outside its inputs and outputs. One rule is missing, so that a test can set a name as often as
// it wants: the real family refuses to set a name that is set already.
var IntKey = Family{Name: "intkey", Version: "1.0"}

// Bounds of the family.
const (
	maxNameBytes = 20 // characters
	maxValue     = math.MaxUint32
)

// Set returns the payload that sets the number of a name to value, and the address to declare as
// output.
func Set(name string, value int64) (payload []byte, address string) {
	return encodeOperation("set", name, value)
}

// Inc returns the payload that adds by to the number of a name, and the address to declare as
// input and output.
func Inc(name string, by int64) (payload []byte, address string) {
	return encodeOperation("inc", name, by)
}

// Dec returns the payload that subtracts by from the number of a name, and the address to declare
// as input and output.
func Dec(name string, by int64) (payload []byte, address string) {
	return encodeOperation("dec", name, by)
}

// Address returns the address of a name's state: 70 hex digits.
func Address(name string) string {
	family := sha512.Sum512([]byte(IntKey.Name))
	sum := sha512.Sum512([]byte(name))
	return hex.EncodeToString(family[:3]) + hex.EncodeToString(sum[32:])
}

// encodeOperation returns a payload whose keys are in the order that the family's clients use.
func encodeOperation(verb, name string, n int64) ([]byte, string) {
	p := appendCBORString(appendCBORString(appendCBORHead(nil, cborMap, 3), "Verb"), verb)
	p = appendCBORString(appendCBORString(p, "Name"), name)
	p = appendCBORString(p, "Value")
	if n < 0 { // a negative number has its own major type, which the node refuses
		return appendCBORHead(p, cborNumber+1, uint64(-1-n)), Address(name)
	}
	return appendCBORHead(p, cborNumber, uint64(n)), Address(name)
}

// encodeEntry returns the state entry of a name.
func encodeEntry(name string, value int64) string {
	return string(appendCBORHead(appendCBORString(appendCBORHead(nil, cborMap, 1), name), cborNumber, uint64(value)))
}

// decodeEntry reads the state entry of a name.
func decodeEntry(entry, name string) (value int64, ok bool) {
	read, err := readCBORMap([]byte(entry))
	n, is := read[name].(uint64)
	return int64(n), err == nil && is && n <= maxValue
}

// processorError is a transaction processor's error about an invalid transaction.
type processorError struct {
	message string
	data    []byte
}

func (r *processorError) Error() string { return r.message }

func newProcessorError(data, format string, args ...any) error {
	return &processorError{message: fmt.Sprintf(format, args...), data: []byte(data)}
}

// stateAccess is the state as a transaction may read and write it. A missing value is "".
type stateAccess interface {
	get(address string) (string, error)
	set(address, value string) error
}

// applyPayload executes one payload, and returns its change.
func applyPayload(payload []byte, s stateAccess) (Change, error) {
	read, err := readCBORMap(payload)
	if err != nil {
		return Change{}, newProcessorError("", "Invalid payload serialization")
	}
	verb, _ := read["Verb"].(string)
	if verb != "set" && verb != "inc" && verb != "dec" {
		return Change{}, newProcessorError(verb, `Verb is %v: it must be "set", "inc" or "dec"`, read["Verb"])
	}
	name, is := read["Name"].(string)
	if !is || name == "" || utf8.RuneCountInString(name) > maxNameBytes {
		return Change{}, newProcessorError("", "Name is %v: it must be a text of 1 to %d characters", read["Name"], maxNameBytes)
	}
	value, is := read["Value"].(uint64)
	if !is || value > maxValue {
		return Change{}, newProcessorError(fmt.Sprint(read["Value"]), "Value is %v: it must be a number from 0 to %d", read["Value"], uint32(maxValue))
	}
	n, address := int64(value), Address(name)
	if verb == "set" {
		return Change{Verb: verb, Name: name, By: n, Value: n}, s.set(address, encodeEntry(name, n))
	}
	old, err := s.get(address)
	if err != nil {
		return Change{}, err
	}
	if old == "" {
		return Change{}, newProcessorError("", "Verb is %q but name %q not in state", verb, name)
	}
	have, is := decodeEntry(old, name)
	if !is {
		return Change{}, newProcessorError(old, "state of %q is not a number", name)
	}
	next := have + n
	if verb == "dec" {
		next = have - n
	}
	if next < 0 || next > maxValue {
		return Change{}, newProcessorError(strconv.FormatInt(have, 10), "%s of %q by %d: it has %d", verb, name, n, have)
	}
	return Change{Verb: verb, Name: name, By: n, Value: next}, s.set(address, encodeEntry(name, next))
}
