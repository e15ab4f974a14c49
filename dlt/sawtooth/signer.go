package sawtooth

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/isnil"
)

// Signer signs the headers of transactions and batches. [PrivateKey] is a Signer; another Signer
// may ask an HSM or a remote service. Build and the other functions call it only from the caller's
// goroutine, and check its results.
type Signer interface {
	// PublicKey returns the compressed secp256k1 public key, 66 lower-case hex
	// digits. It is always the same.
	PublicKey() string
	// Sign returns the ECDSA signature over the SHA-256 of message: r and s, 32
	// bytes each, as 128 lower-case hex digits, with s in the lower half of the
	// order (docs/ledgers/sawtooth.md#signatures). It does not keep message.
	Sign(message []byte) (string, error)
}

// PrivateKey is a secp256k1 key in memory. It never shows in formatted text. Its
// methods may be called concurrently.
type PrivateKey struct {
	key    *secp256k1.PrivateKey
	public string
}

// GeneratePrivateKey makes a new key from the system's source of randomness.
func GeneratePrivateKey() (*PrivateKey, error) {
	key, err := secp256k1.GeneratePrivateKey()
	if err != nil {
		return nil, fmt.Errorf("sawtooth: generate private key: %w", err)
	}
	return newPrivateKey(key), nil
}

// checkSigner refuses a missing signer.
func checkSigner(s Signer) error {
	if isnil.Is(s) {
		return &batch.InputError{Field: "signer", Value: "nil", Want: "a signer, such as a PrivateKey"}
	}
	return nil
}

// ParsePrivateKey reads a key of 64 hex digits, the output of `sawtooth keygen` (without the
// newline). The error is a [*batch.InputError] that never shows the key.
func ParsePrivateKey(s string) (*PrivateKey, error) {
	b, err := hex.DecodeString(s)
	if err != nil { // without the cause, which would show a byte of the key
		return nil, &batch.InputError{Field: "private key", Value: fmt.Sprintf("%d characters", len(s)), Want: "64 hex digits alone, without 0x and without a newline"}
	}
	return NewPrivateKey(b)
}

// NewPrivateKey makes a key of its 32 bytes. It does not keep the slice. The error is a
// [*batch.InputError].
func NewPrivateKey(b []byte) (*PrivateKey, error) {
	var d secp256k1.ModNScalar
	if len(b) != secp256k1.PrivKeyBytesLen {
		return nil, &batch.InputError{Field: "private key", Value: fmt.Sprintf("%d bytes", len(b)), Want: "32 bytes (64 hex digits)"}
	}
	if overflow := d.SetByteSlice(b); overflow || d.IsZero() {
		return nil, &batch.InputError{Field: "private key", Want: "a number from 1 to the order of secp256k1"}
	}
	return newPrivateKey(secp256k1.NewPrivateKey(&d)), nil
}

func newPrivateKey(key *secp256k1.PrivateKey) *PrivateKey {
	return &PrivateKey{key: key, public: hex.EncodeToString(key.PubKey().SerializeCompressed())}
}

// PublicKey implements [Signer].
func (k *PrivateKey) PublicKey() string { return k.public }

// Sign implements [Signer]. It uses the nonces of RFC 6979, so the same message always gets
// the same signature. It never fails.
func (k *PrivateKey) Sign(message []byte) (string, error) {
	hash := sha256.Sum256(message)
	sig := ecdsa.Sign(k.key, hash[:])
	r, s := sig.R(), sig.S()
	var out [64]byte
	r.PutBytesUnchecked(out[:32])
	s.PutBytesUnchecked(out[32:])
	return hex.EncodeToString(out[:]), nil
}

// Format implements [fmt.Formatter] for every verb, so that no log shows the key.
func (k *PrivateKey) Format(w fmt.State, _ rune) {
	_, _ = io.WriteString(w, "private key of "+k.public)
}
