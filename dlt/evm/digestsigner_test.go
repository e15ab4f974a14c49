package evm_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/evm"
	"github.com/dltbatch/dltbatch/dlt/evm/evmtest"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store/memory"
)

// digestService signs digests as a service does that knows nothing of a chain. Each signature has
// the next of these forms: the DER of r and s; r and s; r and s with one more byte; and each of
// these with s in the other half of the order.
type digestService struct {
	key      *secp256k1.PrivateKey
	nextForm atomic.Uint32
}

func newDigestService(a evmtest.Account) *digestService {
	return &digestService{key: secp256k1.PrivKeyFromBytes(a.Key())}
}

func (v *digestService) sign(_ context.Context, digest [32]byte) ([]byte, error) {
	form := v.nextForm.Add(1) - 1
	return encodeSignature(form, v.key, digest), nil
}

const formCount = 6

func encodeSignature(form uint32, key *secp256k1.PrivateKey, digest [32]byte) []byte {
	sig := ecdsa.Sign(key, digest[:])
	r, s := sig.R(), sig.S()
	if form/3%2 == 1 {
		s.Negate()
	}
	rb, sb := r.Bytes(), s.Bytes()
	raw := append(rb[:], sb[:]...)
	switch form % 3 {
	case 0:
		return encodeDER(rb[:], sb[:])
	case 1:
		return raw
	}
	return append(raw, 0xff)
}

// encodeDER returns the DER of two numbers, even with s in the upper half, which ecdsa.Signature
// never writes.
func encodeDER(numbers ...[]byte) []byte {
	var body []byte
	for _, n := range numbers {
		n = bytes.TrimLeft(n, "\x00")
		if n[0] >= 0x80 {
			n = append([]byte{0}, n...)
		}
		body = append(append(body, 2, byte(len(n))), n...)
	}
	return append([]byte{0x30, byte(len(body))}, body...)
}

// Whatever the form of the service's signatures, each payment is made once.
func TestPaymentsWithADigestSigner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulatedChain(t, evmtest.Options{Personality: evmtest.Geth, SlotsInAnEpoch: 1})
		from := s.newAccount()
		v := newDigestService(from)
		signer, err := evm.NewDigestSigner(from.Address(), v.sign)
		require.NoError(t, err)
		p := s.startRunnerOf(memory.New(), s.newSigningClient(finalAfterTwoBlocks(), signer), queuer.Serial())
		var want []int64
		for i := range int64(formCount) {
			b := s.newIntent(from, 10+i)
			p.add(b)
			p.mineUntil(b, batch.Committed)
			want = append(want, 10+i)
		}
		assert.Equal(t, want, s.valuesPaid(from))
	})
}

// Each form is read as one signature of the account, with s in the lower half.
func TestDigestSignerReadsAllForms(t *testing.T) {
	tier.Plain(t)
	from := evmtest.Dev(0)
	key := secp256k1.PrivKeyFromBytes(from.Key())
	good, err := evm.NewKeySigner(from.Key())
	require.NoError(t, err)
	for i := range byte(200) {
		tx := evm.Unsigned{Hash: [32]byte{i, 1}}
		want, err := good.Sign(t.Context(), from.Address(), tx)
		require.NoError(t, err)
		for form := range uint32(formCount) {
			signer, err := evm.NewDigestSigner(from.Address(), func(_ context.Context, digest [32]byte) ([]byte, error) {
				return encodeSignature(form, key, digest), nil
			})
			require.NoError(t, err)
			got, err := signer.Sign(t.Context(), from.Address(), tx)
			require.NoError(t, err)
			assert.Equal(t, want, got, "form %d", form)
		}
	}
}

// A signature that is not the account's signature of this digest is refused, and the error says
// why.
func TestDigestSignerRefuses(t *testing.T) {
	from, other := evmtest.Dev(0), evmtest.Dev(1)
	digest := [32]byte{7}
	own := encodeSignature(0, secp256k1.PrivKeyFromBytes(from.Key()), digest)
	order, err := hex.DecodeString("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141")
	require.NoError(t, err)
	for name, c := range map[string]struct {
		made     []byte
		err      error
		wantText string
	}{
		"an error":        {err: errors.New("ThrottlingException"), wantText: "ThrottlingException"},
		"nothing":         {wantText: "0 bytes"},
		"other key":       {made: encodeSignature(1, secp256k1.PrivKeyFromBytes(other.Key()), digest), wantText: "not of account " + from.Address()},
		"hashed again":    {made: encodeSignature(0, secp256k1.PrivKeyFromBytes(from.Key()), [32]byte{8}), wantText: "must not hash the digest once more"},
		"cut":             {made: own[:len(own)-1], wantText: "neither the DER"},
		"more behind it":  {made: append(slices.Clone(own), 0), wantText: "neither the DER"},
		"zeros":           {made: make([]byte, 64), wantText: "neither the DER"},
		"r is the order":  {made: append(slices.Clone(order), own[:32]...), wantText: "neither the DER"},
		"a long sequence": {made: append([]byte{0x30, 0x84, 0xff, 0xff, 0xff, 0xff}, own...), wantText: "neither the DER"},
		"the text of it":  {made: []byte(hex.EncodeToString(own)), wantText: "neither the DER"},
	} {
		t.Run(name, func(t *testing.T) {
			signer, err := evm.NewDigestSigner(from.Address(), func(context.Context, [32]byte) ([]byte, error) { return c.made, c.err })
			require.NoError(t, err)
			_, err = signer.Sign(t.Context(), from.Address(), evm.Unsigned{Hash: digest})
			require.ErrorContains(t, err, c.wantText)
		})
	}
	signer, err := evm.NewDigestSigner(from.Address(), newDigestService(from).sign)
	require.NoError(t, err)
	_, err = signer.Sign(t.Context(), other.Address(), evm.Unsigned{Hash: digest})
	require.ErrorContains(t, err, "no key of account "+other.Address())
	for _, account := range []string{"", "0x12", other.Address()[2:]} {
		_, err = evm.NewDigestSigner(account, newDigestService(from).sign)
		in, is := errors.AsType[*batch.InputError](err)
		require.True(t, is, "%v", err)
		assert.Equal(t, "account", in.Field)
	}
	_, err = evm.NewDigestSigner(from.Address(), nil)
	require.ErrorContains(t, err, "sign")
}

// AddressOfKey returns the account of a public key in each form in which services return it.
func TestAddressOfKey(t *testing.T) {
	a := evmtest.Dev(3)
	public := secp256k1.PrivKeyFromBytes(a.Key()).PubKey()
	info, err := hex.DecodeString("3056301006072a8648ce3d020106052b8104000a034200")
	require.NoError(t, err)
	point := public.SerializeUncompressed()
	for name, key := range map[string][]byte{
		"SubjectPublicKeyInfo": append(info, point...), "CKA_EC_POINT": append([]byte{4, 65}, point...),
		"the point": point, "the compressed point": public.SerializeCompressed(),
	} {
		got, err := evm.AddressOfKey(key)
		require.NoError(t, err, name)
		assert.Equal(t, a.Address(), got, name)
	}
	for _, key := range [][]byte{nil, {4, 65}, info, point[:64], append(slices.Clone(point), 0), make([]byte, 65)} {
		_, err := evm.AddressOfKey(key)
		in, is := errors.AsType[*batch.InputError](err)
		require.True(t, is, "%v", err)
		assert.Equal(t, "key", in.Field)
	}
}

// For any bytes from the service, Sign returns an error or a signature that recovers to the
// account, and never panics.
func FuzzDigestSigner(f *testing.F) {
	from := evmtest.Dev(0)
	key := secp256k1.PrivKeyFromBytes(from.Key())
	digest := [32]byte{9}
	for form := range uint32(formCount) {
		f.Add(encodeSignature(form, key, digest))
	}
	f.Add([]byte{0x30, 0x06, 0x02, 0x01, 0x01, 0x02, 0x01, 0x01})
	f.Fuzz(func(t *testing.T, made []byte) {
		signer, err := evm.NewDigestSigner(from.Address(), func(context.Context, [32]byte) ([]byte, error) { return made, nil })
		require.NoError(t, err)
		sig, err := signer.Sign(t.Context(), from.Address(), evm.Unsigned{Hash: digest})
		if err != nil {
			return
		}
		public, _, err := ecdsa.RecoverCompact(append([]byte{27 + sig[64]}, sig[:64]...), digest[:])
		require.NoError(t, err)
		require.True(t, public.IsEqual(key.PubKey()))
		var s secp256k1.ModNScalar
		require.False(t, s.SetByteSlice(sig[32:64]))
		require.False(t, s.IsOverHalfOrder())
	})
}
