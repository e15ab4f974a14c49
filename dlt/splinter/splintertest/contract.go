package splintertest

import (
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"maps"
	"strconv"
	"strings"
)

// Family of the executed transactions, and its version.
const (
	Family        = "sabre"
	FamilyVersion = "0.5"
)

// Address returns the address of a name, for inputs and outputs.
func Address(name string) string {
	sum := sha512.Sum512([]byte(name))
	return "1cf126" + hex.EncodeToString(sum[:])[:64]
}

// Set returns a payload that gives a name a value, and the name's address. A second execution
// leaves no trace in the state; the journal shows it.
func Set(name string, value int64) (payload []byte, address string) { return word("set", name, value) }

// Inc returns a payload that adds to a name: executed twice it adds twice.
func Inc(name string, by int64) (payload []byte, address string) { return word("inc", name, by) }

// Create returns a payload that gives a new name a value: a second execution is invalid. It
// stands for Sabre's own creation of a registry.
func Create(name string, value int64) (payload []byte, address string) {
	return word("create", name, value)
}

// Fail returns a payload that is always invalid.
func Fail(name string) (payload []byte, address string) { return word("fail", name, 0) }

// Trap returns a payload whose contract ends with an undefined code: no answer comes, and the
// service stalls as for an unserved family.
func Trap(name string) (payload []byte, address string) { return word(wordTrap, name, 0) }

// NoWasm returns a payload for a contract that is no program. It ends the executor's thread,
// so that this batch and all later ones stall the service, and stay Pending, until the node
// restarts.
func NoWasm(name string) (payload []byte, address string) { return word(wordNoWasm, name, 0) }

const (
	wordTrap   = "trap"
	wordNoWasm = "nowasm"
)

func word(op, name string, value int64) ([]byte, string) {
	return []byte(op + " " + name + " " + strconv.FormatInt(value, 10)), Address(name)
}

func (t transaction) word() string {
	op, _, _ := strings.Cut(string(t.payload), " ")
	return op
}

// state is named integers. It is never changed in place.
type state = map[string]int64

// execution is the result of a batch on a state: all of it or nothing.
type execution struct {
	next     state
	receipts []receipt
	failed   int // index of the transaction with err
	err      error
}

func execute(before state, b *submitted) execution {
	x := execution{next: maps.Clone(before)}
	for i, t := range b.txs {
		name, err := apply(x.next, t.payload)
		if err != nil {
			return execution{failed: i, err: err}
		}
		x.receipts = append(x.receipts, receipt{id: t.id, changes: map[string][]byte{Address(name): value(x.next[name])}})
	}
	return x
}

// value returns the form of a number in the state.
func value(n int64) []byte { return strconv.AppendInt(nil, n, 10) }

// said is an error in the node's own words.
type said string

func (s said) Error() string { return string(s) }

// apply executes one payload on a state, and returns the changed name.
func apply(s state, payload []byte) (name string, err error) {
	words := strings.Fields(string(payload))
	if len(words) != 3 {
		return "", fmt.Errorf("a payload of %d words", len(words))
	}
	by, err := strconv.ParseInt(words[2], 10, 64)
	if err != nil {
		return "", fmt.Errorf("a value: %w", err)
	}
	name = words[1]
	old, there := s[name]
	switch words[0] {
	case "set":
		s[name] = by
	case "inc":
		s[name] = old + by
	case "create":
		if there { // Sabre 0.8's words about a registry
			return "", said("Contract Registry already exists: " + name)
		}
		s[name] = by
	default:
		return "", said("Wasm contract returned invalid transaction: " + name + ", 1.0")
	}
	return name, nil
}
