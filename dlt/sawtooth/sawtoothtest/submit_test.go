package sawtoothtest

import (
	"bytes"
	"encoding/hex"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/dlt/sawtooth/internal/pb"
)

// The list vector is accepted byte for byte (docs/ledgers/sawtooth.md#messages,
// docs/ledgers/sawtooth.md#signatures).
func TestVectorIsAccepted(t *testing.T) {
	n := Start(t, fastOptions(Options{}))
	const address = "1cf126cc488cca4cc3565a876f6040f8b73a7b92475be1d0b1bc453f6140fba7183b9a"
	x := intkeyTx([]byte("hello"), address).withHeader(func(h *pb.TransactionHeader) { h.Nonce = "n0" })
	b := makeBatch(t, x)
	require.Equal(t, "9eb2b3bc4330deebbb3b83c2952e88ecff4073b33779b8b4f0f101535bb68d36577626ed1774619d990dc7a0a0e6ec2056c739bfbb310eaa0dfb0e445a190ecf", b.GetHeaderSignature())
	submitOK(t, n, b)
	waitForStatus(t, n, b, Invalid) // the payload "hello" is not one of the family
}

func TestLinkBehindProxy(t *testing.T) {
	n := Start(t, fastOptions(Options{}))
	for _, c := range []struct {
		name   string
		header http.Header
		want   string
	}{
		{"x-forwarded", http.Header{"X-Forwarded-Host": {"h.example"}, "X-Forwarded-Proto": {"https"}, "X-Forwarded-Path": {"/api"}}, "https://h.example/api/batch_statuses?id="},
		{"forwarded", http.Header{"Forwarded": {`for=1.2.3.4;host="f.example";proto=https, for=5.6.7.8`}}, "https://f.example/batch_statuses?id="},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := marshal(t, &pb.BatchList{Batches: []*pb.Batch{makeBatch(t, intkeyTx(Set("x", 1)))}})
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.URL()+"/batches", bytes.NewReader(body))
			require.NoError(t, err)
			req.Header = c.header.Clone()
			req.Header.Set("Content-Type", "application/octet-stream")
			res, err := n.Client().Do(req)
			require.NoError(t, err)
			defer func() { require.NoError(t, res.Body.Close()) }()
			text, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			assert.Contains(t, string(text), c.want)
		})
	}
}

func highS(t *testing.T, signature string) string {
	t.Helper()
	raw, err := hex.DecodeString(signature)
	require.NoError(t, err)
	var s secp256k1.ModNScalar
	s.SetByteSlice(raw[32:])
	s.Negate()
	high := s.Bytes()
	return hex.EncodeToString(raw[:32]) + hex.EncodeToString(high[:])
}

// signChangedBatch returns a signed batch of these transactions, with a header that bend has
// changed.
func signChangedBatch(t *testing.T, bend func(h *pb.BatchHeader), txs ...*pb.Transaction) *pb.Batch {
	t.Helper()
	h := &pb.BatchHeader{SignerPublicKey: publicKeyHex(newKey(t))}
	for _, x := range txs {
		h.TransactionIds = append(h.TransactionIds, x.GetHeaderSignature())
	}
	bend(h)
	raw := marshal(t, h)
	return &pb.Batch{Header: raw, HeaderSignature: sign(newKey(t), raw), Transactions: txs}
}

// A batch without transactions passes the check of the structure
// (docs/ledgers/sawtooth.md#messages).
func TestEmptyBatch(t *testing.T) {
	n := Start(t, fastOptions(Options{}))
	b := makeBatch(t)
	submitOK(t, n, b)
	waitForStatus(t, n, b, Committed)
}

// A signer without permission gets the same answer as a bad signature
// (docs/ledgers/sawtooth.md#submitting).
func TestSignerNotPermitted(t *testing.T) {
	n := Start(t, fastOptions(Options{PermitsSigner: func(k string) bool { return k != publicKeyHex(newKey(t)) }}))
	r, err := postList(t, n, makeBatch(t, intkeyTx(Set("x", 1))))
	require.NoError(t, err)
	assert.Equal(t, 30, r.code())
}

// The limit is ten times the average block (docs/ledgers/sawtooth.md#back-pressure). In this test
// the average only rises.
func TestAdaptivePoolLimit(t *testing.T) {
	l := newPoolLimit(0)
	assert.Equal(t, 300, l.get())
	l.update(10, 10)
	assert.Equal(t, 300, l.get(), "neither what was taken nor what is left is above the average")
	l.update(90, 90)
	assert.Equal(t, 600, l.get())
	l.update(100, 30)
	assert.Equal(t, 500, l.get(), "what is left counts too")
}

// A body must be smaller than the limit, and the answer 413 is a text
// (docs/ledgers/sawtooth.md#requests-and-limits).
func TestBodyLimit(t *testing.T) {
	list := marshal(t, &pb.BatchList{Batches: []*pb.Batch{makeBatch(t, intkeyTx(Set("x", 1)))}})
	for _, c := range []struct {
		limit  int64
		status int
	}{{int64(len(list)), 413}, {int64(len(list)) - 1, 413}, {int64(len(list)) + 1, 202}} {
		n := Start(t, fastOptions(Options{MaxBody: c.limit}))
		r := sendRequest(t, http.MethodPost, n.URL()+"/batches", "application/octet-stream", list)
		assert.Equal(t, c.status, r.status)
		if c.status == 413 {
			assert.Contains(t, r.contentType, "text/plain")
		}
	}
	n := Start(t, fastOptions(Options{MaxBody: 1000}))
	// The body is short enough that the node does not close the connection during the request.
	r := sendRequest(t, http.MethodPost, n.URL()+"/batch_statuses", "application/json", bytes.Repeat([]byte(" "), 5_000))
	assert.Equal(t, 413, r.status)
}

// One bad batch at any place refuses the whole list with code 30, and no batch of it is accepted
// (docs/ledgers/sawtooth.md#submitting). The transcripts have more kinds of bad batches.
func TestWholeListIsRefused(t *testing.T) {
	n := Start(t, fastOptions(Options{}))
	one, two := signTx(t, intkeyTx(Set("a", 1))), signTx(t, intkeyTx(Set("b", 1)))
	for name, bad := range map[string]*pb.Batch{
		"payload":                           signBatch(t, &pb.Transaction{Header: one.GetHeader(), HeaderSignature: one.GetHeaderSignature(), Payload: []byte("set a 2")}),
		"upper case digest":                 makeBatch(t, intkeyTx(Set("e", 1)).withHeader(func(h *pb.TransactionHeader) { h.PayloadSha512 = strings.ToUpper(h.GetPayloadSha512()) })),
		"transaction missing in the header": signChangedBatch(t, func(h *pb.BatchHeader) { h.TransactionIds = h.GetTransactionIds()[:1] }, one, two),
	} {
		good := makeBatch(t, intkeyTx(Set("good", 1)))
		for _, list := range [][]*pb.Batch{{good, bad}, {bad, good}, {bad}} {
			r, err := postList(t, n, list...)
			require.NoError(t, err)
			assert.Equal(t, http.StatusBadRequest, r.status, name)
			assert.Equal(t, 30, r.code(), name)
		}
		assert.Zero(t, countEntries(n, Accepted, good), name)
		assert.Equal(t, Unknown, askStatus(t, n, good), name)
	}
}

// Blanks in hex digits are accepted (docs/ledgers/sawtooth.md#signatures). The transcripts have
// upper case.
func TestBlanksInHexAreAccepted(t *testing.T) {
	n := Start(t, fastOptions(Options{}))
	blank := makeBatch(t, intkeyTx(Set("v", 1)))
	blank.HeaderSignature = blank.GetHeaderSignature()[:64] + " " + blank.GetHeaderSignature()[64:]
	submitOK(t, n, blank)
	require.Eventually(t, func() bool { _, ok := n.Value("v"); return ok }, 30*time.Second, time.Millisecond)
}

// A transaction whose public key is no point of the curve gets no reply of the validator, as in
// 10-poison.txt (docs/ledgers/sawtooth.md#submitting).
func TestNoReplyToAPublicKeyOffTheCurve(t *testing.T) {
	runInBubble(t, Options{RESTTimeout: 15 * time.Second}, func(t *testing.T, n *Node) {
		began := time.Now()
		assert.Equal(t, 17, postInBubble(t, n, makeBatch(t, intkeyTx(Set("x", 1)).withHeader(func(h *pb.TransactionHeader) { h.SignerPublicKey = "02" }))).code())
		assert.Equal(t, 15*time.Second, time.Since(began))
	})
}
