package kms_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/dlt/evm"
	"github.com/dltbatch/dltbatch/dlt/evm/evmtest"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/kms"
	awskms "github.com/dltbatch/dltbatch/dlt/evm/internal/kms/fake/awskms"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/kms/fake/azkeys"
	gkms "github.com/dltbatch/dltbatch/dlt/evm/internal/kms/fake/gkms"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/kms/fake/key"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/kms/fake/pkcs11"
)

// Each snippet returns a signer of the right account, whose signatures are those of the account's
// key.
func TestKeyServiceSnippetsSign(t *testing.T) {
	account := evmtest.Dev(0)
	want, err := evm.NewKeySigner(account.Key())
	require.NoError(t, err)
	k := key.New(account.Key())
	for name, open := range map[string]func(ctx context.Context) (*evm.DigestSigner, error){
		"aws": func(ctx context.Context) (*evm.DigestSigner, error) {
			return kms.AWS(ctx, &awskms.Client{ID: "alias/payments", Key: k}, "alias/payments")
		},
		"google": func(ctx context.Context) (*evm.DigestSigner, error) {
			return kms.Google(ctx, &gkms.KeyManagementClient{Version: "projects/p/cryptoKeyVersions/1", Key: k}, "projects/p/cryptoKeyVersions/1")
		},
		"azure": func(ctx context.Context) (*evm.DigestSigner, error) {
			return kms.Azure(ctx, &azkeys.Client{Name: "payments", Version: "1", Key: k}, "payments", "1")
		},
		"pkcs11": func(context.Context) (*evm.DigestSigner, error) {
			return kms.PKCS11(&pkcs11.Ctx{Session: 7, Private: 1, Public: 2, Key: k}, 7, 1, 2)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := open(t.Context())
			require.NoError(t, err)
			assert.Equal(t, account.Address(), s.Account())
			for i := range byte(4) { // s in both halves of the order
				tx := evm.Unsigned{Hash: [32]byte{i, 1}}
				got, err := s.Sign(t.Context(), s.Account(), tx)
				require.NoError(t, err)
				expected, err := want.Sign(t.Context(), s.Account(), tx)
				require.NoError(t, err)
				assert.Equal(t, expected, got)
			}
		})
	}
}
