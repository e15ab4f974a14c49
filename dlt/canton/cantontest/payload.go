package cantontest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// The template and choice of the participant's one contract: a book of balances, in which each
// party moves its own.
const (
	BookTemplate = "#dltbatch-book:Book:Book"
	BookContract = "00b00c"
	BookChoice   = "Transfer"
)

// Transfer moves an amount from the acting party to another.
type Transfer struct {
	To     string `json:"to"`
	Amount int64  `json:"amount,string"`
	Note   string `json:"note,omitempty"`
	// Spends names a contract that the transfer archives. A submission that spends an archived
	// contract is refused in interpretation, before deduplication, as are real commands that
	// consume their inputs (docs/ledgers/canton.md#deduplication). Defaults to none.
	Spends string `json:"spends,omitempty"`
	// Poison makes the whole submission fail. Defaults to none.
	Poison Poison `json:"poison,omitempty"`
}

// Poison is how a transfer fails, together with its submission.
type Poison string

// The poisons.
const (
	// PoisonSync fails in interpretation: the POST is answered with an error.
	PoisonSync Poison = "sync"
	// PoisonAsync fails in validation: the submission is accepted, and its completion rejects it.
	PoisonAsync Poison = "async"
)

// Command returns the transfer as a command of a payload.
func (t Transfer) Command() json.RawMessage {
	return encode(map[string]any{"ExerciseCommand": map[string]any{
		"templateId": BookTemplate, "contractId": BookContract, "choice": BookChoice, "choiceArgument": t,
	}})
}

// Payload returns the payload of a batch of transfers, one command each. All of them take
// effect, or none.
func Payload(transfers ...Transfer) []byte {
	commands := make([]json.RawMessage, len(transfers))
	for i, t := range transfers {
		commands[i] = t.Command()
	}
	return encode(map[string]any{"commands": commands})
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // cannot fail for strings and numbers
	}
	return b
}

// submitJSON is the part of JsCommands that the participant reads
// (docs/ledgers/canton.md#submissions). It ignores unknown fields.
type submitJSON struct {
	CommandID     *string          `json:"commandId"`
	ActAs         []string         `json:"actAs"`
	Commands      []map[string]any `json:"commands"`
	UserID        string           `json:"userId"`
	SubmissionID  string           `json:"submissionId"`
	Deduplication map[string]struct {
		Value json.RawMessage `json:"value"`
	} `json:"deduplicationPeriod"`
}

// maxAmount keeps sums from overflowing.
const maxAmount = 1_000_000_000_000

// transfers reads the commands. An error is one of interpretation.
func (s submitJSON) transfers() ([]Transfer, error) {
	var out []Transfer
	for _, command := range s.Commands {
		body, ok := command["ExerciseCommand"].(map[string]any)
		if !ok || len(command) != 1 {
			return nil, errors.New("the participant knows ExerciseCommand only")
		}
		if body["templateId"] != BookTemplate || body["contractId"] != BookContract || body["choice"] != BookChoice {
			return nil, errors.New("there is one contract, the book, and one choice, to transfer")
		}
		raw, err := json.Marshal(body["choiceArgument"])
		if err != nil {
			return nil, fmt.Errorf("choice argument: %w", err)
		}
		var t Transfer
		if err := json.Unmarshal(raw, &t); err != nil {
			return nil, errors.New("the choice argument is no transfer")
		}
		if t.To == "" || t.Amount <= 0 || t.Amount > maxAmount {
			return nil, errors.New("a transfer is of a positive amount " + strconv.FormatInt(t.Amount, 10) + " to somebody")
		}
		out = append(out, t)
	}
	return out, nil
}
