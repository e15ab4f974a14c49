package kms

import (
	"context"

	"github.com/dltbatch/dltbatch/dlt/evm"
	kms "github.com/dltbatch/dltbatch/dlt/evm/internal/kms/fake/awskms"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/kms/fake/types"
)

// AWS is the snippet of docs/evm.md for github.com/aws/aws-sdk-go-v2/service/kms. The key is of
// the spec ECC_SECG_P256K1.
func AWS(ctx context.Context, client *kms.Client, keyID string) (*evm.DigestSigner, error) {
	key, err := client.GetPublicKey(ctx, &kms.GetPublicKeyInput{KeyId: &keyID})
	if err != nil {
		return nil, err
	}
	account, err := evm.AddressOfKey(key.PublicKey)
	if err != nil {
		return nil, err
	}
	return evm.NewDigestSigner(account, func(ctx context.Context, digest [32]byte) ([]byte, error) {
		out, err := client.Sign(ctx, &kms.SignInput{
			KeyId: &keyID, Message: digest[:], MessageType: types.MessageTypeDigest, SigningAlgorithm: types.SigningAlgorithmSpecEcdsaSha256,
		})
		if err != nil {
			return nil, err
		}
		return out.Signature, nil
	})
}
