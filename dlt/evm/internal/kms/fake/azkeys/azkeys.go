// Package azkeys is a fake of github.com/Azure/azure-sdk-for-go/sdk/security/keyvault/azkeys.
package azkeys

import (
	"context"
	"errors"

	"github.com/dltbatch/dltbatch/dlt/evm/internal/kms/fake/key"
)

// SignatureAlgorithm is an algorithm.
type SignatureAlgorithm string

// SignatureAlgorithmES256K is the algorithm of keys on secp256k1.
const SignatureAlgorithmES256K SignatureAlgorithm = "ES256K"

// JSONWebKey is a public key.
type JSONWebKey struct{ X, Y []byte }

// KeyBundle has a key. KeyOperationResult has r and s of 32 bytes each.
type (
	KeyBundle          struct{ Key *JSONWebKey }
	KeyOperationResult struct{ Result []byte }
)

// The answers and options of the client's two methods.
type (
	GetKeyResponse struct{ KeyBundle }
	GetKeyOptions  struct{}
	SignResponse   struct{ KeyOperationResult }
	SignOptions    struct{}
)

// SignParameters ask for a signature.
type SignParameters struct {
	Algorithm *SignatureAlgorithm
	Value     []byte
}

// Client has one key.
type Client struct {
	Name, Version string
	Key           *key.Key
}

var errNotFound = errors.New("KeyNotFound")

// GetKey returns the public key.
func (c *Client) GetKey(ctx context.Context, name, version string, _ *GetKeyOptions) (GetKeyResponse, error) {
	if name != c.Name || version != c.Version {
		return GetKeyResponse{}, errNotFound
	}
	point := c.Key.Point()
	return GetKeyResponse{KeyBundle{&JSONWebKey{X: point[1:33], Y: point[33:]}}}, ctx.Err()
}

// Sign signs a digest.
func (c *Client) Sign(ctx context.Context, name, version string, in SignParameters, _ *SignOptions) (SignResponse, error) {
	if name != c.Name || version != c.Version {
		return SignResponse{}, errNotFound
	}
	if in.Algorithm == nil || *in.Algorithm != SignatureAlgorithmES256K {
		return SignResponse{}, errors.New("BadParameter: alg")
	}
	sig, err := c.Key.Raw(in.Value)
	if err != nil {
		return SignResponse{}, err
	}
	return SignResponse{KeyOperationResult{sig}}, ctx.Err()
}
