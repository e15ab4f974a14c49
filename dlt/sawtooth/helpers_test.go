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

// batchChanges describes a batch of two transactions that is right except for the changes of its
// funcs. Each func makes its change before the signature over that part is made.
type batchChanges struct {
	changeTxHeader         func(*pb.TransactionHeader)   // changes the first transaction's header
	changeTxHeaderBytes    func([]byte) []byte           // changes the bytes of that header
	changeTxs              func([]*pb.Transaction)       // changes the signed transactions, before they are in the batch header
	changeBatchHeader      func(*pb.BatchHeader)         // changes the batch's header
	changeBatchHeaderBytes func([]byte) []byte           // changes the bytes of that header
	changeBatch            func(*pb.Batch)               // changes the batch after all signatures
	changePayload          func([]byte) []byte           // changes the payload
	changeFields           func(*batch.Batch)            // changes the fields besides the payload
	changeSignature        func(id string) (anID string) // changes every signature
}

func (f batchChanges) makeBatch(t testing.TB) batch.Batch {
	t.Helper()
	key := mustKey(t, privateKey1)
	sign := func(header []byte) string {
		sig, err := key.Sign(header)
		require.NoError(t, err)
		if f.changeSignature != nil {
			sig = f.changeSignature(sig)
		}
		return sig
	}
	marshal := func(m proto.Message) []byte {
		b, err := proto.Marshal(m)
		require.NoError(t, err)
		return b
	}
	b := &pb.Batch{}
	bh := &pb.BatchHeader{SignerPublicKey: publicKey1}
	for i, payload := range []string{"one", "two"} {
		sum := sha512.Sum512([]byte(payload))
		h := &pb.TransactionHeader{
			BatcherPublicKey: publicKey1, SignerPublicKey: publicKey1,
			FamilyName: "intkey", FamilyVersion: "1.0", Nonce: payload,
			Inputs: []string{vectorAddress, "1cf126"}, Outputs: []string{vectorAddress},
			PayloadSha512: hex.EncodeToString(sum[:]),
		}
		if i == 0 && f.changeTxHeader != nil {
			f.changeTxHeader(h)
		}
		raw := marshal(h)
		if i == 0 && f.changeTxHeaderBytes != nil {
			raw = f.changeTxHeaderBytes(raw)
		}
		b.Transactions = append(b.Transactions, &pb.Transaction{Header: raw, HeaderSignature: sign(raw), Payload: []byte(payload)})
	}
	if f.changeTxs != nil {
		f.changeTxs(b.Transactions)
	}
	for _, tx := range b.Transactions {
		bh.TransactionIds = append(bh.TransactionIds, tx.HeaderSignature)
	}
	if f.changeBatchHeader != nil {
		f.changeBatchHeader(bh)
	}
	b.Header = marshal(bh)
	if f.changeBatchHeaderBytes != nil {
		b.Header = f.changeBatchHeaderBytes(b.Header)
	}
	b.HeaderSignature = sign(b.Header)
	if f.changeBatch != nil {
		f.changeBatch(b)
	}
	payload := marshal(b)
	if f.changePayload != nil {
		payload = f.changePayload(payload)
	}
	out := batch.Batch{ID: batch.ID(b.HeaderSignature), Payload: payload}
	if f.changeFields != nil {
		f.changeFields(&out)
	}
	return out
}
