package splintertest

import (
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"maps"
	"strconv"
	"strings"
)

// Family of the transactions that are executed, and its version.
const (
	Family        = "sabre"
	FamilyVersion = "0.5"
)

// Address is where a name is kept, as inputs and outputs name it.
func Address(name string) string {
	sum := sha512.Sum512([]byte(name))
	return "1cf126" + hex.EncodeToString(sum[:])[:64]
}

// Set makes a payload that gives a name a value, and the name's address. It may be
// executed again without a trace in the state; the journal shows it.
func Set(name string, value int64) (payload []byte, address string) { return word("set", name, value) }

// Inc makes a payload that adds to a name: executed twice it adds twice.
func Inc(name string, by int64) (payload []byte, address string) { return word("inc", name, by) }

// Create makes a payload that gives a new name a value: executed again it is invalid.
func Create(name string, value int64) (payload []byte, address string) {
	return word("create", name, value)
}

// Fail makes a payload that is always invalid.
func Fail(name string) (payload []byte, address string) { return word("fail", name, 0) }

func word(op, name string, value int64) ([]byte, string) {
	return []byte(op + " " + name + " " + strconv.FormatInt(value, 10)), Address(name)
}

// apply executes one payload on a state.
func apply(state map[string]int64, payload []byte) error {
	words := strings.Fields(string(payload))
	if len(words) != 3 {
		return fmt.Errorf("a payload of %d words", len(words))
	}
	value, err := strconv.ParseInt(words[2], 10, 64)
	if err != nil {
		return fmt.Errorf("a value: %w", err)
	}
	old, there := state[words[1]]
	switch words[0] {
	case "set":
		state[words[1]] = value
	case "inc":
		state[words[1]] = old + value
	case "create":
		if there {
			return fmt.Errorf("%s is there already", words[1])
		}
		state[words[1]] = value
	default:
		return fmt.Errorf("%s fails", words[1])
	}
	return nil
}

// execute runs a batch, all of it or nothing. failed is the transaction that failed.
func execute(state map[string]int64, b *submitted) (next map[string]int64, failed int, err error) {
	next = maps.Clone(state)
	for i, t := range b.txs {
		if err := apply(next, t.payload); err != nil {
			return nil, i, err
		}
	}
	return next, 0, nil
}
