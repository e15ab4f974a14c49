package evmtx_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math/big"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.TrimPrefix(s, "0x"))
	require.NoError(t, err)
	return b
}

func privateKey(t testing.TB, s string) *secp256k1.PrivateKey {
	return secp256k1.PrivKeyFromBytes(unhex(t, s))
}

// The first account of the well-known development mnemonic.
const devKey = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"

func TestKeyAddress(t *testing.T) {
	a := evmtx.KeyAddress(privateKey(t, devKey).PubKey())
	assert.Equal(t, "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266", a.Checksum())
	assert.Equal(t, "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266", a.String())
}

// Each line of the file has a transaction that geth 1.17.8 or anvil 1.7.1 accepted, the hash in
// the answer, and the sender that the node named for that hash (or -). Decode finds the same hash
// and sender.
func TestWhatNodesAnswered(t *testing.T) {
	file, err := os.ReadFile("testdata/accepted.txt")
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(file)), "\n")
	senders, trailing := 0, 0
	for _, line := range lines {
		part := strings.Fields(line)
		raw := unhex(t, part[0])
		tx, err := evmtx.Decode(raw)
		if errors.Is(err, evmtx.ErrTrailing) { // anvil accepted it, and answered the hash without the trailing bytes
			raw, trailing = raw[:len(raw)-1], trailing+1
		} else {
			require.NoError(t, err, line)
		}
		require.Equal(t, raw, tx.Encode())
		require.Equal(t, part[1], tx.Hash().String(), line)
		sender, err := tx.Sender()
		require.NoError(t, err, line)
		if part[2] != "-" {
			require.Equal(t, part[2], sender.String(), line)
			senders++
		}
	}
	assert.Len(t, lines, 34)
	assert.Equal(t, 6, senders)
	assert.Equal(t, 1, trailing)
}

// The examples of EIP-155, and of go-ethereum's tests of EIP-2930, have the documented hashes and
// senders.
func TestVectors(t *testing.T) {
	for _, v := range []struct{ name, raw, signingHash, sender string }{
		{
			"EIP-155",
			"f86c098504a817c800825208943535353535353535353535353535353535353535880de0b6b3a76400008025a028ef61340bd939bc2195fe537567866003e1a15d3c71ff63e1590620aa636276a067cbe9d8997f761aecb703304b3800ccf555c9f3dc64214b297fb1966a3b6d83",
			"0xdaf5a779ae972f972197303d7b574746c7ef83eadac0f2791ad23db92e4c8e53",
			"0x9d8A62f656a8d1615C1294fd71e9CFb3E4855A4F",
		},
		{
			"EIP-2930",
			"01f8630103018261a894b94f5374fce5edbc8e2a8697c15331677e6ebf0b0a825544c001a0c9519f4f2b30335884581971573fadf60c6204f59a911df35ee8a540456b2660a032f1e8e2c5dd761f9e4f88f41c8310aeaba26a8bfcdacfedfa12ec3862d37521",
			"0x49b486f0ec0a60dfbbca2d30cb07c9e8ffb2a2ff41f29a1ab6737475f6ff69f3",
			"",
		},
	} {
		raw := unhex(t, v.raw)
		tx, err := evmtx.Decode(raw)
		require.NoError(t, err, v.name)
		assert.Equal(t, raw, tx.Encode(), v.name)
		assert.Equal(t, v.signingHash, tx.SigningHash().String(), v.name)
		sender, err := tx.Sender()
		require.NoError(t, err, v.name)
		if v.sender != "" {
			assert.Equal(t, v.sender, sender.Checksum(), v.name)
		}
	}
}

// signedSamples returns a transaction of each type, by name, with every field in use.
func signedSamples(t testing.TB) map[string]*evmtx.Tx {
	to := evmtx.Address{19: 0xad}
	access := []evmtx.AccessTuple{{Address: to, Keys: []evmtx.Hash{{1}, {2}}}, {Address: evmtx.Address{3}}}
	auths := []evmtx.Authorization{{ChainID: big.NewInt(0), Address: to, Nonce: 128, YParity: 1, R: big.NewInt(5), S: big.NewInt(300)}}
	base := evmtx.Tx{ChainID: 31337, Nonce: 7, Tip: big.NewInt(2e9), FeeCap: big.NewInt(3e9), Gas: 90000, To: &to, Value: big.NewInt(1e18), Data: bytes.Repeat([]byte{0, 1}, 40)}
	legacy, unprotected, list, dynamic, code, create, blob, sent := base, base, base, base, base, base, base, base
	legacy.Tip, unprotected.Tip, list.Tip = base.FeeCap, base.FeeCap, base.FeeCap
	unprotected.ChainID = 0
	list.Type, list.Access = evmtx.AccessList, access
	dynamic.Type, dynamic.Access = evmtx.DynamicFee, access
	code.Type, code.Access, code.Auths = evmtx.SetCode, access, auths
	create.Type, create.To = evmtx.DynamicFee, nil
	blob.Type, blob.Access, blob.BlobFeeCap, blob.BlobHashes = evmtx.Blob, access, big.NewInt(1e9), []evmtx.Hash{{1, 2}, {1, 3}}
	sent.Type, sent.BlobFeeCap = evmtx.Blob, big.NewInt(1)
	sent.Sidecar, sent.BlobHashes = evmtx.ZeroBlobs(2)
	out := map[string]*evmtx.Tx{"legacy": &legacy, "unprotected": &unprotected, "list": &list, "dynamic": &dynamic, "code": &code, "create": &create, "blob": &blob, "sent": &sent}
	for _, tx := range out {
		tx.Sign(privateKey(t, devKey))
	}
	return out
}

func TestEncodeAndDecode(t *testing.T) {
	for name, tx := range signedSamples(t) {
		raw := tx.EncodeToSend()
		got, err := evmtx.Decode(raw)
		require.NoError(t, err, name)
		require.True(t, reflect.DeepEqual(tx, got), name) // without a message, which would show many blobs
		require.True(t, bytes.Equal(raw, got.EncodeToSend()), name)
		assert.Equal(t, tx.Encode(), got.Encode(), name)
		sender, err := got.Sender()
		require.NoError(t, err, name)
		assert.Equal(t, "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266", sender.Checksum(), name)
	}
}

func TestDecodeRefuses(t *testing.T) {
	good := signedSamples(t)
	dynamic := good["dynamic"].Encode()
	edit := func(f func(tx *evmtx.Tx)) []byte {
		tx := *good["dynamic"]
		f(&tx)
		return tx.Encode()
	}
	for name, c := range map[string]struct {
		raw   []byte
		err   error
		field string
		want  string
	}{
		"empty":               {nil, evmtx.ErrEncoding, "transaction", "the bytes end"},
		"no hashes of blobs":  {append([]byte{3}, dynamic[1:]...), evmtx.ErrEncoding, "blob_versioned_hashes", "list where a string"},
		"unknown type":        {append([]byte{5}, dynamic[1:]...), evmtx.ErrType, "type", "0 to 4"},
		"a string":            {[]byte{0x83, 1, 2, 3}, evmtx.ErrEncoding, "transaction", "list where a string"},
		"trailing":            {append(bytes.Clone(dynamic), 0), evmtx.ErrTrailing, "transaction", "nothing behind it"},
		"short":               {dynamic[:len(dynamic)-1], evmtx.ErrEncoding, "transaction", "end before"},
		"leading zero":        {unhex(t, "02c3820001"), evmtx.ErrEncoding, "chain_id", "shortest"},
		"long form of a byte": {unhex(t, "02c28101"), evmtx.ErrEncoding, "chain_id", "shortest"},
		"long form of a list": {unhex(t, "02f80101"), evmtx.ErrEncoding, "transaction", "shortest"},
		"zero in a length":    {unhex(t, "02f90001"), evmtx.ErrEncoding, "transaction", "shortest"},
		"number too long":     {unhex(t, "02ca89010203040506070809"), evmtx.ErrEncoding, "chain_id", "too long"},
		"too few fields":      {unhex(t, "02c20101"), evmtx.ErrEncoding, "fees", "fewer items"},
		"a list as number":    {unhex(t, "02c1c0"), evmtx.ErrEncoding, "chain_id", "list where a string"},
		"chain id":            {edit(func(tx *evmtx.Tx) { tx.ChainID = 1 << 63 }), evmtx.ErrEncoding, "chain_id", "at most 9223372036854775771"},
		"parity":              {edit(func(tx *evmtx.Tx) { tx.YParity = 2 }), evmtx.ErrEncoding, "v", `"2": want 0 or 1`},
		"huge length":         {unhex(t, "02ffffffffffffffffff"), evmtx.ErrEncoding, "transaction", "end before"},
	} {
		_, err := evmtx.Decode(c.raw)
		require.ErrorIs(t, err, c.err, name)
		require.ErrorIs(t, err, batch.ErrInvalidInput, name)
		var in *batch.InputError
		require.ErrorAs(t, err, &in, name)
		assert.Equal(t, c.field, in.Field, name)
		assert.Contains(t, err.Error(), c.want, name)
	}
	more := append([]byte{}, good["legacy"].Encode()...)
	more[1]++ // the list's length now counts one more byte
	_, err := evmtx.Decode(append(more, 1))
	require.ErrorIs(t, err, evmtx.ErrEncoding)
	assert.ErrorContains(t, err, "more items")
}

func TestSenderRefuses(t *testing.T) {
	order, _ := new(big.Int).SetString("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141", 16)
	high := func(tx *evmtx.Tx) { tx.S, tx.YParity = new(big.Int).Sub(order, tx.S), 1-tx.YParity }
	for name, c := range map[string]struct {
		edit        func(tx *evmtx.Tx)
		field, want string
	}{
		"high s":    {high, "s", "lower half"},
		"s zero":    {func(tx *evmtx.Tx) { tx.S = nil }, "s", "1 to the order"},
		"r zero":    {func(tx *evmtx.Tx) { tx.R = new(big.Int) }, "r", "1 to the order"},
		"s order":   {func(tx *evmtx.Tx) { tx.S = order }, "s", "1 to the order"},
		"r too big": {func(tx *evmtx.Tx) { tx.R = new(big.Int).Lsh(order, 1) }, "r", "1 to the order"},
		"no point":  {func(tx *evmtx.Tx) { tx.R = big.NewInt(5) }, "r", "a key has made"},
	} {
		tx := *signedSamples(t)["dynamic"]
		c.edit(&tx)
		_, err := tx.Sender()
		require.ErrorIs(t, err, evmtx.ErrSignature, name)
		var in *batch.InputError
		require.ErrorAs(t, err, &in, name)
		assert.Equal(t, c.field, in.Field, name)
		assert.Contains(t, in.Want, c.want, name)
	}
	// Mathematically, the high s is the same signature: it recovers the same key.
	tx := *signedSamples(t)["dynamic"]
	high(&tx)
	high(&tx)
	_, err := tx.Sender()
	require.NoError(t, err)
}

func TestParseAddress(t *testing.T) {
	const right = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
	for _, s := range []string{right, strings.ToLower(right), "0x" + strings.ToUpper(right[2:])} {
		a, err := evmtx.ParseAddress(s)
		require.NoError(t, err, s)
		assert.Equal(t, right, a.Checksum())
	}
	for s, want := range map[string]string{
		"":          "40 hex digits",
		right[2:]:   "40 hex digits",
		right + "0": "40 hex digits",
		"0xg39Fd6e51aad88F6F4ce6aB8827279cffFb92266": "40 hex digits",
		"0xF39Fd6e51aad88F6F4ce6aB8827279cffFb92266": "checksum of EIP-55, which is " + right,
	} {
		_, err := evmtx.ParseAddress(s)
		require.ErrorIs(t, err, batch.ErrInvalidInput, s)
		assert.ErrorContains(t, err, want, s)
	}
}

// geth names these numbers as "minimum needed" in its refusals.
func TestGas(t *testing.T) {
	to := evmtx.Address{1}
	assert.EqualValues(t, 21000, (&evmtx.Tx{To: &to}).IntrinsicGas())
	hundred := &evmtx.Tx{To: &to, Data: bytes.Repeat([]byte{1}, 100)}
	assert.EqualValues(t, 22600, hundred.IntrinsicGas())
	assert.EqualValues(t, 25000, hundred.FloorGas())
	assert.EqualValues(t, 21000+32000+2+4+16, (&evmtx.Tx{Data: []byte{0, 1}}).IntrinsicGas())
	code := signedSamples(t)["code"]
	assert.EqualValues(t, 21000+40*4+40*16+2*2400+2*1900+25000, code.IntrinsicGas())
}

func FuzzDecode(f *testing.F) {
	for _, tx := range signedSamples(f) {
		f.Add(tx.EncodeToSend())
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		tx, err := evmtx.Decode(raw)
		if err != nil {
			require.ErrorIs(t, err, batch.ErrInvalidInput)
			return
		}
		require.True(t, bytes.Equal(raw, tx.EncodeToSend()), "two encodings of one transaction")
		if _, err := tx.Sender(); err != nil {
			require.ErrorIs(t, err, evmtx.ErrSignature)
		}
		_, _ = tx.IntrinsicGas(), tx.FloorGas()
	})
}
