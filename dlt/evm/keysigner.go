package evm

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// KeySigner is a [Signer] with keys in the memory of this process. Whoever reads that memory has
// the keys: accounts of value should use a service that signs.
type KeySigner struct {
	keys map[string]*secp256k1.PrivateKey
}

// NewKeySigner returns a signer with these private keys, one or more, of 32 bytes each. It keeps
// no slice. The error is a [*batch.InputError], which shows no key.
func NewKeySigner(keys ...[]byte) (*KeySigner, error) {
	if len(keys) == 0 {
		return nil, &batch.InputError{Field: "keys", Value: "none", Want: "one private key or more, of 32 bytes each"}
	}
	s := &KeySigner{keys: map[string]*secp256k1.PrivateKey{}}
	for i, key := range keys {
		var k secp256k1.ModNScalar
		if len(key) != 32 || k.SetByteSlice(key) || k.IsZero() {
			return nil, &batch.InputError{Field: fmt.Sprintf("keys[%d]", i), Value: fmt.Sprintf("%d bytes", len(key)), Want: "32 bytes, a number from 1 to the order of secp256k1"}
		}
		private := secp256k1.NewPrivateKey(&k)
		s.keys[evmtx.KeyAddress(private.PubKey()).String()] = private
	}
	return s, nil
}

// Accounts returns the accounts of the keys, 0x and 40 lower-case hex digits each, in order.
func (s *KeySigner) Accounts() []string { return slices.Sorted(maps.Keys(s.keys)) }

// Sign implements [Signer]. It returns an error for an account of which s has no key.
func (s *KeySigner) Sign(_ context.Context, account string, tx Unsigned) (sig [65]byte, err error) {
	key := s.keys[account]
	if key == nil {
		return sig, fmt.Errorf("no key of account %s, only of %s", batch.Excerpt(account, 80), listAccounts(s.Accounts()))
	}
	compact := ecdsa.SignCompact(key, tx.Hash[:], false)
	copy(sig[:], compact[1:])
	sig[64] = compact[0] - 27
	return sig, nil
}

// listAccounts names some accounts, the first three of many.
func listAccounts(all []string) string {
	switch more := len(all) - 3; {
	case len(all) == 0:
		return "none"
	case more > 0:
		return fmt.Sprintf("%s and %d more", strings.Join(all[:3], ", "), more)
	}
	return strings.Join(all, ", ")
}

// String implements [fmt.Stringer] and shows no key.
func (s *KeySigner) String() string { return fmt.Sprintf("evm.KeySigner of %d accounts", len(s.keys)) }

// GoString implements [fmt.GoStringer] and shows no key.
func (s *KeySigner) GoString() string { return s.String() }
