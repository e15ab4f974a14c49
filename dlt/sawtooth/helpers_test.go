package sawtooth_test

import (
	"crypto/sha512"
	"encoding/hex"
	"math/big"
	"strings"
	"testing"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/internal/pb"
)

// highS returns the other signature that is mathematically valid: s replaced by n - s.
func highS(t testing.TB, sig string) string {
	t.Helper()
	s, ok := new(big.Int).SetString(sig[64:], 16)
	require.True(t, ok)
	s.Sub(secp256k1.Params().N, s)
	h := s.Text(16)
	return sig[:64] + strings.Repeat("0", 64-len(h)) + h
}

// forgery describes a batch of two transactions that is right except for the changes of its funcs.
// Each func makes its change before the signature over that part is made.
type forgery struct {
	tx     func(*pb.TransactionHeader)   // changes the first transaction's header
	rawTx  func([]byte) []byte           // changes the bytes of that header
	txs    func([]*pb.Transaction)       // changes the signed transactions, before they are in the batch header
	header func(*pb.BatchHeader)         // changes the batch's header
	raw    func([]byte) []byte           // changes the bytes of that header
	batch  func(*pb.Batch)               // changes the batch after all signatures
	bytes  func([]byte) []byte           // changes the payload
	fields func(*batch.Batch)            // changes the fields besides the payload
	sign   func(id string) (anID string) // changes every signature
}

func (f forgery) make(t testing.TB) batch.Batch {
	t.Helper()
	key := mustKey(t, key1)
	sign := func(header []byte) string {
		sig, err := key.Sign(header)
		require.NoError(t, err)
		if f.sign != nil {
			sig = f.sign(sig)
		}
		return sig
	}
	marshal := func(m proto.Message) []byte {
		b, err := proto.Marshal(m)
		require.NoError(t, err)
		return b
	}
	b := &pb.Batch{}
	bh := &pb.BatchHeader{SignerPublicKey: pub1}
	for i, payload := range []string{"one", "two"} {
		sum := sha512.Sum512([]byte(payload))
		h := &pb.TransactionHeader{
			BatcherPublicKey: pub1, SignerPublicKey: pub1,
			FamilyName: "intkey", FamilyVersion: "1.0", Nonce: payload,
			Inputs: []string{vectorAddress, "1cf126"}, Outputs: []string{vectorAddress},
			PayloadSha512: hex.EncodeToString(sum[:]),
		}
		if i == 0 && f.tx != nil {
			f.tx(h)
		}
		raw := marshal(h)
		if i == 0 && f.rawTx != nil {
			raw = f.rawTx(raw)
		}
		b.Transactions = append(b.Transactions, &pb.Transaction{Header: raw, HeaderSignature: sign(raw), Payload: []byte(payload)})
	}
	if f.txs != nil {
		f.txs(b.Transactions)
	}
	for _, tx := range b.Transactions {
		bh.TransactionIds = append(bh.TransactionIds, tx.HeaderSignature)
	}
	if f.header != nil {
		f.header(bh)
	}
	b.Header = marshal(bh)
	if f.raw != nil {
		b.Header = f.raw(b.Header)
	}
	b.HeaderSignature = sign(b.Header)
	if f.batch != nil {
		f.batch(b)
	}
	payload := marshal(b)
	if f.bytes != nil {
		payload = f.bytes(payload)
	}
	out := batch.Batch{ID: batch.ID(b.HeaderSignature), Payload: payload}
	if f.fields != nil {
		f.fields(&out)
	}
	return out
}
