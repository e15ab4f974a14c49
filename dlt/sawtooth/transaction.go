package sawtooth

import (
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"unicode/utf8"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/internal/pb"
)

// Transaction is an unsigned operation.
type Transaction struct {
	// FamilyName and FamilyVersion choose the transaction processor. Neither may be empty: no
	// processor would serve the transaction, and it would be pending for ever.
	FamilyName    string
	FamilyVersion string

	// Inputs are the addresses, or prefixes of addresses, that may be read; Outputs may be
	// written. They are lower-case hex of even length up to 70; "" is the whole state. List an
	// address in both to read and write it.
	Inputs  []string
	Outputs []string

	// Dependencies are the ids of transactions of other batches that must be committed first. The
	// order inside one batch is implicit and must not be listed: such a batch is accepted and
	// never executed (docs/ledgers/sawtooth.md#dependencies).
	Dependencies []string

	// Nonce distinguishes transactions that are otherwise the same. With the same Nonce they have
	// the same id, and only one of them is ever executed. crypto/rand.Text returns a good Nonce.
	Nonce string

	// Payload is for the transaction processor. It may be empty.
	Payload []byte
}

// SignedTransaction is a transaction in the form that a batch holds.
type SignedTransaction struct {
	ID      string // the signature of Header, 128 lower-case hex digits
	Header  []byte // the serialized TransactionHeader, exactly as it was signed
	Payload []byte
}

// Sign makes the transaction's header and signs it. Only the owner of the public key batcher
// can put it into a batch; "" means the signer itself. Sign does not copy the payload. The
// error is a [*batch.InputError], or the signer's error.
func (t Transaction) Sign(s Signer, batcher string) (SignedTransaction, error) {
	if err := t.validate(); err != nil {
		return SignedTransaction{}, err
	}
	if err := checkSigner(s); err != nil {
		return SignedTransaction{}, err
	}
	public := s.PublicKey()
	if batcher == "" {
		batcher = public
	}
	for _, key := range [...]string{public, batcher} {
		if _, err := parsePublicKey(key); err != nil {
			return SignedTransaction{}, err
		}
	}
	sum := sha512.Sum512(t.Payload)
	header := encodeTransactionHeader(&pb.TransactionHeader{
		BatcherPublicKey: batcher,
		Dependencies:     t.Dependencies,
		FamilyName:       t.FamilyName,
		FamilyVersion:    t.FamilyVersion,
		Inputs:           t.Inputs,
		Nonce:            t.Nonce,
		Outputs:          t.Outputs,
		PayloadSha512:    hex.EncodeToString(sum[:]),
		SignerPublicKey:  public,
	})
	id, err := sign(s, header)
	if err != nil {
		return SignedTransaction{}, fmt.Errorf("sawtooth: sign transaction: %w", err)
	}
	return SignedTransaction{ID: id, Header: header, Payload: t.Payload}, nil
}

// sign signs a header, and checks the signer's result: many HSMs make signatures with a high s.
func sign(s Signer, header []byte) (string, error) {
	sig, err := s.Sign(header)
	if err != nil {
		return "", err
	}
	if _, own := s.(*PrivateKey); !own {
		if err := Verify(s.PublicKey(), header, sig); err != nil {
			return "", err
		}
	}
	return sig, nil
}

func (t Transaction) validate() error {
	for _, f := range [...]struct {
		name, value string
		required    bool
	}{
		{"FamilyName", t.FamilyName, true},
		{"FamilyVersion", t.FamilyVersion, true},
		{"Nonce", t.Nonce, false},
	} {
		if f.required && f.value == "" {
			return &batch.InputError{Field: f.name, Want: "not empty"}
		}
		if !utf8.ValidString(f.value) {
			return &batch.InputError{Field: f.name, Value: batch.Excerpt(f.value, 64), Want: "valid UTF-8"}
		}
	}
	if err := checkAddresses("Inputs", t.Inputs); err != nil {
		return err
	}
	if err := checkAddresses("Outputs", t.Outputs); err != nil {
		return err
	}
	for i, d := range t.Dependencies {
		if !isID(d) {
			return &batch.InputError{Field: fmt.Sprintf("Dependencies[%d]", i), Value: batch.Excerpt(d, 136), Want: wantDependency}
		}
	}
	return nil
}

const wantDependency = "the id of a transaction of another batch, 128 lower-case hex digits"

func checkAddresses(field string, addresses []string) error {
	for i, a := range addresses {
		if !isAddress(a) {
			return &batch.InputError{Field: fmt.Sprintf("%s[%d]", field, i), Value: batch.Excerpt(a, 80), Want: wantAddress}
		}
	}
	return nil
}
