// Package key is the key of the fakes. It signs digests. Every second signature has s in the upper
// half of the order, because a service that knows nothing of a chain makes such signatures, too.
package key

import (
	"encoding/asn1"
	"encoding/hex"
	"fmt"
	"math/big"
	"sync/atomic"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
)

// Key is a key on secp256k1.
type Key struct {
	privateKey *secp256k1.PrivateKey
	signCount  atomic.Uint32
}

// New returns the key with these 32 bytes.
func New(private []byte) *Key { return &Key{privateKey: secp256k1.PrivKeyFromBytes(private)} }

// Point returns the 65 bytes of the public key's point.
func (k *Key) Point() []byte { return k.privateKey.PubKey().SerializeUncompressed() }

// Info returns the DER of the SubjectPublicKeyInfo.
func (k *Key) Info() ([]byte, error) {
	before, err := hex.DecodeString("3056301006072a8648ce3d020106052b8104000a034200")
	return append(before, k.Point()...), err
}

// Raw returns r and s of 32 bytes each.
func (k *Key) Raw(digest []byte) ([]byte, error) {
	if len(digest) != 32 {
		return nil, fmt.Errorf("a digest of %d bytes, not 32", len(digest))
	}
	sig := ecdsa.Sign(k.privateKey, digest)
	r, s := sig.R(), sig.S()
	if k.signCount.Add(1)%2 == 0 {
		s.Negate()
	}
	rb, sb := r.Bytes(), s.Bytes()
	return append(rb[:], sb[:]...), nil
}

// DER returns the DER of r and s.
func (k *Key) DER(digest []byte) ([]byte, error) {
	raw, err := k.Raw(digest)
	if err != nil {
		return nil, err
	}
	return asn1.Marshal(struct{ R, S *big.Int }{new(big.Int).SetBytes(raw[:32]), new(big.Int).SetBytes(raw[32:])})
}
