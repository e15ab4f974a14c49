package evm

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// DigestSigner is a [Signer] of one account, whose key never leaves a service that signs digests:
// a KMS, or an HSM. docs/evm.md#keys-in-a-kms-or-hsm shows four such services in a few lines each.
type DigestSigner struct {
	account evmtx.Address
	sign    func(ctx context.Context, digest [32]byte) ([]byte, error)
}

// NewDigestSigner returns the signer of account, 0x and 40 hex digits ([AddressOfKey] makes them
// of the public key). sign returns the ECDSA signature of a digest by the account's key on
// secp256k1, as the service made it: the DER of r and s, or r and s of 32 bytes each, which one
// more byte may follow. s may be in either half of the order. sign is called as [Signer].Sign is.
// It has to sign the digest itself: a service that hashes the digest once more signs other bytes.
// The error is a [*batch.InputError].
func NewDigestSigner(account string, sign func(ctx context.Context, digest [32]byte) ([]byte, error)) (*DigestSigner, error) {
	a, err := evmtx.ParseAddress(account)
	if err != nil {
		return nil, inField("account", err)
	}
	if sign == nil {
		return nil, &batch.InputError{Field: "sign", Value: "nil", Want: "a func that signs a digest"}
	}
	return &DigestSigner{account: a, sign: sign}, nil
}

// Account returns the account, 0x and 40 lower-case hex digits.
func (s *DigestSigner) Account() string { return s.account.String() }

// Sign implements [Signer]. It returns an error for every other account, and for a signature that
// is not of this account and this transaction.
func (s *DigestSigner) Sign(ctx context.Context, account string, tx Unsigned) (sig [65]byte, err error) {
	if account != s.Account() {
		return sig, fmt.Errorf("no key of account %s, only of %s", batch.Excerpt(account, 80), s.account)
	}
	made, err := s.sign(ctx, tx.Hash)
	if err != nil {
		return sig, err
	}
	return completeSignature(made, tx.Hash, s.account)
}

// maxDER is the length of the longest signature in DER.
const maxDER = 72

// completeSignature makes a signature for an EVM chain from a signature without a parity: with s
// in the lower half of the order, and with the parity by which the account is recovered.
func completeSignature(made []byte, digest [32]byte, account evmtx.Address) (sig [65]byte, err error) {
	all := readSignature(made)
	for _, read := range all {
		r, s := read.R(), read.S()
		if s.IsOverHalfOrder() { // chains take the lower half only (EIP-2)
			s.Negate()
		}
		r.PutBytesUnchecked(sig[:32])
		s.PutBytesUnchecked(sig[32:64])
		for sig[64] = range byte(2) {
			compact := append([]byte{27 + sig[64]}, sig[:64]...)
			if key, _, err := ecdsa.RecoverCompact(compact, digest[:]); err == nil && evmtx.KeyAddress(key) == account {
				return sig, nil
			}
		}
	}
	if len(all) == 0 {
		return [65]byte{}, fmt.Errorf("its signature is %d bytes that begin with %x, and neither the DER of r and s nor r and s of 32 bytes each", len(made), made[:min(len(made), 4)])
	}
	return [65]byte{}, fmt.Errorf("its signature is not of account %s, or of another digest: the service must not hash the digest once more", account)
}

// readSignature returns the possible readings of a signature. The bytes of r and s may by chance
// be valid DER, too; the recovered account decides.
func readSignature(made []byte) (all []*ecdsa.Signature) {
	if len(made) == 64 || len(made) == 65 {
		var r, s secp256k1.ModNScalar
		if !r.SetByteSlice(made[:32]) && !s.SetByteSlice(made[32:64]) && !r.IsZero() && !s.IsZero() {
			all = append(all, ecdsa.NewSignature(&r, &s))
		}
	}
	if len(made) <= maxDER {
		if der, err := ecdsa.ParseDERSignature(made); err == nil {
			all = append(all, der)
		}
	}
	return all
}

// The prefixes of a public key's point of 65 bytes.
const (
	// publicKeyPrefix begins the SubjectPublicKeyInfo of a key on secp256k1. AWS and Google return
	// keys in this form, and crypto/x509 cannot read it.
	publicKeyPrefix = "3056301006072a8648ce3d020106052b8104000a034200"
	// octetStringPrefix begins the OCTET STRING in which PKCS#11 returns a point.
	octetStringPrefix = "0441"
)

// AddressOfKey returns the account of a public key on secp256k1, 0x and 40 lower-case hex digits.
// The key is the DER of a SubjectPublicKeyInfo, as AWS and Google have it (without the armour of
// PEM); the OCTET STRING of a PKCS#11 token's CKA_EC_POINT; or the point alone, of 33 or 65 bytes.
// The error is a [*batch.InputError].
func AddressOfKey(key []byte) (string, error) {
	point := key
	for _, before := range [...]string{publicKeyPrefix, octetStringPrefix} {
		prefix, err := hex.DecodeString(before)
		if rest, is := bytes.CutPrefix(key, prefix); err == nil && is {
			point = rest
		}
	}
	public, err := secp256k1.ParsePubKey(point)
	if err != nil {
		return "", &batch.InputError{
			Field: "key", Value: fmt.Sprintf("%d bytes that begin with %x", len(key), key[:min(len(key), 4)]),
			Want: "a public key on secp256k1: the DER of a SubjectPublicKeyInfo, or its point", Err: err,
		}
	}
	return evmtx.KeyAddress(public).String(), nil
}
