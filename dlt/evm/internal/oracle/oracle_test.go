package oracle

import (
	"bytes"
	"encoding/hex"
	"math/big"
	"os"
	"strings"
	"testing"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/crypto/kzg4844"
	"github.com/holiman/uint256"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// theirs is the result of decoding some bytes with go-ethereum.
type theirs struct {
	tx     *types.Transaction
	sender common.Address
	err    error // from the bytes or the signature
}

func oracle(raw []byte) (out theirs) {
	out.tx = new(types.Transaction)
	if out.err = out.tx.UnmarshalBinary(raw); out.err != nil {
		return out
	}
	out.sender, out.err = types.Sender(signer(out.tx), out.tx)
	return out
}

// signer returns go-ethereum's signer for the transaction's chain. It has none for chain 0.
func signer(tx *types.Transaction) types.Signer {
	if tx.ChainId().Sign() <= 0 {
		return types.HomesteadSigner{}
	}
	return types.LatestSignerForChainID(tx.ChainId())
}

// beyond reports whether the client refuses a transaction that go-ethereum can decode: it has no
// blobs, other blobs than its hashes name, or more than six; a chain's id that is missing or above
// the limit of EIP-2294; or a number above 256 bits. Nodes refuse such a transaction later.
func beyond(tx *types.Transaction) bool {
	if s := tx.BlobTxSidecar(); s != nil {
		proofs := len(s.Blobs)
		if s.Version == types.BlobSidecarVersion1 {
			proofs *= kzg4844.CellProofsPerBlob
		}
		if len(s.Blobs) > evmtx.MaxBlobs || len(s.Blobs) != len(s.Commitments) || len(s.Proofs) != proofs || s.ValidateBlobCommitmentHashes(tx.BlobHashes()) != nil {
			return true
		}
	}
	if tx.Protected() && tx.ChainId().Sign() == 0 && tx.Type() == types.LegacyTxType {
		return true
	}
	if !tx.ChainId().IsUint64() || tx.ChainId().Uint64() > evmtx.MaxChainID {
		return true
	}
	for _, v := range []*big.Int{tx.GasTipCap(), tx.GasFeeCap(), tx.Value()} {
		if v.BitLen() > 256 {
			return true
		}
	}
	return false
}

// FuzzBytes shows that both codecs read the same bytes, with the same hash and the same sender.
func FuzzBytes(f *testing.F) {
	for _, raw := range seeds(f) {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		ours, err := evmtx.Decode(raw)
		var sender evmtx.Address
		if err == nil {
			sender, err = ours.Sender()
		}
		their := oracle(raw)
		switch {
		case err == nil && ours.Type >= evmtx.Blob && ours.To == nil, err == nil && ours.Type != evmtx.Legacy && ours.ChainID == 0:
			// go-ethereum refuses it when decoding, and the client in Check.
		case err == nil:
			require.NoError(t, their.err, "%x", raw)
			require.Equal(t, their.tx.Hash().Hex(), ours.Hash().String(), "%x", raw)
			require.Equal(t, their.sender.Hex(), sender.Checksum(), "%x", raw)
			require.True(t, bytes.Equal(raw, ours.EncodeToSend()), "%x", raw)
			compare(t, their.tx, ours)
		case their.err == nil && !beyond(their.tx):
			require.NoError(t, err, "go-ethereum reads %x", raw)
		}
	})
}

// compare requires that both transactions have the same fields.
func compare(t *testing.T, their *types.Transaction, ours *evmtx.Tx) {
	t.Helper()
	require.Equal(t, their.Type(), ours.Type)
	require.Equal(t, their.Nonce(), ours.Nonce)
	require.Equal(t, their.Gas(), ours.Gas)
	require.Zero(t, their.GasTipCap().Cmp(ours.Tip))
	require.Zero(t, their.GasFeeCap().Cmp(ours.FeeCap))
	require.Zero(t, their.Value().Cmp(ours.Value))
	require.True(t, bytes.Equal(their.Data(), ours.Data))
	require.Equal(t, their.To() == nil, ours.To == nil)
	if ours.To != nil {
		require.Equal(t, their.To().Bytes(), ours.To[:])
	}
	if their.Protected() {
		require.Equal(t, their.ChainId().Uint64(), ours.ChainID)
	}
	require.Equal(t, signer(their).Hash(their).Hex(), ours.SigningHash().String())
	require.Len(t, ours.Access, len(their.AccessList()))
	for i, a := range their.AccessList() {
		require.Equal(t, a.Address.Bytes(), ours.Access[i].Address[:])
		require.Len(t, ours.Access[i].Keys, len(a.StorageKeys))
	}
	require.Len(t, ours.BlobHashes, len(their.BlobHashes()))
	for i, h := range their.BlobHashes() {
		require.Equal(t, h.Bytes(), ours.BlobHashes[i][:])
		require.Zero(t, their.BlobGasFeeCap().Cmp(ours.BlobFeeCap))
	}
	require.Len(t, ours.Auths, len(their.SetCodeAuthorizations()))
	for i, a := range their.SetCodeAuthorizations() {
		require.Equal(t, a.Address.Bytes(), ours.Auths[i].Address[:])
		require.Equal(t, a.Nonce, ours.Auths[i].Nonce)
		require.Equal(t, a.SigHash().Hex(), ours.Auths[i].SigningHash().String())
		their, err := a.Authority()
		account, bad := ours.Auths[i].Authority()
		require.Equal(t, err == nil, bad == nil, "%v, %v", err, bad)
		if err == nil {
			require.Equal(t, their.Hex(), account.Checksum())
		}
	}
}

// FuzzFields shows that each codec reads the transactions that the other one signs, whatever the
// fields, and that both sign the same hash.
func FuzzFields(f *testing.F) {
	f.Add(byte(0), uint64(1337), uint64(0), uint64(1), uint64(2), uint64(21000), []byte{}, []byte{1}, []byte("key"))
	f.Add(byte(1), uint64(1), uint64(7), uint64(1e9), uint64(3e9), uint64(60000), []byte("data"), []byte{}, []byte("another key"))
	f.Add(byte(2), uint64(evmtx.MaxChainID), uint64(127), uint64(0), uint64(1<<63), uint64(1<<24), bytes.Repeat([]byte{0}, 60), []byte{0x80}, []byte{1})
	f.Add(byte(3), uint64(7), uint64(1), uint64(3), uint64(1<<40), uint64(21000), []byte{1}, []byte{}, []byte{3})
	f.Add(byte(4), uint64(10), uint64(128), uint64(255), uint64(256), uint64(1<<20), []byte{0x7f}, bytes.Repeat([]byte{0xff}, 32), []byte{2})
	f.Fuzz(func(t *testing.T, kind byte, chain, nonce, tip, fee, gas uint64, data, value, secret []byte) {
		if len(value) > 32 || len(data) > 1<<16 {
			t.Skip()
		}
		kind %= evmtx.SetCode + 1
		chain = max(1, chain%(evmtx.MaxChainID+1))
		seed := crypto.Keccak256(secret)
		ours := fields(kind, chain, nonce, tip, fee, gas, data, value, seed)
		key := secp256k1.PrivKeyFromBytes(seed)
		ours.Sign(key)
		raw := ours.EncodeToSend()
		their := oracle(raw)
		require.NoError(t, their.err)
		require.Equal(t, their.tx.Hash().Hex(), ours.Hash().String())
		compare(t, their.tx, ours)
		require.Equal(t, evmtx.KeyAddress(key.PubKey()).Checksum(), their.sender.Hex())

		again, err := their.tx.MarshalBinary()
		require.NoError(t, err)
		require.True(t, bytes.Equal(raw, again))
		private, err := crypto.ToECDSA(key.Serialize())
		require.NoError(t, err)
		signed, err := types.SignTx(their.tx, signer(their.tx), private)
		require.NoError(t, err)
		raw, err = signed.MarshalBinary()
		require.NoError(t, err)
		read, err := evmtx.Decode(raw)
		require.NoError(t, err)
		compare(t, signed, read)
		sender, err := read.Sender()
		require.NoError(t, err)
		require.Equal(t, their.sender.Hex(), sender.Checksum())
	})
}

// fields returns a transaction with these fields, and with lists drawn from the seed.
func fields(kind byte, chain, nonce, tip, fee, gas uint64, data, value, seed []byte) *evmtx.Tx {
	to := evmtx.Address(seed[:20])
	tx := &evmtx.Tx{
		Type: kind, ChainID: chain, Nonce: nonce, Tip: new(big.Int).SetUint64(tip), FeeCap: new(big.Int).SetUint64(fee), Gas: gas,
		To: &to, Value: new(big.Int).SetBytes(value), Data: data,
	}
	if kind == evmtx.Legacy || kind == evmtx.AccessList {
		tx.Tip = tx.FeeCap
	}
	if seed[20]%4 == 0 && kind < evmtx.Blob {
		tx.To = nil
	}
	if kind == evmtx.Blob {
		tx.BlobFeeCap = new(big.Int).SetUint64(fee)
		tx.Sidecar, tx.BlobHashes = evmtx.ZeroBlobs(int(seed[27] % (evmtx.MaxBlobs + 1)))
	}
	if kind != evmtx.Legacy {
		for i := range seed[21] % 4 {
			a := evmtx.AccessTuple{Address: evmtx.Address{i, seed[22]}}
			for k := range seed[23] % 3 {
				a.Keys = append(a.Keys, evmtx.Hash{k})
			}
			tx.Access = append(tx.Access, a)
		}
	}
	if kind == evmtx.SetCode {
		for i := range seed[24] % 3 {
			tx.Auths = append(tx.Auths, evmtx.Authorization{
				ChainID: big.NewInt(int64(i)), Address: to, Nonce: uint64(seed[25]), YParity: seed[26] % 2,
				R: new(big.Int).SetBytes(seed), S: new(big.Int).SetBytes(seed[8:]),
			})
		}
	}
	return tx
}

// seeds returns the transactions that were sent to real nodes.
func seeds(f *testing.F) (all [][]byte) {
	text, err := os.ReadFile("../evmtx/testdata/accepted.txt")
	require.NoError(f, err)
	for line := range strings.Lines(string(text)) {
		raw, err := hex.DecodeString(strings.TrimPrefix(strings.Fields(line)[0], "0x"))
		require.NoError(f, err)
		all = append(all, raw, raw[:len(raw)-1], append(raw[:len(raw):len(raw)], 0))
	}
	return all
}

// TestBlobs shows that the client reads blobs with real proofs as go-ethereum writes them, in both
// versions, and writes them in the same way. go-ethereum's verifier accepts the proofs of blobs of
// zeros, which other tests use.
func TestBlobs(t *testing.T) {
	private, err := crypto.GenerateKey()
	require.NoError(t, err)
	blobs := make([]kzg4844.Blob, 2)
	for i := range blobs[1] {
		if i%32 > 0 { // so that the field element is below the order
			blobs[1][i] = byte(i * 7)
		}
	}
	for version := range byte(2) {
		sidecar := &types.BlobTxSidecar{Version: version, Blobs: blobs}
		for i := range blobs {
			commitment, err := kzg4844.BlobToCommitment(&blobs[i])
			require.NoError(t, err)
			sidecar.Commitments = append(sidecar.Commitments, commitment)
			proofs := make([]kzg4844.Proof, 1)
			if version == types.BlobSidecarVersion1 {
				proofs, err = kzg4844.ComputeCellProofs(&blobs[i])
			} else {
				proofs[0], err = kzg4844.ComputeBlobProof(&blobs[i], commitment)
			}
			require.NoError(t, err)
			sidecar.Proofs = append(sidecar.Proofs, proofs...)
		}
		tx, err := types.SignNewTx(private, types.NewCancunSigner(big.NewInt(7)), &types.BlobTx{
			ChainID: uint256.NewInt(7), Gas: 21000, GasFeeCap: uint256.NewInt(9), GasTipCap: uint256.NewInt(1), BlobFeeCap: uint256.NewInt(3), BlobHashes: sidecar.BlobHashes(), Sidecar: sidecar,
		})
		require.NoError(t, err)
		raw, err := tx.MarshalBinary()
		require.NoError(t, err)
		ours, err := evmtx.Decode(raw)
		require.NoError(t, err)
		require.Equal(t, tx.Hash().Hex(), ours.Hash().String())
		compare(t, tx, ours)
		require.True(t, bytes.Equal(raw, ours.EncodeToSend()))

		zeros, hashes := evmtx.ZeroBlobs(1)
		require.Equal(t, tx.BlobHashes()[0].Bytes(), hashes[0][:])
		require.Equal(t, sidecar.Commitments[0][:], zeros.Commitments[0])
		require.Equal(t, sidecar.Proofs[0][:], zeros.Proofs[0])
	}
}
