package evm_test

import (
	"bytes"
	"math/big"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/evm"
	"github.com/dltbatch/dltbatch/dlt/evm/evmtest"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

func newTestClient(t testing.TB, url string, o *evm.Options) *evm.Client {
	t.Helper()
	c, err := evm.New(url, 1337, o)
	require.NoError(t, err)
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// signedBatch returns the batch of a transaction. f changes the valid transaction before it is
// signed.
func signedBatch(f func(tx *evmtx.Tx)) batch.Batch {
	to := evmtx.Address{19: 9}
	tx := &evmtx.Tx{Type: evmtx.DynamicFee, ChainID: 1337, Tip: big.NewInt(1), FeeCap: big.NewInt(2), Gas: 21000, To: &to, Value: big.NewInt(3)}
	if f != nil {
		f(tx)
	}
	tx.Sign(secp256k1.PrivKeyFromBytes(evmtest.Dev(0).Key()))
	return batch.Batch{ID: batch.ID(tx.Hash().String()), Service: batch.ServiceID(evmtest.Dev(0).Address()), Payload: tx.EncodeToSend()}
}

func TestCheckAccepts(t *testing.T) {
	c := newTestClient(t, "http://localhost:8545", nil)
	auth := []evmtx.Authorization{{ChainID: big.NewInt(0), R: big.NewInt(1), S: big.NewInt(1)}}
	for name, b := range map[string]batch.Batch{
		"type 2":   signedBatch(nil),
		"type 0":   signedBatch(func(tx *evmtx.Tx) { tx.Type, tx.Tip = evmtx.Legacy, tx.FeeCap }),
		"type 1":   signedBatch(func(tx *evmtx.Tx) { tx.Type, tx.Tip = evmtx.AccessList, tx.FeeCap }),
		"type 4":   signedBatch(func(tx *evmtx.Tx) { tx.Type, tx.Auths, tx.Gas = evmtx.SetCode, auth, 46000 }),
		"creation": signedBatch(func(tx *evmtx.Tx) { tx.To, tx.Data, tx.Gas = nil, []byte{1}, 60000 }),
		"blobs":    signedBatch(withBlobs(evmtx.MaxBlobs)),
		"blobs of version 0": signedBatch(func(tx *evmtx.Tx) {
			withBlobs(1)(tx)
			tx.Sidecar.Version, tx.Sidecar.Proofs = 0, tx.Sidecar.Proofs[:1]
		}),
	} {
		assert.NoError(t, c.Check(b), name)
		again, err := evm.NewBatch(b.Payload)
		require.NoError(t, err, name)
		assert.True(t, reflect.DeepEqual(b, again), name)
	}
}

// withBlobs returns a change that gives a transaction type 3 and n blobs.
func withBlobs(n int) func(tx *evmtx.Tx) {
	return func(tx *evmtx.Tx) {
		tx.Type, tx.BlobFeeCap = evmtx.Blob, big.NewInt(1)
		tx.Sidecar, tx.BlobHashes = evmtx.ZeroBlobs(n)
	}
}

// An error names each mistake with its field, the value and what was expected, before anything is
// stored.
func TestCheckRefuses(t *testing.T) {
	c := newTestClient(t, "http://localhost:8545", nil)
	order, _ := new(big.Int).SetString("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141", 16)
	payload := func(f func(b []byte) []byte) batch.Batch {
		b := signedBatch(nil)
		b.Payload = f(bytes.Clone(b.Payload))
		return b
	}
	high := func(b []byte) []byte {
		tx, err := evmtx.Decode(b)
		require.NoError(t, err)
		tx.S, tx.YParity = new(big.Int).Sub(order, tx.S), 1-tx.YParity
		return tx.Encode()
	}
	other := signedBatch(nil)
	other.Service = batch.ServiceID(evmtest.Dev(1).Address())
	upper := signedBatch(nil)
	upper.ID = batch.ID(strings.ToUpper(string(upper.ID)))
	for name, r := range map[string]struct {
		b                  batch.Batch
		field, value, want string
	}{
		"empty":            {payload(func([]byte) []byte { return nil }), "transaction", "", "canonical RLP"},
		"text":             {payload(func(b []byte) []byte { return []byte(toHex(b)) }), "payload", "0x...", "not their hex digits"},
		"too long":         {payload(func(b []byte) []byte { return append(b, make([]byte, 128<<10)...) }), "payload", "131175 bytes", "131072 at most"},
		"a trailing byte":  {payload(func(b []byte) []byte { return append(b, 0) }), "transaction", "104 bytes", "103: nothing behind it"},
		"unknown type":     {payload(func(b []byte) []byte { b[0] = 5; return b }), "type", "5", "0 to 4"},
		"no sidecar":       {signedBatch(func(tx *evmtx.Tx) { withBlobs(1)(tx); tx.Sidecar = nil }), "blobs", "none", "1 to 6 blobs"},
		"no blobs":         {signedBatch(withBlobs(0)), "blobs", "none", "1 to 6 blobs"},
		"other blobs":      {signedBatch(func(tx *evmtx.Tx) { withBlobs(1)(tx); tx.BlobHashes[0][1]++ }), "blob_versioned_hashes[0]", "", "the hash of commitments[0]"},
		"blobs for free":   {signedBatch(func(tx *evmtx.Tx) { withBlobs(1)(tx); tx.BlobFeeCap = nil }), "max_fee_per_blob_gas", "0", "1 wei at least"},
		"type 3 creates":   {signedBatch(func(tx *evmtx.Tx) { withBlobs(1)(tx); tx.To, tx.Gas = nil, 60000 }), "to", "", "of type 3 creates no contract"},
		"blobs and a MiB":  {signedBatch(func(tx *evmtx.Tx) { withBlobs(6)(tx); tx.Data = make([]byte, 250_000) }), "payload", "", "1048576 at most"},
		"not canonical":    {payload(func(b []byte) []byte { b[3] = 0x81; return b }), "chain_id", "", "canonical RLP"},
		"high s":           {payload(high), "s", "", "lower half"},
		"no chain":         {signedBatch(func(tx *evmtx.Tx) { tx.Type, tx.ChainID, tx.Tip = evmtx.Legacy, 0, tx.FeeCap }), "chain_id", "none", "1337"},
		"wrong chain":      {signedBatch(func(tx *evmtx.Tx) { tx.ChainID = 1 }), "chain_id", "1", "1337"},
		"fee above cap":    {signedBatch(func(tx *evmtx.Tx) { tx.Tip = big.NewInt(5) }), "max_priority_fee_per_gas", "5", "at most max_fee_per_gas, 2"},
		"last nonce":       {signedBatch(func(tx *evmtx.Tx) { tx.Nonce = 1<<64 - 1 }), "nonce", "18446744073709551615", "EIP-2681"},
		"little gas":       {signedBatch(func(tx *evmtx.Tx) { tx.Gas = 20999 }), "gas", "20999", "21000 at least"},
		"below the floor":  {signedBatch(func(tx *evmtx.Tx) { tx.Gas, tx.Data = 24999, bytes.Repeat([]byte{1}, 100) }), "gas", "24999", "25000 at least"},
		"no authorization": {signedBatch(func(tx *evmtx.Tx) { tx.Type = evmtx.SetCode }), "authorization_list", "empty", "one"},
		"type 4 creates":   {signedBatch(func(tx *evmtx.Tx) { tx.Type, tx.To = evmtx.SetCode, nil }), "to", "", "an account"},
		"wrong sender":     {other, "service", evmtest.Dev(1).Address(), evmtest.Dev(0).Address() + ", the account that signed"},
		"wrong id":         {upper, "id", string(upper.ID), "the hash of the payload"},
	} {
		err := c.Check(r.b)
		require.ErrorIs(t, err, batch.ErrInvalidInput, name)
		var inputErr *batch.InputError
		require.ErrorAs(t, err, &inputErr, name)
		assert.Equal(t, r.field, inputErr.Field, name)
		if r.value != "" {
			assert.Equal(t, r.value, inputErr.Value, name)
		}
		assert.Contains(t, inputErr.Want, r.want, name)
		assert.Equal(t, r.b.Key(), inputErr.Key, name)
	}
	old := newTestClient(t, "http://localhost:8545", &evm.Options{NoFloorGas: true})
	b := signedBatch(func(tx *evmtx.Tx) { tx.Gas, tx.Data = 22600, bytes.Repeat([]byte{1}, 100) })
	assert.NoError(t, old.Check(b), "a chain from before Prague")
	assert.Error(t, c.Check(b))
}

func TestNewRefuses(t *testing.T) {
	const secret = "abcdef0123456789"
	for name, c := range map[string]struct {
		url     string
		chain   uint64
		options evm.Options
		want    string
	}{
		"no scheme":  {url: "localhost:8545/" + secret, chain: 1, want: "http:// or https://"},
		"no host":    {url: "http:///" + secret, chain: 1, want: "http:// or https://"},
		"websocket":  {url: "wss://host/" + secret, chain: 1, want: "http:// or https://"},
		"control":    {url: "http://host/\x7f" + secret, chain: 1, want: "http:// or https://"},
		"chain 0":    {url: "http://host", want: "1 to 9223372036854775771"},
		"fallback":   {url: "http://host", chain: 1, options: evm.Options{Fallbacks: []string{"ftp://host/" + secret}}, want: "Options.Fallbacks[0]"},
		"fallbacks":  {url: "http://host", chain: 1, options: evm.Options{Fallbacks: make([]string, 64)}, want: "63 at most"},
		"genesis":    {url: "http://host", chain: 1, options: evm.Options{Genesis: "0x12"}, want: "64 hex digits"},
		"grace":      {url: "http://host", chain: 1, options: evm.Options{Grace: -1}, want: "Options.Grace"},
		"heads":      {url: "http://host", chain: 1, options: evm.Options{HeadInterval: -1}, want: "Options.HeadInterval"},
		"in flight":  {url: "http://host", chain: 1, options: evm.Options{MaxInFlightPerService: -1}, want: "0 (default) or more"},
		"header":     {url: "http://host", chain: 1, options: evm.Options{Header: http.Header{"Host": {secret}}}, want: "no header that the client sets itself"},
		"header two": {url: "http://host", chain: 1, options: evm.Options{Header: http.Header{"A b": {secret}}}, want: "the name of a header"},
		"value":      {url: "http://host", chain: 1, options: evm.Options{Header: http.Header{"A": {secret + "\n"}}}, want: "without control characters"},
	} {
		_, err := evm.New(c.url, c.chain, &c.options)
		require.ErrorIs(t, err, batch.ErrInvalidInput, name)
		assert.ErrorContains(t, err, c.want, name)
		assert.NotContains(t, err.Error(), secret, name)
	}
}

// The client has the default traits, and each finality changes the ones that depend on it.
func TestTraits(t *testing.T) {
	for want, f := range map[string]evm.Finality{"finalized": {}, "instant": evm.Instant(), "after 12 blocks": evm.After(12)} {
		assert.Equal(t, want, f.String())
		traits := newTestClient(t, "http://host", &evm.Options{Finality: f}).Traits("")
		assert.Equal(t, "evm:1337", traits.Name)
		if want == "after 12 blocks" {
			assert.Equal(t, 15*time.Minute, traits.Vanish)
		} else {
			assert.Zero(t, traits.Vanish)
		}
	}
	assert.Equal(t, evm.Instant(), evm.After(0))
}

func FuzzCheck(f *testing.F) {
	c := newTestClient(f, "http://localhost:8545", nil)
	f.Add(signedBatch(nil).Payload)
	f.Add([]byte("0x02"))
	f.Fuzz(func(t *testing.T, payload []byte) {
		b, err := evm.NewBatch(payload)
		if err != nil {
			require.ErrorIs(t, err, batch.ErrInvalidInput)
			b = signedBatch(nil)
			b.Payload = payload
		}
		if err := c.Check(b); err != nil {
			require.ErrorIs(t, err, batch.ErrInvalidInput)
		}
	})
}
