package sawtooth

import (
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/internal/pb"
)

// DefaultMaxBody is a node's default client_max_size since Sawtooth 1.0.3, in
// bytes. A request must be smaller (docs/ledgers/sawtooth.md#requests-and-limits).
const DefaultMaxBody = 10 << 20

// Check reports the first thing in b that a node with the default size limit would refuse, or
// would accept and never finish: undecodable headers and public keys (503 after 300 s),
// malformed addresses and dependencies inside the batch (pending or unknown for ever),
// signatures, digests, ids, sizes (refused). It also reports fields of b that contradict its
// payload. The error is a [*batch.InputError] (docs/ledgers/sawtooth.md#messages and the
// headings after it). Check is pure, safe on any bytes, and verifies every signature, about
// 0.1 ms each.
func Check(b batch.Batch) error { return check(b, DefaultMaxBody, true) }

// CheckSize is [Check] for a node that accepts bodies of less than maxBody bytes.
func CheckSize(b batch.Batch, maxBody int) error { return check(b, maxBody, true) }

func check(b batch.Batch, maxBody int, signatures bool) error {
	err := checkBatch(b, maxBody, signatures)
	var inputErr *batch.InputError
	if errors.As(err, &inputErr) && b.ID != "" && len(b.ID) <= batch.MaxIDLen {
		inputErr.Key = b.Key()
	}
	return err
}

func checkBatch(b batch.Batch, maxBody int, signatures bool) error {
	if !isID(string(b.ID)) {
		return &batch.InputError{Field: "ID", Value: batch.Excerpt(string(b.ID), 136), Want: "the header signature, 128 lower-case hex digits"}
	}
	if n := batchListSize(len(b.Payload)); n >= maxBody {
		return &batch.InputError{Field: "Payload", Value: strconv.Itoa(n) + " bytes with its framing", Want: "less than " + strconv.Itoa(maxBody) + " bytes"}
	}
	d, err := decode(b.Payload)
	if err != nil {
		return err
	}
	if sig := d.batch.GetHeaderSignature(); sig != string(b.ID) {
		return &batch.InputError{Field: "header_signature", Value: batch.Excerpt(sig, 136), Want: "the batch's ID"}
	}
	ids, err := d.checkIDs()
	if err != nil {
		return err
	}
	if err := d.checkBatchHeader(signatures); err != nil {
		return err
	}
	for i := range d.txHeaders {
		if err := d.checkTransaction(i, ids, signatures); err != nil {
			return err
		}
	}
	return d.checkFields(b)
}

// checkIDs requires that the header's list has exactly the ids of the transactions, in their
// order: at least one, and none twice. It returns the ids.
func (d decodedBatch) checkIDs() (map[string]struct{}, error) {
	txs, ids := d.batch.GetTransactions(), d.header.GetTransactionIds()
	if len(txs) == 0 {
		return nil, &batch.InputError{Field: "transactions", Want: "at least one"}
	}
	if len(ids) != len(txs) {
		return nil, &batch.InputError{Field: "header.transaction_ids", Value: strconv.Itoa(len(ids)), Want: strconv.Itoa(len(txs)) + ", as many as there are transactions"}
	}
	seen := make(map[string]struct{}, len(ids))
	for i, id := range ids {
		field := fmt.Sprintf("transactions[%d].header_signature", i)
		if sig := txs[i].GetHeaderSignature(); !isID(sig) {
			return nil, &batch.InputError{Field: field, Value: batch.Excerpt(sig, 136), Want: "128 lower-case hex digits"}
		} else if id != sig {
			return nil, &batch.InputError{Field: field, Value: sig, Want: "the id at its place in header.transaction_ids"}
		}
		if _, twice := seen[id]; twice {
			return nil, &batch.InputError{Field: field, Value: id, Want: "no transaction twice"}
		}
		seen[id] = struct{}{}
	}
	return seen, nil
}

func (d decodedBatch) checkBatchHeader(signatures bool) error {
	key, err := parsePublicKey(d.header.GetSignerPublicKey())
	if err != nil {
		return inField("header.", err)
	}
	if !signatures {
		return nil
	}
	return inField("", verify(key, d.batch.GetHeader(), d.batch.GetHeaderSignature()))
}

func (d decodedBatch) checkTransaction(i int, ids map[string]struct{}, signatures bool) error {
	t, h := d.batch.GetTransactions()[i], d.txHeaders[i]
	at := fmt.Sprintf("transactions[%d].", i)
	if got, want := h.GetBatcherPublicKey(), d.header.GetSignerPublicKey(); got != want {
		return &batch.InputError{Field: at + "header.batcher_public_key", Value: batch.Excerpt(got, 80), Want: "the key of the batch's signer, " + want}
	}
	sum := sha512.Sum512(t.GetPayload())
	if got, want := h.GetPayloadSha512(), hex.EncodeToString(sum[:]); got != want {
		return &batch.InputError{Field: at + "header.payload_sha512", Value: batch.Excerpt(got, 136), Want: want}
	}
	if err := checkAddresses(at+"header.inputs", h.GetInputs()); err != nil {
		return err
	}
	if err := checkAddresses(at+"header.outputs", h.GetOutputs()); err != nil {
		return err
	}
	if err := checkDependencies(at, h, ids); err != nil {
		return err
	}
	var key *secp256k1.PublicKey
	key, err := parsePublicKey(h.GetSignerPublicKey())
	if err != nil {
		return inField(at+"header.", err)
	}
	if !signatures {
		return nil
	}
	return inField(at, verify(key, t.GetHeader(), t.GetHeaderSignature()))
}

func checkDependencies(at string, h *pb.TransactionHeader, ids map[string]struct{}) error {
	for i, dep := range h.GetDependencies() {
		field := fmt.Sprintf("%sheader.dependencies[%d]", at, i)
		if !isID(dep) {
			return &batch.InputError{Field: field, Value: batch.Excerpt(dep, 136), Want: wantDependency}
		}
		// The node would wait for the transaction for ever, as if it were in another batch
		// (docs/ledgers/sawtooth.md#dependencies).
		if _, own := ids[dep]; own {
			return &batch.InputError{Field: field, Value: dep, Want: "no transaction of the same batch, whose order is implied"}
		}
	}
	return nil
}

// checkFields compares the caller's fields with the payload. The footprint decides which batches
// may overtake, so a wrong one would break the order.
func (d decodedBatch) checkFields(b batch.Batch) error {
	if got, want := b.SignerPublicKey, d.header.GetSignerPublicKey(); got != "" && got != want {
		return &batch.InputError{Field: "SignerPublicKey", Value: batch.Excerpt(got, 80), Want: want + " as in the payload, or empty"}
	}
	if b.Trace && !d.batch.GetTrace() {
		return &batch.InputError{Field: "Trace", Value: "true", Want: "false as in the payload"}
	}
	if n := len(d.txHeaders); len(b.Transactions) != 0 && len(b.Transactions) != n {
		return &batch.InputError{Field: "Transactions", Value: strconv.Itoa(len(b.Transactions)), Want: strconv.Itoa(n) + " as in the payload, or none"}
	}
	want := d.batchTransactions()
	for i, t := range b.Transactions {
		for _, f := range [...]struct {
			name, got, want string
			required        bool
		}{
			{"ID", t.ID, want[i].ID, true},
			{"FamilyName", t.FamilyName, want[i].FamilyName, false},
			{"FamilyVersion", t.FamilyVersion, want[i].FamilyVersion, false},
			{"SignerPublicKey", t.SignerPublicKey, want[i].SignerPublicKey, false},
		} {
			if f.got != f.want && (f.required || f.got != "") {
				return &batch.InputError{
					Field: fmt.Sprintf("Transactions[%d].%s", i, f.name),
					Value: batch.Excerpt(f.got, 136), Want: batch.Excerpt(f.want, 136) + " as in the payload",
				}
			}
		}
	}
	if f := d.footprint(); !b.Footprint.Empty() && !(sameSet(b.Footprint.Reads, f.Reads) && sameSet(b.Footprint.Writes, f.Writes)) {
		return &batch.InputError{Field: "Footprint", Want: "as Parse reads it from the payload, or empty"}
	}
	return nil
}

// sameSet compares a with the sorted set b.
func sameSet(a, b []string) bool {
	if slices.Equal(a, b) {
		return true
	}
	return slices.Equal(sortedSet(slices.Clone(a)), b)
}

// inField puts the place in the payload before the field of an InputError.
func inField(at string, err error) error {
	if in, ok := errors.AsType[*batch.InputError](err); ok {
		in.Field = at + in.Field
	}
	return err
}
