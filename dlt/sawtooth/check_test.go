package sawtooth_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/internal/pb"
)

// unknownField appends a field that no version of Sawtooth has.
func unknownField(b []byte) []byte {
	return protowire.AppendString(protowire.AppendTag(b, 99, protowire.BytesType), "from the future")
}

func withoutLastByte(b []byte) []byte { return b[:len(b)-1] }

func TestCheckAccepts(t *testing.T) {
	for name, f := range map[string]batchChanges{
		"plain":                       {},
		"unknown fields everywhere":   {changeTxHeaderBytes: unknownField, changeBatchHeaderBytes: unknownField, changePayload: unknownField},
		"dependency on another batch": {changeTxHeader: func(h *pb.TransactionHeader) { h.Dependencies = []string{vectorTx} }},
		"the whole state":             {changeTxHeader: func(h *pb.TransactionHeader) { h.Inputs, h.Outputs = []string{""}, []string{""} }},
		"no addresses":                {changeTxHeader: func(h *pb.TransactionHeader) { h.Inputs, h.Outputs = nil, nil }},
		"traced":                      {changeBatch: func(b *pb.Batch) { b.Trace = true }},
		"fields as in the payload": {changeFields: func(b *batch.Batch) {
			p, err := sawtooth.Parse(b.Payload, "")
			if err != nil {
				panic(err)
			}
			*b = p
			slices.Reverse(b.Footprint.Reads) // the order in a set does not matter
		}},
		"some of the fields": {changeFields: func(b *batch.Batch) {
			p, err := sawtooth.Parse(b.Payload, "")
			if err != nil {
				panic(err)
			}
			b.Transactions = []batch.Transaction{{ID: p.Transactions[0].ID}, {ID: p.Transactions[1].ID}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, sawtooth.Check(f.makeBatch(t)))
		})
	}
}

func TestCheckRefuses(t *testing.T) {
	upper := func(s string) string { return strings.ToUpper(s) }
	tx := func(f func(*pb.TransactionHeader)) batchChanges { return batchChanges{changeTxHeader: f} }
	input := func(a string) batchChanges {
		return tx(func(h *pb.TransactionHeader) { h.Inputs = []string{"1cf126", a} })
	}
	parsed := func(f func(*batch.Batch)) batchChanges {
		return batchChanges{changeFields: func(b *batch.Batch) {
			p, err := sawtooth.Parse(b.Payload, "")
			if err != nil {
				panic(err)
			}
			*b = p
			f(b)
		}}
	}
	for name, c := range map[string]struct {
		batchChanges
		field string
	}{
		// The rules of docs/ledgers/sawtooth.md#messages
		"no id":                 {batchChanges{changeFields: func(b *batch.Batch) { b.ID = "" }}, "ID"},
		"id in upper case":      {batchChanges{changeFields: func(b *batch.Batch) { b.ID = batch.ID(upper(string(b.ID))) }}, "ID"},
		"short id":              {batchChanges{changeFields: func(b *batch.Batch) { b.ID = b.ID[:126] }}, "ID"},
		"another id":            {batchChanges{changeFields: func(b *batch.Batch) { b.ID = vectorTx }}, "header_signature"},
		"no payload":            {batchChanges{changePayload: func([]byte) []byte { return nil }}, "Payload"},
		"payload cut off":       {batchChanges{changePayload: withoutLastByte}, "Payload"},
		"payload of noise":      {batchChanges{changePayload: func([]byte) []byte { return []byte("\xff\xff\xff\xff") }}, "Payload"},
		"a list, not a batch":   {batchChanges{changePayload: func(b []byte) []byte { return batchList(b) }}, "header"},
		"batch header cut off":  {batchChanges{changeBatchHeaderBytes: withoutLastByte}, "header"},
		"batch header is noise": {batchChanges{changeBatchHeaderBytes: func([]byte) []byte { return []byte{0xff} }}, "header"},
		"header no UTF-8":       {batchChanges{changeTxHeaderBytes: func(b []byte) []byte { return protowire.AppendString(protowire.AppendTag(b, 6, 2), "\xff") }}, "transactions[0].header"},
		"tx header cut off":     {batchChanges{changeTxHeaderBytes: withoutLastByte}, "transactions[0].header"},
		"thousands of empty transactions": {batchChanges{changePayload: func(b []byte) []byte {
			for range 5000 {
				b = append(b, 0x1a, 0)
			}
			return b
		}}, "transactions"},
		"no transactions": {batchChanges{
			changeBatchHeader: func(h *pb.BatchHeader) { h.TransactionIds = nil },
			changeBatch:       func(b *pb.Batch) { b.Transactions = nil },
		}, "transactions"},
		"an id too few":      {batchChanges{changeBatchHeader: func(h *pb.BatchHeader) { h.TransactionIds = h.TransactionIds[:1] }}, "header.transaction_ids"},
		"a transaction less": {batchChanges{changeBatch: func(b *pb.Batch) { b.Transactions = b.Transactions[:1] }}, "header.transaction_ids"},
		"another order":      {batchChanges{changeBatchHeader: func(h *pb.BatchHeader) { slices.Reverse(h.TransactionIds) }}, "transactions[0].header_signature"},
		"twice the same":     {batchChanges{changeTxs: func(t []*pb.Transaction) { t[1] = t[0] }}, "transactions[1].header_signature"},
		"tx id upper case":   {batchChanges{changeTxs: func(t []*pb.Transaction) { t[0].HeaderSignature = upper(t[0].HeaderSignature) }}, "transactions[0].header_signature"},
		"ids differ in case": {batchChanges{changeBatchHeader: func(h *pb.BatchHeader) { h.TransactionIds[0] = upper(h.TransactionIds[0]) }}, "transactions[0].header_signature"},
		"another batcher":    {tx(func(h *pb.TransactionHeader) { h.BatcherPublicKey = publicKey2 }), "transactions[0].header.batcher_public_key"},
		"batcher upper case": {tx(func(h *pb.TransactionHeader) { h.BatcherPublicKey = upper(publicKey1) }), "transactions[0].header.batcher_public_key"},
		"wrong digest":       {tx(func(h *pb.TransactionHeader) { h.PayloadSha512 = strings.Repeat("0", 128) }), "transactions[0].header.payload_sha512"},
		"digest upper case":  {tx(func(h *pb.TransactionHeader) { h.PayloadSha512 = upper(h.PayloadSha512) }), "transactions[0].header.payload_sha512"},
		"no digest":          {tx(func(h *pb.TransactionHeader) { h.PayloadSha512 = "" }), "transactions[0].header.payload_sha512"},
		"payload changed":    {batchChanges{changeBatch: func(b *pb.Batch) { b.Transactions[0].Payload = []byte("x") }}, "transactions[0].header.payload_sha512"},

		// The rules of docs/ledgers/sawtooth.md#signatures
		"batch key upper case": {batchChanges{changeBatchHeader: func(h *pb.BatchHeader) { h.SignerPublicKey = upper(publicKey1) }}, "header.signer_public_key"},
		"batch key off curve":  {batchChanges{changeBatchHeader: func(h *pb.BatchHeader) { h.SignerPublicKey = "02" + strings.Repeat("f", 64) }}, "header.signer_public_key"},
		"batch key empty":      {batchChanges{changeBatchHeader: func(h *pb.BatchHeader) { h.SignerPublicKey = "" }}, "header.signer_public_key"},
		"tx key upper case":    {tx(func(h *pb.TransactionHeader) { h.SignerPublicKey = upper(publicKey1) }), "transactions[0].header.signer_public_key"},
		"tx key off curve":     {tx(func(h *pb.TransactionHeader) { h.SignerPublicKey = "05" + publicKey1[2:] }), "transactions[0].header.signer_public_key"},
		"tx key too long":      {tx(func(h *pb.TransactionHeader) { h.SignerPublicKey = publicKey1 + "00" }), "transactions[0].header.signer_public_key"},
		"tx of another key":    {tx(func(h *pb.TransactionHeader) { h.SignerPublicKey = publicKey2 }), "transactions[0].header_signature"},
		"high S":               {batchChanges{changeSignature: func(s string) string { return highS(t, s) }}, "header_signature"},
		"high S inside":        {batchChanges{changeTxs: func(x []*pb.Transaction) { x[1].HeaderSignature = highS(t, x[1].HeaderSignature) }}, "transactions[1].header_signature"},
		"header changed":       {batchChanges{changeBatch: func(b *pb.Batch) { b.Header = unknownField(b.Header) }}, "header_signature"},
		"tx header changed": {batchChanges{changeBatch: func(b *pb.Batch) {
			b.Transactions[1].Header = unknownField(b.Transactions[1].Header)
		}}, "transactions[1].header_signature"},
		"zero signature": {batchChanges{changeSignature: func(string) string { return strings.Repeat("0", 128) }, changeTxs: func(x []*pb.Transaction) {
			x[1].HeaderSignature = strings.Repeat("1", 128)
		}}, "header_signature"},
		"r beyond the order": {batchChanges{changeTxs: func(x []*pb.Transaction) {
			x[0].HeaderSignature = strings.Repeat("f", 64) + x[0].HeaderSignature[64:]
		}}, "transactions[0].header_signature"},

		// The rules of docs/ledgers/sawtooth.md#addresses-and-conflicts
		"odd address":        {input("1cf"), "transactions[0].header.inputs[1]"},
		"address upper case": {input("1CF126"), "transactions[0].header.inputs[1]"},
		"address no hex":     {input("xy"), "transactions[0].header.inputs[1]"},
		"address too long":   {input(vectorAddress + "00"), "transactions[0].header.inputs[1]"},
		"output":             {tx(func(h *pb.TransactionHeader) { h.Outputs = []string{"a"} }), "transactions[0].header.outputs[0]"},

		// The rules of docs/ledgers/sawtooth.md#dependencies
		"empty dependency":     {tx(func(h *pb.TransactionHeader) { h.Dependencies = []string{vectorTx, ""} }), "transactions[0].header.dependencies[1]"},
		"malformed dependency": {tx(func(h *pb.TransactionHeader) { h.Dependencies = []string{upper(vectorTx)} }), "transactions[0].header.dependencies[0]"},

		// The rules of docs/ledgers/sawtooth.md#requests-and-limits
		"too large": {batchChanges{changePayload: func(b []byte) []byte { return append(b, make([]byte, sawtooth.DefaultMaxBody-len(b)-5)...) }}, "Payload"},

		// The fields of batch.Batch besides the payload
		"other signer":        {parsed(func(b *batch.Batch) { b.SignerPublicKey = publicKey2 }), "SignerPublicKey"},
		"trace":               {parsed(func(b *batch.Batch) { b.Trace = true }), "Trace"},
		"fewer transactions":  {parsed(func(b *batch.Batch) { b.Transactions = b.Transactions[:1] }), "Transactions"},
		"other order":         {parsed(func(b *batch.Batch) { slices.Reverse(b.Transactions) }), "Transactions[0].ID"},
		"transaction id gone": {parsed(func(b *batch.Batch) { b.Transactions[1].ID = "" }), "Transactions[1].ID"},
		"other family":        {parsed(func(b *batch.Batch) { b.Transactions[1].FamilyName = "x" }), "Transactions[1].FamilyName"},
		"other version":       {parsed(func(b *batch.Batch) { b.Transactions[1].FamilyVersion = "x" }), "Transactions[1].FamilyVersion"},
		"other tx signer":     {parsed(func(b *batch.Batch) { b.Transactions[1].SignerPublicKey = publicKey2 }), "Transactions[1].SignerPublicKey"},
		"reads missing":       {parsed(func(b *batch.Batch) { b.Footprint.Reads = nil }), "Footprint"},
		"marks missing":       {parsed(func(b *batch.Batch) { b.Footprint.Writes = b.Footprint.Writes[:1] }), "Footprint"},
		"writes missing":      {parsed(func(b *batch.Batch) { b.Footprint.Writes = nil }), "Footprint"},
	} {
		t.Run(name, func(t *testing.T) {
			err := sawtooth.Check(c.makeBatch(t))
			var inputErr *batch.InputError
			require.ErrorAs(t, err, &inputErr)
			assert.Equal(t, c.field, inputErr.Field)
			assert.NotEmpty(t, inputErr.Want)
			require.ErrorIs(t, err, batch.ErrInvalidInput)
		})
	}
}

// Check refuses a dependency on a transaction of the same batch. The dependency needs the first
// transaction's id, so the second one is made after it.
func TestCheckRefusesDependencyInside(t *testing.T) {
	key := mustKey(t, privateKey1)
	first, err := vectorTransaction().Sign(key, "")
	require.NoError(t, err)
	second := vectorTransaction()
	second.Dependencies = []string{first.ID}
	signed, err := second.Sign(key, "")
	require.NoError(t, err)

	_, err = sawtooth.NewBatch(key, "", []sawtooth.SignedTransaction{first, signed}, nil)
	var inputErr *batch.InputError
	require.ErrorAs(t, err, &inputErr)
	assert.Equal(t, "transactions[1].header.dependencies[0]", inputErr.Field)
	_, err = sawtooth.NewBatch(key, "", []sawtooth.SignedTransaction{signed}, nil)
	require.NoError(t, err, "in another batch it is fine")
}

// The request's body must be smaller than the limit
// (docs/ledgers/sawtooth.md#requests-and-limits). The body is the payload with the frame of a
// BatchList.
func TestSizeLimitIsExact(t *testing.T) {
	b := vectorBatchOf(t)
	body := len(batchList(b.Payload))
	for limit, ok := range map[int]bool{body + 1: true, body: false} {
		c, err := sawtooth.New("http://127.0.0.1:1", &sawtooth.Options{MaxBody: limit})
		require.NoError(t, err)
		if err := c.Check(b); ok {
			require.NoError(t, err)
		} else {
			var inputErr *batch.InputError
			require.ErrorAs(t, err, &inputErr)
			assert.Equal(t, "Payload", inputErr.Field)
			assert.Equal(t, b.Key(), inputErr.Key)
		}
	}
}

func TestSplitBatchListKeepsBytes(t *testing.T) {
	odd := batchChanges{changeBatchHeaderBytes: unknownField, changeTxHeaderBytes: unknownField, changePayload: unknownField}.makeBatch(t)
	a := vectorBatchOf(t)
	// Other fields of the list are ignored.
	raw := append(unknownField(batchList(a.Payload)), batchList(odd.Payload)...)
	got, err := sawtooth.SplitBatchList(raw, "s")
	require.NoError(t, err)
	require.Len(t, got, 2)
	assert.Equal(t, a, got[0])
	assert.Equal(t, odd.Payload, got[1].Payload)
	assert.Equal(t, odd.ID, got[1].ID)
	assert.Equal(t, batch.ServiceID("s"), got[1].Service)
	assert.Equal(t, []string{"1cf126"}, got[1].Footprint.Reads)
	assert.Equal(t, vectorAddress, got[1].Footprint.Writes[0])
	require.NoError(t, sawtooth.Check(got[1]))
	assert.Equal(t, len(got[0].Payload), cap(got[0].Payload), "an append must not write into the next batch")

	for name, bad := range map[string][]byte{
		"empty": nil, "noise": []byte("\xff\xff"), "cut off": withoutLastByte(raw), "an empty batch": batchList(nil),
		"only unknown fields": unknownField(nil), "a batch without its frame": a.Payload,
	} {
		_, err := sawtooth.SplitBatchList(bad, "")
		require.ErrorIs(t, err, batch.ErrInvalidInput, name)
	}
}

type oddSigner struct {
	*sawtooth.PrivateKey
	changeSignature func(string) string
	err             error
}

func (f oddSigner) Sign(m []byte) (string, error) {
	s, _ := f.PrivateKey.Sign(m)
	return f.changeSignature(s), f.err
}

func TestForeignSigner(t *testing.T) {
	key := mustKey(t, privateKey1)
	hsm := func(change func(string) string, err error) sawtooth.Signer { return oddSigner{key, change, err} }

	b, err := sawtooth.Build(hsm(func(s string) string { return s }, nil), "", vectorTransaction())
	require.NoError(t, err)
	assert.EqualValues(t, vectorBatch, b.ID)

	broken := errors.New("token removed")
	_, err = sawtooth.Build(hsm(func(s string) string { return s }, broken), "", vectorTransaction())
	require.ErrorIs(t, err, broken)
	for _, change := range []func(string) string{
		func(s string) string { return highS(t, s) }, strings.ToUpper,
		func(string) string { return "" }, func(s string) string { return s + "00" }, func(string) string { return testSignature1 },
	} {
		_, err = sawtooth.Build(hsm(change, nil), "", vectorTransaction())
		require.ErrorIs(t, err, batch.ErrInvalidInput)
	}
}

func TestBuildRefuses(t *testing.T) {
	key := mustKey(t, privateKey1)
	for field, change := range map[string]func(*sawtooth.Transaction){
		"FamilyName":      func(x *sawtooth.Transaction) { x.FamilyName = "" },
		"FamilyVersion":   func(x *sawtooth.Transaction) { x.FamilyVersion = "\xff" },
		"Nonce":           func(x *sawtooth.Transaction) { x.Nonce = "\xff" },
		"Inputs[0]":       func(x *sawtooth.Transaction) { x.Inputs = []string{"abc"} },
		"Outputs[1]":      func(x *sawtooth.Transaction) { x.Outputs = []string{"", "AB"} },
		"Dependencies[0]": func(x *sawtooth.Transaction) { x.Dependencies = []string{""} },
	} {
		x := vectorTransaction()
		change(&x)
		_, err := sawtooth.Build(key, "", x)
		var inputErr *batch.InputError
		require.ErrorAs(t, err, &inputErr, field)
		assert.Equal(t, field, inputErr.Field)
	}
	_, err := sawtooth.Build(key, "")
	require.ErrorIs(t, err, batch.ErrInvalidInput, "no transactions")
	_, err = sawtooth.Build(key, "", vectorTransaction(), vectorTransaction())
	require.ErrorIs(t, err, batch.ErrInvalidInput, "the same transaction twice")
}

// In a usual set-up a client signs its transaction for a batcher, who puts it into a batch.
func TestTransactionsOfOthers(t *testing.T) {
	client, batcher := mustKey(t, privateKey2), mustKey(t, privateKey1)
	tx, err := vectorTransaction().Sign(client, batcher.PublicKey())
	require.NoError(t, err)
	b, err := sawtooth.NewBatch(batcher, "", []sawtooth.SignedTransaction{tx}, &sawtooth.BatchOptions{Trace: true})
	require.NoError(t, err)
	require.NoError(t, sawtooth.Check(b))
	assert.True(t, b.Trace)
	assert.Equal(t, publicKey1, b.SignerPublicKey)
	assert.Equal(t, publicKey2, b.Transactions[0].SignerPublicKey)

	own, err := vectorTransaction().Sign(client, "")
	require.NoError(t, err)
	_, err = sawtooth.NewBatch(batcher, "", []sawtooth.SignedTransaction{own}, nil)
	require.ErrorIs(t, err, batch.ErrInvalidInput, "meant for another batcher")
	forged := tx
	forged.ID = testSignature1
	_, err = sawtooth.NewBatch(batcher, "", []sawtooth.SignedTransaction{forged}, nil)
	require.ErrorIs(t, err, batch.ErrInvalidInput, "a signature over something else")
	tx.Payload = []byte("swapped")
	_, err = sawtooth.NewBatch(batcher, "", []sawtooth.SignedTransaction{tx}, nil)
	require.ErrorIs(t, err, batch.ErrInvalidInput)
}
