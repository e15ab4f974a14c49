package kms

import (
	"context"
	"encoding/pem"
	"errors"

	"github.com/dltbatch/dltbatch/dlt/evm"
	kms "github.com/dltbatch/dltbatch/dlt/evm/internal/kms/fake/gkms"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/kms/fake/kmspb"
)

// Google is the snippet of docs/evm.md for cloud.google.com/go/kms/apiv1. The key is of the
// algorithm EC_SIGN_SECP256K1_SHA256.
func Google(ctx context.Context, client *kms.KeyManagementClient, version string) (*evm.DigestSigner, error) {
	key, err := client.GetPublicKey(ctx, &kmspb.GetPublicKeyRequest{Name: version})
	if err != nil {
		return nil, err
	}
	info, _ := pem.Decode([]byte(key.GetPem()))
	if info == nil {
		return nil, errors.New("the public key is no PEM")
	}
	account, err := evm.AddressOfKey(info.Bytes)
	if err != nil {
		return nil, err
	}
	return evm.NewDigestSigner(account, func(ctx context.Context, digest [32]byte) ([]byte, error) {
		out, err := client.AsymmetricSign(ctx, &kmspb.AsymmetricSignRequest{
			Name: version, Digest: &kmspb.Digest{Digest: &kmspb.Digest_Sha256{Sha256: digest[:]}},
		})
		return out.GetSignature(), err
	})
}
