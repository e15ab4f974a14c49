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

// Set returns a payload that sets the number of a name to value, and the name's address. A second
// execution leaves no trace in the state; the journal shows it.
func Set(name string, value int64) (payload []byte, address string) {
	return encodeCommand("set", name, value)
}

// Inc returns a payload that adds by to the number of a name, and the name's address. If it is
// executed twice it adds twice.
func Inc(name string, by int64) (payload []byte, address string) {
	return encodeCommand("inc", name, by)
}

// Create returns a payload that sets the number of a new name to value, and the name's address. A
// second execution is invalid. Create stands for Sabre's own creation of a registry.
func Create(name string, value int64) (payload []byte, address string) {
	return encodeCommand("create", name, value)
}

// Invalid returns a payload that is invalid at each execution, and the name's address.
func Invalid(name string) (payload []byte, address string) { return encodeCommand("fail", name, 0) }

// Trap returns a payload whose contract ends with an undefined code, and the name's address. The
// node never gets the contract's answer, and the service stalls as for an unserved family.
func Trap(name string) (payload []byte, address string) { return encodeCommand(wordTrap, name, 0) }

// NoWasm returns a payload for a contract that is not a program, and the name's address. It ends
// the executor's thread, so that this batch and all later batches stall the service, and stay
// Pending, until the node restarts.
func NoWasm(name string) (payload []byte, address string) { return encodeCommand(wordNoWasm, name, 0) }

const (
	wordTrap   = "trap"
	wordNoWasm = "nowasm"
)

func encodeCommand(op, name string, value int64) ([]byte, string) {
	return []byte(op + " " + name + " " + strconv.FormatInt(value, 10)), Address(name)
}

func (t transaction) command() string {
	op, _, _ := strings.Cut(string(t.payload), " ")
	return op
}

// state is the committed integers by name. It is never changed in place.
type state = map[string]int64

// execution is the result of a batch on a state. If the batch is invalid, it has no effect.
type execution struct {
	next        state
	receipts    []receipt
	failedIndex int // the index of the transaction with the error
	err         error
}

func execute(before state, b *submitted) execution {
	x := execution{next: maps.Clone(before)}
	for i, t := range b.txs {
		name, err := applyCommand(x.next, t.payload)
		if err != nil {
			return execution{failedIndex: i, err: err}
		}
		x.receipts = append(x.receipts, receipt{id: t.id, changes: map[string][]byte{Address(name): encodeValue(x.next[name])}})
	}
	return x
}

// encodeValue returns a number as the state has it.
func encodeValue(n int64) []byte { return strconv.AppendInt(nil, n, 10) }

// nodeError is an error with the text of a real node.
type nodeError string

func (s nodeError) Error() string { return string(s) }

// applyCommand executes one payload on a state, and returns the changed name.
func applyCommand(s state, payload []byte) (name string, err error) {
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
		if there { // the text of Sabre 0.8 about a registry
			return "", nodeError("Contract Registry already exists: " + name)
		}
		s[name] = by
	default:
		return "", nodeError("Wasm contract returned invalid transaction: " + name + ", 1.0")
	}
	return name, nil
}
