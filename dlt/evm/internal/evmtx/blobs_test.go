package evmtx_test

import (
	"bytes"
	"math/big"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// signedWithBlobs returns a signed transaction with blobs of zeros.
func signedWithBlobs(t testing.TB, n int) *evmtx.Tx {
	tx := &evmtx.Tx{Type: evmtx.Blob, ChainID: 1, Tip: big.NewInt(1), FeeCap: big.NewInt(2), Gas: 21000, To: &evmtx.Address{9}, Value: new(big.Int), BlobFeeCap: big.NewInt(1)}
	tx.Sidecar, tx.BlobHashes = evmtx.ZeroBlobs(n)
	tx.Sign(privateKey(t, devKey))
	return tx
}

// The hash of a transaction is the same with its blobs and without, in both versions of the
// sidecar.
func TestHashWithoutBlobs(t *testing.T) {
	tx := signedWithBlobs(t, evmtx.MaxBlobs)
	for version, proofs := range [][][]byte{tx.Sidecar.Proofs[:evmtx.MaxBlobs], tx.Sidecar.Proofs} {
		tx.Sidecar.Version, tx.Sidecar.Proofs = uint64(version), proofs
		raw := tx.EncodeToSend()
		assert.Less(t, len(raw), 1<<20)
		read, err := evmtx.Decode(raw)
		require.NoError(t, err)
		assert.Len(t, read.Sidecar.Blobs, evmtx.MaxBlobs)
		assert.Equal(t, evmtx.Keccak(tx.Encode()), read.Hash())
		bare, err := evmtx.Decode(tx.Encode())
		require.NoError(t, err)
		assert.Nil(t, bare.Sidecar)
		assert.Equal(t, read.Hash(), bare.Hash())
	}
}

func TestDecodeRefusesBlobs(t *testing.T) {
	point := bytes.Repeat([]byte{0xc0}, 48)
	for name, c := range map[string]struct {
		edit        func(tx *evmtx.Tx)
		err         error
		field, want string
	}{
		"a blob too many":         {func(tx *evmtx.Tx) { tx.Sidecar.Blobs = append(tx.Sidecar.Blobs, tx.Sidecar.Blobs[0]) }, evmtx.ErrBlobs, "blobs", "2: the transaction has 2 hashes"},
		"no blobs":                {func(tx *evmtx.Tx) { tx.Sidecar.Blobs = nil }, evmtx.ErrBlobs, "blobs", "2: the"},
		"no commitments":          {func(tx *evmtx.Tx) { tx.Sidecar.Commitments = nil }, evmtx.ErrBlobs, "commitments", "2: the"},
		"a proof too few":         {func(tx *evmtx.Tx) { tx.Sidecar.Proofs = tx.Sidecar.Proofs[1:] }, evmtx.ErrBlobs, "proofs", "256: the transaction has 2 hashes of blobs, and the sidecar is of version 1"},
		"proofs of version 1":     {func(tx *evmtx.Tx) { tx.Sidecar.Version = 0 }, evmtx.ErrBlobs, "proofs", "2: the"},
		"a hash too few":          {func(tx *evmtx.Tx) { tx.BlobHashes = tx.BlobHashes[1:] }, evmtx.ErrBlobs, "blobs", "1: the"},
		"another hash":            {func(tx *evmtx.Tx) { tx.BlobHashes[1][31]++ }, evmtx.ErrBlobs, "blob_versioned_hashes[1]", "the hash of commitments[1]"},
		"a hash without a scheme": {func(tx *evmtx.Tx) { tx.BlobHashes[1][0] = 0 }, evmtx.ErrBlobs, "blob_versioned_hashes[1]", "the hash of commitments[1]"},
		"another commitment":      {func(tx *evmtx.Tx) { tx.Sidecar.Commitments[0] = point }, evmtx.ErrBlobs, "blob_versioned_hashes[0]", "the hash of commitments[0]"},
		"version 2":               {func(tx *evmtx.Tx) { tx.Sidecar.Version = 2 }, evmtx.ErrEncoding, "blobs.version", `"2": want 1 (EIP-7594), or none`},
		"a short blob":            {func(tx *evmtx.Tx) { tx.Sidecar.Blobs[1] = point }, evmtx.ErrEncoding, "blobs[1]", `"48 bytes": want 131072 bytes`},
		"a long proof":            {func(tx *evmtx.Tx) { tx.Sidecar.Proofs[7] = append(point, 0) }, evmtx.ErrEncoding, "proofs[7]", `"49 bytes": want 48 bytes`},
		"seven":                   {func(tx *evmtx.Tx) { tx.Sidecar, tx.BlobHashes = evmtx.ZeroBlobs(7) }, evmtx.ErrEncoding, "blobs", `"more than 6": want at most 6, those of 6 blobs`},
	} {
		tx := signedWithBlobs(t, 2)
		c.edit(tx)
		_, err := evmtx.Decode(tx.EncodeToSend())
		require.ErrorIs(t, err, c.err, name)
		var in *batch.InputError
		require.ErrorAs(t, err, &in, name)
		assert.Equal(t, c.field, in.Field, name)
		assert.Contains(t, err.Error(), c.want, name)
	}
	_, err := evmtx.Decode(append(signedWithBlobs(t, 1).EncodeToSend(), 0))
	require.ErrorIs(t, err, evmtx.ErrTrailing)
}
