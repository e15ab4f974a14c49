package kms

import (
	"context"

	"github.com/dltbatch/dltbatch/dlt/evm"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/kms/fake/pkcs11"
)

// PKCS11 is the snippet of docs/evm.md for github.com/miekg/pkcs11. Each account needs its own
// session: two calls at once in one session would mix up their signatures.
func PKCS11(p *pkcs11.Ctx, session pkcs11.SessionHandle, private, public pkcs11.ObjectHandle) (*evm.DigestSigner, error) {
	point, err := p.GetAttributeValue(session, public, []*pkcs11.Attribute{pkcs11.NewAttribute(pkcs11.CKA_EC_POINT, nil)})
	if err != nil {
		return nil, err
	}
	account, err := evm.AddressOfKey(point[0].Value)
	if err != nil {
		return nil, err
	}
	return evm.NewDigestSigner(account, func(_ context.Context, digest [32]byte) ([]byte, error) {
		if err := p.SignInit(session, []*pkcs11.Mechanism{pkcs11.NewMechanism(pkcs11.CKM_ECDSA, nil)}, private); err != nil {
			return nil, err
		}
		return p.Sign(session, digest[:])
	})
}
