package kms

import (
	"context"

	"github.com/dltbatch/dltbatch/dlt/evm"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/kms/fake/azkeys"
)

// Azure is the snippet of docs/evm.md for
// github.com/Azure/azure-sdk-for-go/sdk/security/keyvault/azkeys. The key is on the curve P-256K.
func Azure(ctx context.Context, client *azkeys.Client, name, version string) (*evm.DigestSigner, error) {
	key, err := client.GetKey(ctx, name, version, nil)
	if err != nil {
		return nil, err
	}
	account, err := evm.AddressOfKey(append(append([]byte{4}, key.Key.X...), key.Key.Y...))
	if err != nil {
		return nil, err
	}
	algorithm := azkeys.SignatureAlgorithmES256K
	return evm.NewDigestSigner(account, func(ctx context.Context, digest [32]byte) ([]byte, error) {
		out, err := client.Sign(ctx, name, version, azkeys.SignParameters{Algorithm: &algorithm, Value: digest[:]}, nil)
		return out.Result, err
	})
}
