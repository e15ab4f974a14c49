package sawtoothtest

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"google.golang.org/protobuf/proto"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/internal/pb"
)

var (
	// errNoReply means that a handler of the validator raised an exception, so that no reply comes
	// (docs/ledgers/sawtooth.md#submitting).
	errNoReply = errors.New("sawtoothtest: the validator does not reply")
	// errRefused means that the list is refused with code 30.
	errRefused = errors.New("sawtoothtest: batches refused")
)

// submittedBatch is a batch as it was posted, with its headers decoded.
type submittedBatch struct {
	id     batch.ID
	raw    *pb.Batch
	header *pb.BatchHeader
	txs    []submittedTx
}

type submittedTx struct {
	id     string
	raw    *pb.Transaction
	header *pb.TransactionHeader
}

// decode reads the headers in the list. Bytes that it cannot read make the real permission handler
// raise an exception, before the test for back pressure.
func decode(list *pb.BatchList) ([]*submittedBatch, error) {
	out := make([]*submittedBatch, 0, len(list.GetBatches()))
	for _, raw := range list.GetBatches() {
		b := &submittedBatch{id: batch.ID(raw.GetHeaderSignature()), raw: raw, header: &pb.BatchHeader{}}
		if err := proto.Unmarshal(raw.GetHeader(), b.header); err != nil {
			return nil, fmt.Errorf("%w: batch header: %w", errNoReply, err)
		}
		for _, tx := range raw.GetTransactions() {
			h := &pb.TransactionHeader{}
			if err := proto.Unmarshal(tx.GetHeader(), h); err != nil {
				return nil, fmt.Errorf("%w: transaction header: %w", errNoReply, err)
			}
			b.txs = append(b.txs, submittedTx{id: tx.GetHeaderSignature(), raw: tx, header: h})
		}
		out = append(out, b)
	}
	return out, nil
}

func areSignersPermitted(bs []*submittedBatch, may func(string) bool) bool {
	if may == nil {
		return true
	}
	for _, b := range bs {
		if !may(b.header.GetSignerPublicKey()) {
			return false
		}
		for _, tx := range b.txs {
			if !may(tx.header.GetSignerPublicKey()) {
				return false
			}
		}
	}
	return true
}

// verifyBatches checks all signatures, then the structure of all batches
// (docs/ledgers/sawtooth.md#messages, docs/ledgers/sawtooth.md#signatures). The first failure
// decides for the whole list.
func verifyBatches(bs []*submittedBatch, skipSignatures bool) error {
	if !skipSignatures {
		for _, b := range bs {
			if err := verifySignatures(b); err != nil {
				return err
			}
		}
	}
	for _, b := range bs {
		if err := verifyStructure(b); err != nil {
			return err
		}
	}
	return nil
}

func verifySignatures(b *submittedBatch) error {
	if err := verifySignature(b.header.GetSignerPublicKey(), b.raw.GetHeaderSignature(), b.raw.GetHeader()); err != nil {
		return fmt.Errorf("batch: %w", err)
	}
	for _, tx := range b.txs {
		if err := verifySignature(tx.header.GetSignerPublicKey(), tx.id, tx.raw.GetHeader()); err != nil {
			return fmt.Errorf("transaction: %w", err)
		}
		// Digests are compared as text, so that upper case is refused.
		sum := sha512.Sum512(tx.raw.GetPayload())
		if tx.header.GetPayloadSha512() != hex.EncodeToString(sum[:]) {
			return fmt.Errorf("%w: payload digest", errRefused)
		}
		if tx.header.GetBatcherPublicKey() != b.header.GetSignerPublicKey() {
			return fmt.Errorf("%w: batcher key", errRefused)
		}
	}
	return nil
}

func verifySignature(keyHex, signature string, message []byte) error {
	raw, err := hex.DecodeString(keyHex)
	if err != nil {
		return fmt.Errorf("%w: public key: %w", errNoReply, err)
	}
	key, err := secp256k1.ParsePubKey(raw)
	if err != nil {
		return fmt.Errorf("%w: public key: %w", errNoReply, err)
	}
	sig, err := lenientHex(signature)
	if err != nil || len(sig) != 64 {
		return fmt.Errorf("%w: signature is not 64 bytes of hex", errRefused)
	}
	var r, s secp256k1.ModNScalar
	if r.SetByteSlice(sig[:32]) || s.SetByteSlice(sig[32:]) || s.IsOverHalfOrder() {
		return fmt.Errorf("%w: signature out of range, or high S", errRefused)
	}
	sum := sha256.Sum256(message)
	if !ecdsa.NewSignature(&r, &s).Verify(sum[:], key) {
		return fmt.Errorf("%w: signature does not match", errRefused)
	}
	return nil
}

// lenientHex reads hex digits in upper case, and with blanks between bytes, as Sawtooth's verifier
// does: a batch with such an id is accepted, and no query can ask for it
// (docs/ledgers/sawtooth.md#signatures).
func lenientHex(s string) ([]byte, error) {
	if strings.ContainsAny(s, " \t\n\r\v\f") {
		for part := range strings.FieldsSeq(s) {
			if len(part)%2 != 0 {
				return nil, hex.ErrLength
			}
		}
		s = strings.Join(strings.Fields(s), "")
	}
	return hex.DecodeString(s)
}

func verifyStructure(b *submittedBatch) error {
	ids := b.header.GetTransactionIds()
	if len(ids) != len(b.txs) {
		return fmt.Errorf("%w: transaction count", errRefused)
	}
	seen := make(map[string]struct{}, len(ids))
	for i, id := range ids {
		if _, twice := seen[id]; twice {
			return fmt.Errorf("%w: transaction id twice", errRefused)
		}
		seen[id] = struct{}{}
		if id != b.txs[i].id {
			return fmt.Errorf("%w: transaction order", errRefused)
		}
		if slices.Contains(b.txs[i].header.GetDependencies(), "") {
			return fmt.Errorf("%w: empty dependency", errRefused)
		}
	}
	return nil
}
