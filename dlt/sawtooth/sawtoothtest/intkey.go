package sawtoothtest

import (
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// IntKey is the family that a node executes by default: named integers. Its addresses are
// those of Sawtooth's example family with the same name. Its payloads are text, "set name 3",
// "inc name 3" or "dec name 3", where the name has no blank and the number is not negative. A
// state entry holds the number in decimal digits.
//
// A transaction, and so its batch, is INVALID in these cases: an inc or dec of a name that was
// never set, a dec below zero, an inc beyond 63 bits, an unreadable payload, and an access
// outside its inputs and outputs.
var IntKey = Family{Name: "intkey", Version: "1.0"}

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

func op(verb, name string, n int64) ([]byte, string) {
	return []byte(verb + " " + name + " " + strconv.FormatInt(n, 10)), Address(name)
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
	parts := strings.Split(string(payload), " ")
	if len(parts) != 3 || parts[1] == "" {
		return Change{}, refuse("", "payload is not of the form \"verb name number\"")
	}
	verb, name := parts[0], parts[1]
	n, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil || n < 0 {
		return Change{}, refuse(parts[2], "%q is not a number from 0 on", parts[2])
	}
	address := Address(name)
	if verb == "set" {
		return Change{Verb: verb, Name: name, By: n, Value: n}, s.set(address, strconv.FormatInt(n, 10))
	}
	if verb != "inc" && verb != "dec" {
		return Change{}, refuse(verb, "verb %q is not set, inc or dec", verb)
	}
	old, err := s.get(address)
	if err != nil {
		return Change{}, err
	}
	if old == "" {
		return Change{}, refuse("", "Verb is %q but name %q not in state", verb, name)
	}
	have, err := strconv.ParseInt(old, 10, 64)
	if err != nil {
		return Change{}, refuse(old, "state of %q is not a number", name)
	}
	value := have + n
	if verb == "dec" {
		value = have - n
	}
	if value < 0 {
		return Change{}, refuse(old, "%s of %q by %d: it has %d", verb, name, n, have)
	}
	return Change{Verb: verb, Name: name, By: n, Value: value}, s.set(address, strconv.FormatInt(value, 10))
}
