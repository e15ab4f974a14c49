package sawtooth

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/internal/pb"
)

// Parse reads a serialized and signed Batch message. The payload of the result is the given
// slice, which must not change afterwards: the signature covers its bytes. Parse only reads;
// [Check] reports whether a node would accept the batch. The error is a [*batch.InputError].
func Parse(payload []byte, service batch.ServiceID) (batch.Batch, error) {
	d, err := decode(payload)
	if err != nil {
		return batch.Batch{}, err
	}
	id := d.batch.GetHeaderSignature()
	if !isID(id) {
		return batch.Batch{}, &batch.InputError{Field: "header_signature", Value: batch.Excerpt(id, 136), Want: "128 lower-case hex digits"}
	}
	return batch.Batch{
		ID:              batch.ID(id),
		Service:         service,
		Payload:         payload,
		Transactions:    d.batchTransactions(),
		SignerPublicKey: d.header.GetSignerPublicKey(),
		Trace:           d.batch.GetTrace(),
		Footprint:       d.footprint(),
	}, nil
}

// SplitBatchList splits a serialized BatchList, such as the files of the sawtooth command line
// tools, into its batches. Their payloads are parts of list, byte for byte; list must not
// change afterwards. The error is a [*batch.InputError], also for a list without batches.
func SplitBatchList(list []byte, service batch.ServiceID) ([]batch.Batch, error) {
	var out []batch.Batch
	refuse := func(err error) error {
		return &batch.InputError{Field: "BatchList", Want: "a serialized BatchList message of at least one batch", Err: err}
	}
	for rest := list; len(rest) > 0; {
		num, typ, n := protowire.ConsumeTag(rest)
		if n < 0 {
			return nil, refuse(protowire.ParseError(n))
		}
		rest = rest[n:]
		if num != 1 || typ != protowire.BytesType { // protobuf also skips unknown fields
			if n = protowire.ConsumeFieldValue(num, typ, rest); n < 0 {
				return nil, refuse(protowire.ParseError(n))
			}
			rest = rest[n:]
			continue
		}
		raw, n := protowire.ConsumeBytes(rest)
		if n < 0 {
			return nil, refuse(protowire.ParseError(n))
		}
		rest = rest[n:]
		b, err := Parse(slices.Clip(raw), service)
		if err != nil {
			return nil, fmt.Errorf("batch %d of the list: %w", len(out), err)
		}
		out = append(out, b)
	}
	if len(out) == 0 {
		return nil, refuse(nil)
	}
	return out, nil
}

// decodedBatch is a batch with its inner headers.
type decodedBatch struct {
	batch     *pb.Batch
	header    *pb.BatchHeader
	txHeaders []*pb.TransactionHeader // the headers of batch.Transactions
}

func decode(payload []byte) (decodedBatch, error) {
	d := decodedBatch{batch: new(pb.Batch), header: new(pb.BatchHeader)}
	if len(payload) == 0 {
		return d, &batch.InputError{Field: "Payload", Want: "a serialized Batch message"}
	}
	if n := transactionCount(payload); n > len(payload)/minTransaction {
		return d, &batch.InputError{Field: "transactions", Value: fmt.Sprint(n), Want: "each with a header, a signature and a payload"}
	}
	if err := unmarshal("Payload", "Batch", payload, d.batch); err != nil {
		return d, err
	}
	if err := unmarshal("header", "BatchHeader", d.batch.GetHeader(), d.header); err != nil {
		return d, err
	}
	d.txHeaders = make([]*pb.TransactionHeader, len(d.batch.GetTransactions()))
	for i, t := range d.batch.GetTransactions() {
		d.txHeaders[i] = new(pb.TransactionHeader)
		if err := unmarshal(fmt.Sprintf("transactions[%d].header", i), "TransactionHeader", t.GetHeader(), d.txHeaders[i]); err != nil {
			return d, err
		}
	}
	return d, nil
}

// unmarshal decodes a message. It ignores unknown fields: they are allowed, and stay in the bytes.
func unmarshal(field, message string, b []byte, m proto.Message) error {
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(b, m); err != nil {
		return &batch.InputError{Field: field, Want: "a serialized " + message + " message", Err: err}
	}
	return nil
}

// minTransaction is less than the size of any real transaction: its id alone has 128 bytes.
const minTransaction = 128

// transactionCount counts the transactions before they are decoded. It protects the decoder: an
// empty transaction is two bytes in the payload and takes a hundred times as much memory when
// decoded.
func transactionCount(payload []byte) (count int) {
	for len(payload) > 0 {
		num, typ, n := protowire.ConsumeField(payload)
		if n < 0 {
			return count
		}
		if num == 3 && typ == protowire.BytesType {
			count++
		}
		payload = payload[n:]
	}
	return count
}

func (d decodedBatch) batchTransactions() []batch.Transaction {
	out := make([]batch.Transaction, len(d.txHeaders))
	for i, h := range d.txHeaders {
		out[i] = batch.Transaction{
			ID:              d.batch.GetTransactions()[i].GetHeaderSignature(),
			FamilyName:      h.GetFamilyName(),
			FamilyVersion:   h.GetFamilyVersion(),
			SignerPublicKey: h.GetSignerPublicKey(),
		}
	}
	return out
}

// footprint returns the footprint of the whole batch.
func (d decodedBatch) footprint() batch.Footprint {
	txs := make([]Declared, len(d.txHeaders))
	for i, h := range d.txHeaders {
		txs[i] = Declared{
			ID: d.batch.GetTransactions()[i].GetHeaderSignature(), Inputs: h.GetInputs(), Outputs: h.GetOutputs(), Dependencies: h.GetDependencies(),
		}
	}
	return Footprint(txs...)
}

// sortedSet sorts s and drops repeated elements. It changes s.
func sortedSet(s []string) []string {
	slices.Sort(s)
	return slices.Compact(s)
}
