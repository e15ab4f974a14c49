package batch

import (
	"crypto/sha256"
	"errors"
)

// MaxPayload is the largest payload that can be stored, in bytes. Ledgers have lower limits of
// their own, which their local check knows.
const MaxPayload = 64 << 20

// Batch is the unit that a ledger accepts or refuses as a whole. It does not change once it is
// stored.
type Batch struct {
	ID      ID
	Service ServiceID

	// Payload holds the bytes to send: on Sawtooth and Splinter the serialized Batch message,
	// byte for byte as it was signed.
	Payload []byte

	// Transactions, in order. They may be left out; then they are not stored.
	Transactions []Transaction

	// DataChangeID is the caller's idempotency key (docs/glossary.md#batch-submitter-2021). May
	// be "".
	DataChangeID string
	// SignerPublicKey and Trace are kept for those who read the database (the columns
	// signer_public_key and trace). Nothing depends on them.
	SignerPublicKey string
	Trace           bool

	// Footprint is the state that the batch reads and writes. An empty one conflicts with
	// everything.
	Footprint Footprint

	// Budget limits the attempts. The zero value means unlimited.
	Budget Budget

	// Tags are the application's names for the batch, so that people find it. May be nil.
	Tags Tags

	// TraceParent is the trace context of the caller that adds the batch ([ValidTraceParent]), or
	// "". The store keeps it with the batch, and every process that works on the batch gets it:
	// docs/operations.md#traces. It is not sent to the ledger. A Runner's Add fills it in
	// (dltbatch.Options.TraceParent), and drops a bad one; a store refuses a bad one.
	TraceParent string
}

// Transaction is one signed operation inside a batch.
type Transaction struct {
	ID              string
	FamilyName      string
	FamilyVersion   string
	SignerPublicKey string
}

// Key returns the name of the batch in a store.
func (b Batch) Key() Key { return Key{Service: b.Service, ID: b.ID} }

// Hash returns the SHA-256 of the payload. Two batches of one id are the same if their hashes
// are.
func (b Batch) Hash() [sha256.Size]byte { return sha256.Sum256(b.Payload) }

// Validate reports whether the batch can be stored. It checks the needs of every ledger, not
// the rules of a particular one (its client's dlt.Ledger.Check knows those). The error is an
// [*InputError].
func (b Batch) Validate() error {
	err := b.validate()
	var in *InputError
	if errors.As(err, &in) && b.ID != "" && len(b.ID) <= MaxIDLen {
		in.Key = b.Key()
	}
	return err
}

func (b Batch) validate() error {
	if err := b.Key().Validate(); err != nil {
		return err
	}
	switch {
	case len(b.Payload) == 0:
		return &InputError{Field: "Payload", Want: "not empty"}
	case len(b.Payload) > MaxPayload:
		return &InputError{Field: "Payload", Value: numberText(len(b.Payload)) + " bytes", Want: "at most " + numberText(MaxPayload) + " bytes"}
	case b.Budget.Attempts < 0:
		return &InputError{Field: "Budget.Attempts", Value: numberText(b.Budget.Attempts), Want: "0 (unlimited) or more"}
	case b.TraceParent != "" && !ValidTraceParent(b.TraceParent):
		return &InputError{Field: "TraceParent", Value: Excerpt(b.TraceParent, 2*traceParentLen), Want: "a traceparent of version 00"}
	}
	if err := b.Tags.Validate(); err != nil {
		return err
	}
	if err := CheckText("DataChangeID", b.DataChangeID, MaxIDLen); err != nil {
		return err
	}
	if err := CheckText("SignerPublicKey", b.SignerPublicKey, MaxIDLen); err != nil {
		return err
	}
	seen := make(map[string]struct{}, len(b.Transactions))
	for _, t := range b.Transactions {
		if t.ID == "" {
			return &InputError{Field: "Transactions.ID", Want: "not empty"}
		}
		for _, f := range [...]struct{ name, value string }{
			{"Transactions.ID", t.ID},
			{"Transactions.FamilyName", t.FamilyName},
			{"Transactions.FamilyVersion", t.FamilyVersion},
			{"Transactions.SignerPublicKey", t.SignerPublicKey},
		} {
			if err := CheckText(f.name, f.value, MaxIDLen); err != nil {
				return err
			}
		}
		if _, twice := seen[t.ID]; twice {
			return &InputError{Field: "Transactions.ID", Value: t.ID, Want: "no id twice"}
		}
		seen[t.ID] = struct{}{}
	}
	return b.Footprint.validate()
}

// Budget limits how often a batch is tried. A misconfiguration, or a claim without a POST,
// never spends anything.
type Budget struct {
	// Attempts is how many attempts may be spent; 0 means unlimited.
	Attempts int `json:"attempts,omitzero"`
	// EveryTry is true if every attempt with a POST uses up one of Attempts, even if its outcome
	// is in doubt or the ledger was busy (docs/design.md#budgets). If it is false, an attempt uses
	// one up only if it definitely failed because of this batch itself.
	EveryTry bool `json:"every_try,omitzero"`
}

// Exhausted reports whether spent attempts use the budget up.
func (b Budget) Exhausted(spent int) bool { return b.Attempts > 0 && spent >= b.Attempts }
