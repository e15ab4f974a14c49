package evm_test

import (
	"bytes"
	"math/big"
	"testing"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/evm"
	"github.com/dltbatch/dltbatch/dlt/evm/evmtest"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// signedBytes returns a signed transaction of an account. f changes the valid transaction before
// it is signed.
func signedBytes(from evmtest.Account, f func(tx *evmtx.Tx)) []byte {
	to := evmtx.Address{19: 9}
	tx := &evmtx.Tx{Type: evmtx.DynamicFee, ChainID: 1337, Nonce: 4, Tip: big.NewInt(100), FeeCap: big.NewInt(1000), Gas: 21000, To: &to, Value: big.NewInt(3)}
	f(tx)
	tx.Sign(secp256k1.PrivKeyFromBytes(from.Key()))
	return tx.Encode()
}

// withFees returns a change of the fees, in wei.
func withFees(tip, feeCap int64) func(tx *evmtx.Tx) {
	return func(tx *evmtx.Tx) { tx.Tip, tx.FeeCap = big.NewInt(tip), big.NewInt(feeCap) }
}

// threeAlternatives returns three alternatives of one payment. f changes each of them before it is
// signed.
func threeAlternatives(f func(tx *evmtx.Tx)) [][]byte {
	var all [][]byte
	for _, fee := range []evm.Fee{{Tip: big.NewInt(100), FeeCap: big.NewInt(1000)}, {Tip: big.NewInt(110), FeeCap: big.NewInt(1100)}, {Tip: big.NewInt(121), FeeCap: big.NewInt(1210)}} {
		all = append(all, signedBytes(evmtest.Dev(0), func(tx *evmtx.Tx) {
			tx.Tip, tx.FeeCap = fee.Tip, fee.FeeCap
			if f != nil {
				f(tx)
			}
		}))
	}
	return all
}

// Alternatives are one batch of the account that signed them, whose id is the hash of the first
// one.
func TestAlternativesAreOneBatch(t *testing.T) {
	c := newTestClient(t, "http://localhost:8545", nil)
	auth := []evmtx.Authorization{{ChainID: big.NewInt(0), R: big.NewInt(1), S: big.NewInt(1)}}
	access := []evmtx.AccessTuple{{Keys: []evmtx.Hash{{1}}}}
	for name, f := range map[string]func(tx *evmtx.Tx){
		"type 2":       nil,
		"type 0":       func(tx *evmtx.Tx) { tx.Type, tx.Tip = evmtx.Legacy, tx.FeeCap },
		"type 1":       func(tx *evmtx.Tx) { tx.Type, tx.Tip, tx.Access, tx.Gas = evmtx.AccessList, tx.FeeCap, access, 30000 },
		"type 4":       func(tx *evmtx.Tx) { tx.Type, tx.Auths, tx.Gas = evmtx.SetCode, auth, 46000 },
		"creation":     func(tx *evmtx.Tx) { tx.To, tx.Data, tx.Gas = nil, []byte{1}, 60000 },
		"no tip below": func(tx *evmtx.Tx) { tx.Tip.Sub(tx.Tip, big.NewInt(100)) }, // the tips are 0, 10 and 21
	} {
		all := threeAlternatives(f)
		payload, err := evm.Alternatives(all...)
		require.NoError(t, err, name)
		b, err := evm.NewBatch(payload)
		require.NoError(t, err, name)
		first, err := evm.NewBatch(all[0])
		require.NoError(t, err, name)
		assert.Equal(t, batch.Batch{ID: first.ID, Service: first.Service, Payload: payload}, b, name)
		require.NoError(t, c.Check(b), name)
		require.NoError(t, c.Check(b), name, "also when it is known who signed")
		got, err := evm.Split(b.Payload)
		require.NoError(t, err, name)
		assert.Equal(t, all, got, name)
		_, err = evmtx.Decode(payload)
		require.Error(t, err, "%s: it is no transaction", name)
	}
}

// An error names each mistake with its place, its field, the value and what was expected, before
// anything is stored.
func TestAlternativesRefusesBadTransactions(t *testing.T) {
	from, other := evmtest.Dev(0), evmtest.Dev(1)
	low := signedBytes(from, withFees(100, 1000))
	with := func(f func(tx *evmtx.Tx)) [][]byte {
		return [][]byte{low, signedBytes(from, func(tx *evmtx.Tx) { withFees(110, 1100)(tx); f(tx) })}
	}
	many := make([][]byte, evm.MaxAlternatives+1)
	for i, tip := 0, int64(100); i < len(many); i, tip = i+1, 2*tip {
		many[i] = signedBytes(from, withFees(tip, 10*tip))
	}
	_, err := evm.Alternatives(many[:evm.MaxAlternatives]...)
	require.NoError(t, err)
	huge := new(big.Int).Lsh(big.NewInt(1), 130)
	access := []evmtx.AccessTuple{{Address: evmtx.Address{1}}}
	auths := func(nonce uint64) func(tx *evmtx.Tx) {
		return func(tx *evmtx.Tx) {
			tx.Type, tx.Auths = evmtx.SetCode, []evmtx.Authorization{{ChainID: big.NewInt(0), Nonce: nonce, R: big.NewInt(1), S: big.NewInt(1)}}
		}
	}
	for name, r := range map[string]struct {
		all                [][]byte
		field, value, want string
	}{
		"none":                {nil, "alternatives", "0", "2 to 16"},
		"one":                 {many[:1], "alternatives", "1", "one is a payload by itself"},
		"too many":            {many, "alternatives", "more", "2 to 16"},
		"twice":               {[][]byte{low, signedBytes(from, withFees(110, 1100)), low}, "alternatives[2]", "", "each transaction once: it is alternatives[0]"},
		"another nonce":       {with(func(tx *evmtx.Tx) { tx.Nonce = 5 }), "alternatives[1].nonce", "5", "4, as alternatives[0] has"},
		"another chain":       {with(func(tx *evmtx.Tx) { tx.ChainID = 1 }), "alternatives[1].chain_id", "1", "1337"},
		"another type":        {with(func(tx *evmtx.Tx) { tx.Type = evmtx.AccessList }), "alternatives[1].type", "1", "2"},
		"other gas":           {with(func(tx *evmtx.Tx) { tx.Gas++ }), "alternatives[1].gas", "21001", "21000"},
		"another recipient":   {with(func(tx *evmtx.Tx) { tx.To = &evmtx.Address{} }), "alternatives[1].to", "0x0000000000000000000000000000000000000000", "0x0000000000000000000000000000000000000009"},
		"no recipient":        {with(func(tx *evmtx.Tx) { tx.To = nil }), "alternatives[1].to", "none", "0x0000000000000000000000000000000000000009"},
		"another value":       {with(func(tx *evmtx.Tx) { tx.Value = big.NewInt(4) }), "alternatives[1].value", "4", "3"},
		"other data":          {with(func(tx *evmtx.Tx) { tx.Data = []byte{1} }), "alternatives[1].data", "1 bytes", "only fees may differ"},
		"other access":        {with(func(tx *evmtx.Tx) { tx.Access = access }), "alternatives[1].access_list", "1 accounts", "only fees may differ"},
		"other authorization": {[][]byte{signedBytes(from, auths(1)), signedBytes(from, func(tx *evmtx.Tx) { withFees(110, 1100)(tx); auths(2)(tx) })}, "alternatives[1].authorization_list", "1 authorizations", "only fees may differ"},
		"another sender":      {[][]byte{low, signedBytes(other, withFees(110, 1100))}, "alternatives[1].sender", other.Address(), from.Address()},
		"the same fees":       {[][]byte{low, signedBytes(from, func(tx *evmtx.Tx) { withFees(100, 1000)(tx); tx.R = nil })}, "alternatives[1]", "", "each transaction once"},
		"a low cap":           {[][]byte{low, signedBytes(from, withFees(110, 1099))}, "alternatives[1].max_fee_per_gas", "1099", "1100 at least: a tenth more than alternatives[0]"},
		"a low tip":           {[][]byte{low, signedBytes(from, withFees(109, 1100))}, "alternatives[1].max_priority_fee_per_gas", "109", "110 at least"},
		"a low tip, rounded":  {[][]byte{signedBytes(from, withFees(101, 1000)), signedBytes(from, withFees(111, 1100))}, "alternatives[1].max_priority_fee_per_gas", "111", "112 at least"},
		"no tip, twice":       {[][]byte{signedBytes(from, withFees(0, 1000)), signedBytes(from, withFees(0, 1100))}, "alternatives[1].max_priority_fee_per_gas", "0", "1 at least"},
		"falling":             {[][]byte{signedBytes(from, withFees(110, 1100)), low}, "alternatives[1].max_fee_per_gas", "1000", "1210 at least"},
		"fees of no chain":    {[][]byte{low, signedBytes(from, func(tx *evmtx.Tx) { tx.Tip, tx.FeeCap = big.NewInt(110), huge })}, "alternatives[1].max_fee_per_gas", huge.String(), "128 bits"},
		"text":                {[][]byte{low, []byte(toHex(low))}, "alternatives[1].payload", "0x...", "not their hex digits"},
		"a trailing byte":     {[][]byte{low, append(bytes.Clone(signedBytes(from, withFees(110, 1100))), 0)}, "alternatives[1].transaction", "", "nothing behind it"},
		"an unknown type":     {[][]byte{low, append([]byte{5}, low[1:]...)}, "alternatives[1].type", "5", "0 to 4"},
		"blobs":               {[][]byte{signedBatch(withBlobs(1)).Payload, signedBatch(func(tx *evmtx.Tx) { withBlobs(1)(tx); tx.Gas++ }).Payload}, "alternatives[0].type", "3", "no alternatives"},
		"blobs behind":        {[][]byte{low, signedBatch(withBlobs(1)).Payload}, "alternatives[1].type", "3", "2, as alternatives[0] has"},
		"an empty one":        {[][]byte{low, nil}, "alternatives[1].transaction", "", "canonical RLP"},
		"a list in a list":    {[][]byte{low, payloadOf(t, threeAlternatives(nil))}, "alternatives[1].transaction", "", "canonical RLP"},
		"too long":            {[][]byte{low, make([]byte, 128<<10+1)}, "alternatives[1].payload", "131073 bytes", "131072 at most"},
	} {
		_, err := evm.Alternatives(r.all...)
		require.ErrorIs(t, err, batch.ErrInvalidInput, name)
		var inputErr *batch.InputError
		require.ErrorAs(t, err, &inputErr, name)
		assert.Equal(t, r.field, inputErr.Field, name)
		if r.value != "" {
			assert.Equal(t, r.value, inputErr.Value, name)
		}
		assert.Contains(t, inputErr.Want, r.want, name)
	}
}

func payloadOf(t testing.TB, all [][]byte) []byte {
	payload, err := evm.Alternatives(all...)
	require.NoError(t, err)
	return payload
}

// Check tests a payload with alternatives as any other, whoever has made it.
func TestCheckOfAlternatives(t *testing.T) {
	c := newTestClient(t, "http://localhost:8545", nil)
	good := func(f func(tx *evmtx.Tx)) batch.Batch {
		b, err := evm.NewBatch(payloadOf(t, threeAlternatives(f)))
		require.NoError(t, err)
		return b
	}
	bent := func(f func(b []byte) []byte) batch.Batch {
		b := good(nil)
		b.Payload = f(bytes.Clone(b.Payload))
		return b
	}
	wrong := good(nil)
	wrong.ID = batch.ID(evmtx.Keccak(wrong.Payload).String())
	stranger := good(nil)
	stranger.Service = batch.ServiceID(evmtest.Dev(1).Address())
	for name, r := range map[string]struct {
		b                  batch.Batch
		field, value, want string
	}{
		"wrong chain":       {good(func(tx *evmtx.Tx) { tx.ChainID = 1 }), "alternatives[0].chain_id", "1", "1337"},
		"a fee above a cap": {good(func(tx *evmtx.Tx) { tx.Tip.Mul(tx.Tip, big.NewInt(11)) }), "alternatives[0].max_priority_fee_per_gas", "1100", "at most max_fee_per_gas, 1000"},
		"little gas":        {good(func(tx *evmtx.Tx) { tx.Gas = 20999 }), "alternatives[0].gas", "20999", "21000 at least"},
		"a trailing byte":   {bent(func(b []byte) []byte { return append(b, 0) }), "alternatives", "", "nothing behind it"},
		"a shorter list":    {bent(func(b []byte) []byte { return b[:len(b)-1] }), "alternatives", "", "canonical RLP"},
		"a longer length":   {bent(func(b []byte) []byte { return append([]byte{b[0], 0xfa, 0, b[2], b[3]}, b[4:]...) }), "alternatives", "", "canonical RLP"},
		"no list":           {bent(func([]byte) []byte { return []byte{0xa2, 0x80} }), "alternatives", "", "canonical RLP"},
		"nothing":           {bent(func([]byte) []byte { return []byte{0xa2} }), "alternatives", "", "canonical RLP"},
		"an empty list":     {bent(func([]byte) []byte { return []byte{0xa2, 0xc0} }), "alternatives", "0", "2 to 16"},
		"without the mark":  {bent(func(b []byte) []byte { return b[1:] }), "nonce", "", "canonical RLP"},
		"wrong id":          {wrong, "id", string(wrong.ID), "the hash of alternatives[0]"},
		"wrong sender":      {stranger, "service", evmtest.Dev(1).Address(), evmtest.Dev(0).Address()},
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
}

// FuzzAlternatives shows that any payload is either refused as bad input or is the only encoding
// of its alternatives, and that it is never a transaction as well.
func FuzzAlternatives(f *testing.F) {
	c := newTestClient(f, "http://localhost:8545", nil)
	f.Add(payloadOf(f, threeAlternatives(nil)))
	f.Add([]byte{0xa2, 0xc0})
	f.Fuzz(func(t *testing.T, payload []byte) {
		b, err := evm.NewBatch(payload)
		if err != nil {
			require.ErrorIs(t, err, batch.ErrInvalidInput)
			return
		}
		if err := c.Check(b); err != nil {
			require.ErrorIs(t, err, batch.ErrInvalidInput)
		}
		all, err := evm.Split(payload)
		require.NoError(t, err)
		if len(all) == 1 {
			require.Equal(t, payload, all[0])
			return
		}
		require.Equal(t, payload, payloadOf(t, all))
		_, err = evmtx.Decode(payload)
		require.Error(t, err)
	})
}

// FuzzKeptList shows that prepared bytes are either refused or are the only encoding of a slot.
func FuzzKeptList(f *testing.F) {
	f.Add([]byte{2, 2})
	f.Add(append([]byte{2, 2}, make([]byte, 8+2*64+9)...)) // two alternatives without fees, and a turn of the first
	f.Fuzz(func(t *testing.T, kept []byte) {
		again, err := evm.ListAgain(kept)
		if err == nil {
			require.Equal(t, kept, again)
			require.LessOrEqual(t, len(kept), dlt.MaxPrepared)
		}
	})
}
