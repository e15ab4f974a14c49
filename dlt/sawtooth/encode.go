package sawtooth

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/dltbatch/dltbatch/dlt/sawtooth/internal/pb"
)

// Headers are signed, so the same header must always give the same bytes. The protobuf library
// does not promise that across its versions. These functions do: they write the fields in the
// order of their numbers, and omit default values.

func encodeBatchHeader(h *pb.BatchHeader) []byte {
	b := appendString(nil, 1, h.GetSignerPublicKey())
	return appendStrings(b, 2, h.GetTransactionIds())
}

func encodeTransactionHeader(h *pb.TransactionHeader) []byte {
	b := appendString(nil, 1, h.GetBatcherPublicKey())
	b = appendStrings(b, 2, h.GetDependencies())
	b = appendString(b, 3, h.GetFamilyName())
	b = appendString(b, 4, h.GetFamilyVersion())
	b = appendStrings(b, 5, h.GetInputs())
	b = appendString(b, 6, h.GetNonce())
	b = appendStrings(b, 7, h.GetOutputs())
	b = appendString(b, 9, h.GetPayloadSha512()) // there is no field 8
	return appendString(b, 10, h.GetSignerPublicKey())
}

func encodeBatch(header []byte, signature string, txs []SignedTransaction, trace bool) []byte {
	b := appendBytes(nil, 1, header)
	b = appendString(b, 2, signature)
	for _, t := range txs {
		n := sizeBytes(1, len(t.Header)) + sizeBytes(2, len(t.ID)) + sizeBytes(3, len(t.Payload))
		b = protowire.AppendTag(b, 3, protowire.BytesType)
		b = protowire.AppendVarint(b, uint64(n))
		b = appendBytes(b, 1, t.Header)
		b = appendString(b, 2, t.ID)
		b = appendBytes(b, 3, t.Payload)
	}
	if trace {
		b = protowire.AppendTag(b, 4, protowire.VarintType)
		b = protowire.AppendVarint(b, 1)
	}
	return b
}

func sizeBytes(num protowire.Number, n int) int {
	if n == 0 {
		return 0
	}
	return protowire.SizeTag(num) + protowire.SizeBytes(n)
}

func appendBytes(b []byte, num protowire.Number, v []byte) []byte {
	if len(v) == 0 {
		return b
	}
	return protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), v)
}

func appendString(b []byte, num protowire.Number, v string) []byte {
	if v == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, num, protowire.BytesType), v)
}

// appendStrings writes every element, also "": in a repeated field it is a value.
func appendStrings(b []byte, num protowire.Number, vs []string) []byte {
	for _, v := range vs {
		b = protowire.AppendString(protowire.AppendTag(b, num, protowire.BytesType), v)
	}
	return b
}

// batchListHeader returns the bytes that come before a serialized Batch in a BatchList of that
// batch alone.
func batchListHeader(payload int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.BytesType), uint64(payload))
}

// batchListSize returns the length of the BatchList of a payload of this length.
func batchListSize(payload int) int { return protowire.SizeTag(1) + protowire.SizeBytes(payload) }
