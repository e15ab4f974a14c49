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
	maxName  = 20 // characters
	maxValue = math.MaxUint32
)

// Set returns the payload that sets a name, and the address to declare as output.
func Set(name string, value int64) (payload []byte, address string) {
	return op("set", name, value)
}

// Inc returns the payload that adds to a name, and the address to declare as
// input and output.
func Inc(name string, by int64) (payload []byte, address string) {
	return op("inc", name, by)
}

// Dec returns the payload that subtracts from a name, and the address to declare
// as input and output.
func Dec(name string, by int64) (payload []byte, address string) {
	return op("dec", name, by)
}

// Address returns the address of a name's state: 70 hex digits.
func Address(name string) string {
	family := sha512.Sum512([]byte(IntKey.Name))
	sum := sha512.Sum512([]byte(name))
	return hex.EncodeToString(family[:3]) + hex.EncodeToString(sum[32:])
}

// op returns a payload in the order of the keys that the family's clients use.
func op(verb, name string, n int64) ([]byte, string) {
	p := cborString(cborString(cborHead(nil, cborMap, 3), "Verb"), verb)
	p = cborString(cborString(p, "Name"), name)
	p = cborString(p, "Value")
	if n < 0 { // a number that is negative has a major type of its own: the node refuses it
		return cborHead(p, cborNumber+1, uint64(-1-n)), Address(name)
	}
	return cborHead(p, cborNumber, uint64(n)), Address(name)
}

// entry returns the state of a name.
func entry(name string, value int64) string {
	return string(cborHead(cborString(cborHead(nil, cborMap, 1), name), cborNumber, uint64(value)))
}

// valueOf reads the state of a name.
func valueOf(entry, name string) (value int64, ok bool) {
	read, err := readCBORMap([]byte(entry))
	n, is := read[name].(uint64)
	return int64(n), err == nil && is && n <= maxValue
}

// refusal is a processor's error for an invalid transaction.
type refusal struct {
	message string
	data    []byte
}

func (r *refusal) Error() string { return r.message }

func refuse(data, format string, args ...any) error {
	return &refusal{message: fmt.Sprintf(format, args...), data: []byte(data)}
}

// access limits a transaction to its addresses. A missing value is "".
type access interface {
	get(address string) (string, error)
	set(address, value string) error
}

// apply runs one payload and returns its change.
func apply(payload []byte, s access) (Change, error) {
	read, err := readCBORMap(payload)
	if err != nil {
		return Change{}, refuse("", "Invalid payload serialization")
	}
	verb, _ := read["Verb"].(string)
	if verb != "set" && verb != "inc" && verb != "dec" {
		return Change{}, refuse(verb, `Verb is %v: it must be "set", "inc" or "dec"`, read["Verb"])
	}
	name, is := read["Name"].(string)
	if !is || name == "" || utf8.RuneCountInString(name) > maxName {
		return Change{}, refuse("", "Name is %v: it must be a text of 1 to %d characters", read["Name"], maxName)
	}
	value, is := read["Value"].(uint64)
	if !is || value > maxValue {
		return Change{}, refuse(fmt.Sprint(read["Value"]), "Value is %v: it must be a number from 0 to %d", read["Value"], uint32(maxValue))
	}
	n, address := int64(value), Address(name)
	if verb == "set" {
		return Change{Verb: verb, Name: name, By: n, Value: n}, s.set(address, entry(name, n))
	}
	old, err := s.get(address)
	if err != nil {
		return Change{}, err
	}
	if old == "" {
		return Change{}, refuse("", "Verb is %q but name %q not in state", verb, name)
	}
	have, is := valueOf(old, name)
	if !is {
		return Change{}, refuse(old, "state of %q is not a number", name)
	}
	next := have + n
	if verb == "dec" {
		next = have - n
	}
	if next < 0 || next > maxValue {
		return Change{}, refuse(strconv.FormatInt(have, 10), "%s of %q by %d: it has %d", verb, name, n, have)
	}
	return Change{Verb: verb, Name: name, By: n, Value: next}, s.set(address, entry(name, next))
}
