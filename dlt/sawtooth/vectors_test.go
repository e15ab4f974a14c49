package sawtooth_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
)

// The vectors of docs/ledgers/sawtooth.md#signatures.
const (
	privateKey1 = "2f1e7b7a130d7ba9da0068b3bb0ba1d79e7e77110302c9f746c3c2a63fe40088"
	publicKey1  = "026a2c795a9776f75464aa3bda3534c3154a6e91b357b1181d3f515110f84b67c5"
	privateKey2 = "51b845c2cdde22fe646148f0b51eaf5feec8c82ee921d5e0cbe7619f3bb9c62d"
	publicKey2  = "039c20a66b4ec7995391dbec1d8bb0e2c6e6fd63cd259ed5b877cb4ea98858cf6d"

	testSignature1 = "5195115d9be2547b720ee74c23dd841842875db6eae1f5da8605b050a49e702b4aa83be72ab7e3cb20f17c657011b49f4c8632be2745ba4de79e6aa05da57b35"
	testSignature2 = "d589c7b1fa5f8a4c5a389de80ae9582c2f7f2a5e21bab5450b670214e5b1c1235e9eb8102fd0ca690a8b42e2c406a682bd57f6daf6e142e5fa4b2c26ef40a490"

	vectorAddress = "1cf126cc488cca4cc3565a876f6040f8b73a7b92475be1d0b1bc453f6140fba7183b9a"
	vectorTx      = "9ba574acbe930a7c2ee07c592bf109852be220c1bd70e31737d4f5aec0f129c574f569a7e0e8136c69d0c15e8cca2731463f97239fe51cae3460ffb039ace0f6"
	vectorBatch   = "9eb2b3bc4330deebbb3b83c2952e88ecff4073b33779b8b4f0f101535bb68d36577626ed1774619d990dc7a0a0e6ec2056c739bfbb310eaa0dfb0e445a190ecf"
	vectorTxSum   = "07b1fe35154d7cbc3f18cc05578a8c0827865bca519f8fe8433483d9241819f1"
	vectorListSum = "21ae49f98bedea23e8a0a66710622cbe5c3214196dc0672914fe33ce81f52f09"
)

func mustKey(t testing.TB, s string) *sawtooth.PrivateKey {
	t.Helper()
	key, err := sawtooth.ParsePrivateKey(s)
	require.NoError(t, err)
	return key
}

func vectorTransaction() sawtooth.Transaction {
	return sawtooth.Transaction{
		FamilyName: "intkey", FamilyVersion: "1.0", Nonce: "n0",
		Inputs: []string{vectorAddress}, Outputs: []string{vectorAddress},
		Payload: []byte("hello"),
	}
}

func vectorBatchOf(t testing.TB) batch.Batch {
	t.Helper()
	b, err := sawtooth.Build(mustKey(t, privateKey1), "s", vectorTransaction())
	require.NoError(t, err)
	return b
}

// batchList returns a BatchList of these payloads.
func batchList(payloads ...[]byte) (out []byte) {
	for _, p := range payloads {
		out = protowire.AppendBytes(protowire.AppendTag(out, 1, protowire.BytesType), p)
	}
	return out
}

func sha256Hex(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

func TestSigningVectors(t *testing.T) {
	for _, v := range []struct{ key, pub, msg, sig string }{
		{privateKey1, publicKey1, "test", testSignature1},
		{privateKey2, publicKey2, "test2", testSignature2},
	} {
		key := mustKey(t, v.key)
		assert.Equal(t, v.pub, key.PublicKey())
		sig, err := key.Sign([]byte(v.msg))
		require.NoError(t, err)
		assert.Equal(t, v.sig, sig)
		require.NoError(t, sawtooth.Verify(v.pub, []byte(v.msg), v.sig))
		require.ErrorIs(t, sawtooth.Verify(v.pub, []byte(v.msg+"x"), v.sig), batch.ErrInvalidInput)
		require.Error(t, sawtooth.Verify(v.pub, []byte(v.msg), highS(t, v.sig)), "high S")
	}
}

func TestBatchListVector(t *testing.T) {
	tx, err := vectorTransaction().Sign(mustKey(t, privateKey1), "")
	require.NoError(t, err)
	assert.Len(t, tx.Header, 428)
	assert.Equal(t, vectorTxSum, sha256Hex(tx.Header))
	assert.Equal(t, vectorTx, tx.ID)

	b := vectorBatchOf(t)
	assert.EqualValues(t, vectorBatch, b.ID)
	l := batchList(b.Payload)
	assert.Len(t, l, 908)
	assert.Equal(t, vectorListSum, sha256Hex(l))
	assert.Equal(t, batch.Batch{
		ID: vectorBatch, Service: "s", Payload: b.Payload,
		Transactions:    []batch.Transaction{{ID: vectorTx, FamilyName: "intkey", FamilyVersion: "1.0", SignerPublicKey: publicKey1}},
		SignerPublicKey: publicKey1,
		Footprint:       batch.Footprint{Writes: []string{vectorAddress, batch.TransactionMark(vectorTx)}},
	}, b)
	require.NoError(t, sawtooth.Check(b))
	require.NoError(t, b.Validate())
}

func TestPrivateKeyNeverShows(t *testing.T) {
	key := mustKey(t, privateKey1)
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).InfoContext(t.Context(), "x", slog.Any("key", key))
	slog.New(slog.NewJSONHandler(&log, nil)).InfoContext(t.Context(), "x", slog.Any("key", key))
	assert.Equal(t, strings.Repeat("private key of "+publicKey1+" ", 6), fmt.Sprintf("%v %+v %#v %s %x %d ", key, key, key, key, key, key))
	for _, s := range []string{log.String()} {
		assert.NotContains(t, s, privateKey1[:16])
	}
	for _, s := range []string{"", privateKey1[:62], privateKey1 + "00", "zz" + privateKey1[2:],
		"0000000000000000000000000000000000000000000000000000000000000000",
		"fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141"} {
		_, err := sawtooth.ParsePrivateKey(s)
		require.ErrorIs(t, err, batch.ErrInvalidInput)
		if s != "" {
			assert.NotContains(t, err.Error(), s)
		}
	}
}

func TestGeneratePrivateKey(t *testing.T) {
	a, err := sawtooth.GeneratePrivateKey()
	require.NoError(t, err)
	b, err := sawtooth.GeneratePrivateKey()
	require.NoError(t, err)
	assert.NotEqual(t, a.PublicKey(), b.PublicKey())
	sig, err := a.Sign([]byte("m"))
	require.NoError(t, err)
	require.NoError(t, sawtooth.Verify(a.PublicKey(), []byte("m"), sig))
	require.Error(t, sawtooth.Verify(b.PublicKey(), []byte("m"), sig))
}
