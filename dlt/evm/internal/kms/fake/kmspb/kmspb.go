// Package kmspb is a fake of cloud.google.com/go/kms/apiv1/kmspb.
package kmspb

// GetPublicKeyRequest names the version of a key.
type GetPublicKeyRequest struct{ Name string }

// PublicKey is a public key in PEM.
type PublicKey struct{ Pem string }

// GetPem returns the PEM; "" if p is nil.
func (p *PublicKey) GetPem() string {
	if p == nil {
		return ""
	}
	return p.Pem
}

// Digest is the hash to be signed.
type Digest struct{ Digest *Digest_Sha256 }

// Digest_Sha256 has the 32 bytes of a digest. The name is the SDK's.
type Digest_Sha256 struct{ Sha256 []byte } //nolint:revive,staticcheck // as the SDK names it

// AsymmetricSignRequest asks for a signature.
type AsymmetricSignRequest struct {
	Name   string
	Digest *Digest
}

// AsymmetricSignResponse has the DER of a signature.
type AsymmetricSignResponse struct{ Signature []byte }

// GetSignature returns the signature; nil if r is nil.
func (r *AsymmetricSignResponse) GetSignature() []byte {
	if r == nil {
		return nil
	}
	return r.Signature
}
