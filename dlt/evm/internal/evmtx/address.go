package evmtx

import (
	"encoding/hex"
	"strings"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"golang.org/x/crypto/sha3"

	"github.com/dltbatch/dltbatch/batch"
)

// Address is the address of an account.
type Address [20]byte

// Hash is the hash of a transaction or a block.
type Hash [32]byte

// String returns 0x and 40 lower-case hex digits.
func (a Address) String() string { return "0x" + hex.EncodeToString(a[:]) }

// String returns 0x and 64 lower-case hex digits.
func (h Hash) String() string { return "0x" + hex.EncodeToString(h[:]) }

// Checksum returns the address with the mixed case of EIP-55.
func (a Address) Checksum() string {
	text := []byte(hex.EncodeToString(a[:]))
	sum := Keccak(text)
	for i, c := range text {
		if c >= 'a' && (sum[i/2]>>(4*(1-i%2)))&8 != 0 {
			text[i] = c - 'a' + 'A'
		}
	}
	return "0x" + string(text)
}

// ParseAddress reads 0x and 40 hex digits. Digits of mixed case must have the checksum of EIP-55.
func ParseAddress(s string) (Address, error) {
	var a Address
	fail := func(want string) (Address, error) {
		return Address{}, &batch.InputError{Field: "address", Value: batch.Excerpt(s, 80), Want: want}
	}
	digits, prefixed := strings.CutPrefix(s, "0x")
	if !prefixed || len(digits) != 2*len(a) {
		return fail("0x and 40 hex digits")
	}
	if _, err := hex.Decode(a[:], []byte(digits)); err != nil {
		return fail("0x and 40 hex digits")
	}
	if digits != strings.ToLower(digits) && digits != strings.ToUpper(digits) && s != a.Checksum() {
		return fail("the checksum of EIP-55, which is " + a.Checksum())
	}
	return a, nil
}

// ParseHash reads 0x and 64 hex digits.
func ParseHash(s string) (Hash, bool) {
	var h Hash
	digits, prefixed := strings.CutPrefix(s, "0x")
	if !prefixed || len(digits) != 2*len(h) {
		return Hash{}, false
	}
	_, err := hex.Decode(h[:], []byte(digits))
	return h, err == nil
}

// Keccak returns the Keccak-256 of the parts, one after the other. It is not SHA3-256, whose
// padding differs.
func Keccak(parts ...[]byte) Hash {
	k := sha3.NewLegacyKeccak256()
	for _, p := range parts {
		_, _ = k.Write(p) // Write never fails
	}
	var h Hash
	k.Sum(h[:0])
	return h
}

// KeyAddress returns the account of a key.
func KeyAddress(key *secp256k1.PublicKey) Address {
	h := Keccak(key.SerializeUncompressed()[1:])
	return Address(h[12:])
}
