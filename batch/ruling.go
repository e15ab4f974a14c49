package batch

// Ruling is a person's decision about a batch in doubt, made after reading the ledger, and with
// that what becomes of the batch. The words are stored, and are the same in the command and the
// console.
type Ruling string

// The rulings.
const (
	// WasCommitted makes the batch Committed.
	WasCommitted Ruling = "committed"
	// NotExecutedSendAgain makes the batch Unknown, and it is sent again. If the ledger has
	// executed it, or still executes an attempt, it may be executed twice.
	NotExecutedSendAgain Ruling = "not_executed_send_again"
	// NotExecutedReject makes the batch Rejected. If the ledger has executed it, or still does,
	// the application takes for void an effect that happened.
	NotExecutedReject Ruling = "not_executed_reject"
)

// rulingTable has, for each ruling, the state that it gives and its statement in words.
var rulingTable = [...]struct {
	ruling Ruling
	state  State
	text   string
}{
	{WasCommitted, Committed, "it was committed"},
	{NotExecutedSendAgain, Unknown, "it was not executed and never will be, and may be sent again"},
	{NotExecutedReject, Rejected, "it was not executed and never will be, and is not to be sent again"},
}

// Rulings returns all rulings.
func Rulings() []Ruling {
	all := make([]Ruling, len(rulingTable))
	for i, r := range rulingTable {
		all[i] = r.ruling
	}
	return all
}

// State returns the state that a ruling gives a batch; 0 where r is no ruling.
func (r Ruling) State() State {
	for _, known := range rulingTable {
		if known.ruling == r {
			return known.state
		}
	}
	return 0
}

// Statement returns what the person states, in words; "" where r is no ruling.
func (r Ruling) Statement() string {
	for _, known := range rulingTable {
		if known.ruling == r {
			return known.text
		}
	}
	return ""
}

// Validate returns an [*InputError] where r is no ruling.
func (r Ruling) Validate() error {
	if r.State() != 0 {
		return nil
	}
	words := make([]string, len(rulingTable))
	for i, known := range rulingTable {
		words[i] = string(known.ruling)
	}
	return &InputError{Field: "Ruling", Value: Excerpt(string(r), 64), Want: oneOf(words)}
}
