// Package kms is a fake of cloud.google.com/go/kms/apiv1.
package kms

import (
	"context"
	"encoding/pem"
	"errors"

	"github.com/dltbatch/dltbatch/dlt/evm/internal/kms/fake/key"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/kms/fake/kmspb"
)

// CallOption is gax.CallOption.
type CallOption any

// KeyManagementClient has one key.
type KeyManagementClient struct {
	Version string
	Key     *key.Key
}

var errNotFound = errors.New("rpc error: code = NotFound")

// GetPublicKey returns the public key.
func (c *KeyManagementClient) GetPublicKey(ctx context.Context, in *kmspb.GetPublicKeyRequest, _ ...CallOption) (*kmspb.PublicKey, error) {
	if in.Name != c.Version {
		return nil, errNotFound
	}
	info, err := c.Key.Info()
	if err != nil {
		return nil, err
	}
	return &kmspb.PublicKey{Pem: string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: info}))}, ctx.Err()
}

// AsymmetricSign signs a digest.
func (c *KeyManagementClient) AsymmetricSign(ctx context.Context, in *kmspb.AsymmetricSignRequest, _ ...CallOption) (*kmspb.AsymmetricSignResponse, error) {
	if in.Name != c.Version {
		return nil, errNotFound
	}
	sig, err := c.Key.DER(in.Digest.Digest.Sha256)
	if err != nil {
		return nil, err
	}
	return &kmspb.AsymmetricSignResponse{Signature: sig}, ctx.Err()
}
