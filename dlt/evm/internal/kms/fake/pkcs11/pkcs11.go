// Package pkcs11 is a fake of github.com/miekg/pkcs11.
package pkcs11

import (
	"errors"

	"github.com/dltbatch/dltbatch/dlt/evm/internal/kms/fake/key"
)

// The names of PKCS#11 that a signer needs. The values are the standard's.
const (
	CKM_ECDSA    = 0x00001041 //nolint:revive,staticcheck // as the standard names it
	CKA_EC_POINT = 0x00000181 //nolint:revive,staticcheck // as the standard names it
)

// SessionHandle is a session, and ObjectHandle a key.
type (
	SessionHandle uint
	ObjectHandle  uint
)

// Mechanism is an algorithm.
type Mechanism struct{ Mechanism uint }

// NewMechanism returns the mechanism of an algorithm.
func NewMechanism(mechanism uint, _ any) *Mechanism { return &Mechanism{Mechanism: mechanism} }

// Attribute is an attribute of a key.
type Attribute struct {
	Type  uint
	Value []byte
}

// NewAttribute returns an attribute without a value.
func NewAttribute(typ uint, _ any) *Attribute { return &Attribute{Type: typ} }

// Ctx is a token with one key, which has the two handles, and one session.
type Ctx struct {
	Session         SessionHandle
	Private, Public ObjectHandle
	Key             *key.Key
	hasBegun        bool
}

// GetAttributeValue returns attributes of the public key.
func (c *Ctx) GetAttributeValue(session SessionHandle, object ObjectHandle, want []*Attribute) ([]*Attribute, error) {
	if session != c.Session || object != c.Public || len(want) != 1 || want[0].Type != CKA_EC_POINT {
		return nil, errors.New("CKR_ATTRIBUTE_TYPE_INVALID")
	}
	return []*Attribute{{Type: CKA_EC_POINT, Value: append([]byte{4, 65}, c.Key.Point()...)}}, nil
}

// SignInit begins a signature.
func (c *Ctx) SignInit(session SessionHandle, m []*Mechanism, private ObjectHandle) error {
	if session != c.Session || private != c.Private || len(m) != 1 || m[0].Mechanism != CKM_ECDSA {
		return errors.New("CKR_MECHANISM_INVALID")
	}
	if c.hasBegun {
		return errors.New("CKR_OPERATION_ACTIVE")
	}
	c.hasBegun = true
	return nil
}

// Sign ends a signature, and returns r and s of 32 bytes each.
func (c *Ctx) Sign(session SessionHandle, digest []byte) ([]byte, error) {
	if session != c.Session || !c.hasBegun {
		return nil, errors.New("CKR_OPERATION_NOT_INITIALIZED")
	}
	c.hasBegun = false
	return c.Key.Raw(digest)
}
