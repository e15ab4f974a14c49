package canton

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// payloadFields are the fields of a submission that a payload may have
// (docs/ledgers/canton.md#submissions). The client sets the others. The participant ignores
// unknown fields, so a misspelt name would only be noticed as a missing field.
var payloadFields = map[string]bool{
	"commands": true, "readAs": true, "workflowId": true, "disclosedContracts": true, "synchronizerId": true,
	"minLedgerTimeAbs": true, "minLedgerTimeRel": true,
	"packageIdSelectionPreference": true, "prefetchContractKeys": true, "tapsMaxPasses": true,
}

// commandKinds are the kinds of commands, and the fields that each must have.
var commandKinds = map[string][]string{
	"CreateCommand":            {"templateId", "createArguments"},
	"ExerciseCommand":          {"templateId", "contractId", "choice", "choiceArgument"},
	"CreateAndExerciseCommand": {"templateId", "createArguments", "choice", "choiceArgument"},
	"ExerciseByKeyCommand":     {"templateId", "contractKey", "choice", "choiceArgument"},
}

// Check implements [dlt.Ledger]: the id must be a command id, the service a party, and the
// payload an object with a list of commands and without the fields that the client adds
// itself. Check does not know the templates.
func (c *Client) Check(b batch.Batch) error {
	if err := b.Validate(); err != nil {
		return err
	}
	_, err := parsePayload(b.Key(), b.Payload)
	if err == nil && len(b.Payload) > c.maxBody-maxAddedBytes {
		err = &batch.InputError{
			Key: b.Key(), Field: "Payload", Value: strconv.Itoa(len(b.Payload)) + " bytes",
			Want: "at most " + strconv.Itoa(c.maxBody-maxAddedBytes) + " bytes",
		}
	}
	return err
}

// maxAddedBytes is more than the client adds to a payload: four names and two numbers.
const maxAddedBytes = 2048

// parsePayload returns the fields of a payload. The error is a [*batch.InputError], which shows
// only the names of fields.
func parsePayload(key batch.Key, payload []byte) (map[string]json.RawMessage, error) {
	refuse := func(field, value, want string) (map[string]json.RawMessage, error) {
		return nil, &batch.InputError{Key: key, Field: field, Value: value, Want: want}
	}
	if !isCommandID(string(key.ID)) {
		return refuse("ID", batch.Excerpt(string(key.ID), 64), "1 to "+strconv.Itoa(maxID)+" letters, digits and _:-#/. or space")
	}
	if !isParty(string(key.Service)) {
		return refuse("Service", batch.Excerpt(string(key.Service), 64), "a party: 1 to 255 letters, digits and :-_ or space")
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(payload, &fields); err != nil || fields == nil {
		return refuse("Payload", "", "a JSON object with commands")
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !payloadFields[name] {
			return refuse("Payload", "", fmt.Sprintf("no field beside commands and what goes with them; it has one of %d bytes", len(name)))
		}
	}
	var commands []map[string]map[string]json.RawMessage
	if err := json.Unmarshal(fields["commands"], &commands); err != nil || len(commands) == 0 {
		return refuse("Payload.commands", "", "a list of at least one command")
	}
	for i, command := range commands {
		at := "Payload.commands[" + strconv.Itoa(i) + "]"
		if len(command) != 1 {
			return refuse(at, "", "an object with one key, the kind of command")
		}
		for kind, body := range command {
			must, known := commandKinds[kind]
			if !known {
				return refuse(at, "", "CreateCommand, ExerciseCommand, CreateAndExerciseCommand or ExerciseByKeyCommand")
			}
			for _, name := range must {
				if _, has := body[name]; !has {
					return refuse(at+"."+kind, "", "a field "+name)
				}
			}
		}
	}
	return fields, nil
}

// submission returns the body for an attempt: the payload, plus the fields that identify this
// attempt of this command. The caller owns the bytes.
func (c *Client) submission(a batch.Attempt) ([]byte, error) {
	fields, err := parsePayload(a.Key, a.Payload)
	if err != nil {
		return nil, err
	}
	add := func(name string, v any) {
		b, err2 := json.Marshal(v)
		if err2 != nil && err == nil {
			err = fmt.Errorf("canton: encode %s: %w", name, err2)
		}
		fields[name] = b
	}
	add("commandId", a.ID)
	add("actAs", []batch.ServiceID{a.Service})
	add("submissionId", submissionIDOf(a.ID, a.Number))
	add("deduplicationPeriod", deduplicationFor(c.deduplicationPeriod))
	if c.userID != "" {
		add("userId", c.userID)
	}
	if err != nil {
		return nil, err
	}
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(fields); err != nil {
		return nil, fmt.Errorf("canton: encode submission: %w", err)
	}
	if body.Len() > c.maxBody {
		return nil, &batch.InputError{
			Key: a.Key, Field: "Payload", Value: strconv.Itoa(len(a.Payload)) + " bytes", Want: "at most " + strconv.Itoa(c.maxBody) + " bytes with what goes with it",
		}
	}
	return body.Bytes(), nil
}

type deduplication struct {
	Duration struct {
		Value struct {
			Seconds int64 `json:"seconds"`
			Nanos   int64 `json:"nanos"`
		} `json:"value"`
	} `json:"DeduplicationDuration"`
}

func deduplicationFor(d time.Duration) deduplication {
	var out deduplication
	out.Duration.Value.Seconds = int64(d / time.Second)
	out.Duration.Value.Nanos = int64(d % time.Second)
	return out
}
