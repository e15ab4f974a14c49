// Package kms is a fake of github.com/aws/aws-sdk-go-v2/service/kms.
package kms

import (
	"context"
	"crypto/sha256"
	"errors"

	"github.com/dltbatch/dltbatch/dlt/evm/internal/kms/fake/key"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/kms/fake/types"
)

// Options are the options of one call.
type Options struct{}

// Client has one key.
type Client struct {
	ID  string
	Key *key.Key
}

// GetPublicKeyInput names the key to return.
type GetPublicKeyInput struct{ KeyId *string } //nolint:staticcheck // the SDK's name

// GetPublicKeyOutput has the DER of a SubjectPublicKeyInfo.
type GetPublicKeyOutput struct{ PublicKey []byte }

// SignInput asks for a signature.
type SignInput struct {
	KeyId            *string //nolint:staticcheck // the SDK's name
	Message          []byte
	MessageType      types.MessageType
	SigningAlgorithm types.SigningAlgorithmSpec
}

// SignOutput has the DER of a signature.
type SignOutput struct{ Signature []byte }

var errNotFound = errors.New("NotFoundException")

// GetPublicKey returns the public key.
func (c *Client) GetPublicKey(ctx context.Context, in *GetPublicKeyInput, _ ...func(*Options)) (*GetPublicKeyOutput, error) {
	if in.KeyId == nil || *in.KeyId != c.ID {
		return nil, errNotFound
	}
	info, err := c.Key.Info()
	if err != nil {
		return nil, err
	}
	return &GetPublicKeyOutput{PublicKey: info}, ctx.Err()
}

// Sign signs a digest, or the SHA-256 of a message of another type.
func (c *Client) Sign(ctx context.Context, in *SignInput, _ ...func(*Options)) (*SignOutput, error) {
	if in.KeyId == nil || *in.KeyId != c.ID {
		return nil, errNotFound
	}
	if in.SigningAlgorithm != types.SigningAlgorithmSpecEcdsaSha256 {
		return nil, errors.New("InvalidKeyUsageException")
	}
	digest := in.Message
	if in.MessageType != types.MessageTypeDigest {
		sum := sha256.Sum256(in.Message)
		digest = sum[:]
	}
	sig, err := c.Key.DER(digest)
	if err != nil {
		return nil, err
	}
	return &SignOutput{Signature: sig}, ctx.Err()
}
