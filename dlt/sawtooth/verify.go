package sawtooth

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"

	"github.com/dltbatch/dltbatch/batch"
)

const (
	idLen        = 128 // the number of hex digits in a signature, and so in an id
	publicKeyLen = 66
	addressLen   = 70
)

// Verify returns nil if signature is publicKey's over message, in the one form that a node
// accepts: low S, lower-case hex, a compressed key (docs/ledgers/sawtooth.md#signatures).
// Otherwise the error is a [*batch.InputError].
func Verify(publicKey string, message []byte, signature string) error {
	key, err := parsePublicKey(publicKey)
	if err != nil {
		return err
	}
	return verify(key, message, signature)
}

func parsePublicKey(s string) (*secp256k1.PublicKey, error) {
	const want = "a compressed secp256k1 public key, 66 lower-case hex digits"
	if len(s) != publicKeyLen || !isHex(s) {
		return nil, &batch.InputError{Field: "signer_public_key", Value: batch.Excerpt(s, 80), Want: want}
	}
	b, err := hex.DecodeString(s)
	if err == nil {
		var key *secp256k1.PublicKey
		if key, err = secp256k1.ParsePubKey(b); err == nil {
			return key, nil
		}
	}
	return nil, &batch.InputError{Field: "signer_public_key", Value: s, Want: want, Err: err}
}

func verify(key *secp256k1.PublicKey, message []byte, signature string) error {
	refuse := func(want string) error {
		return &batch.InputError{Field: "header_signature", Value: batch.Excerpt(signature, 136), Want: want}
	}
	if !isID(signature) {
		return refuse("128 lower-case hex digits")
	}
	var raw [64]byte
	if _, err := hex.Decode(raw[:], []byte(signature)); err != nil {
		return refuse("128 lower-case hex digits")
	}
	var r, s secp256k1.ModNScalar
	if r.SetByteSlice(raw[:32]) || s.SetByteSlice(raw[32:]) || r.IsZero() || s.IsZero() {
		return refuse("r and s from 1 to the order of secp256k1")
	}
	// The other half is mathematically valid, too, but libsecp256k1 refuses it, and both ledgers
	// verify with libsecp256k1.
	if s.IsOverHalfOrder() {
		return refuse("low S")
	}
	hash := sha256.Sum256(message)
	if !ecdsa.NewSignature(&r, &s).Verify(hash[:], key) {
		return refuse("the signature of the header's bytes by signer_public_key")
	}
	return nil
}

// isHex reports whether s is lower-case hex, of any length.
func isHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// isID reports whether s can be an id: the status endpoint accepts [0-9a-f]{128} only.
func isID(s string) bool { return len(s) == idLen && isHex(s) }

// isAddress reports whether s can be an input or an output
// (docs/ledgers/sawtooth.md#addresses-and-conflicts).
func isAddress(s string) bool { return len(s) <= addressLen && len(s)%2 == 0 && isHex(s) }

const wantAddress = "lower-case hex of even length, at most 70 digits"
