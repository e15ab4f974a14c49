package sawtoothtest

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/dltbatch/dltbatch/dlt/sawtooth/internal/pb"
)

// docs/ledgers/sawtooth.md#messages, docs/ledgers/sawtooth.md#signatures: the whole-list vector
// is accepted, byte for byte.
func TestA2Vector(t *testing.T) {
	n := Start(t, fast(Options{}))
	const address = "1cf126cc488cca4cc3565a876f6040f8b73a7b92475be1d0b1bc453f6140fba7183b9a"
	x := call([]byte("hello"), address).with(func(h *pb.TransactionHeader) { h.Nonce = "n0" })
	b := mk(t, x)
	require.Equal(t, "9eb2b3bc4330deebbb3b83c2952e88ecff4073b33779b8b4f0f101535bb68d36577626ed1774619d990dc7a0a0e6ec2056c739bfbb310eaa0dfb0e445a190ecf", b.GetHeaderSignature())
	submitOK(t, n, b)
	becomes(t, n, b, Invalid) // "hello" is no payload of ours
}

// docs/ledgers/sawtooth.md#submitting: the answer to a list, and its link.
func TestB2Accepted(t *testing.T) {
	n := Start(t, fast(Options{}))
	a, b := mk(t, call(Set("x", 1))), mk(t, call(Set("y", 1)))
	r, err := postList(t, n, a, b)
	require.NoError(t, err)
	assert.Equal(t, http.StatusAccepted, r.status)
	assert.Equal(t, "application/json; charset=utf-8", r.contentType)
	want := fmt.Sprintf("{\n  \"link\": \"%s/batch_statuses?id=%s,%s\"\n}", n.URL(), id(a), id(b))
	assert.Equal(t, want, r.body)
	follow := mustDo(t, http.MethodGet, r.json["link"].(string), "", nil)
	assert.Len(t, follow.json["data"], 2)
}

func TestB2LinkBehindProxy(t *testing.T) {
	n := Start(t, fast(Options{}))
	for _, c := range []struct {
		name   string
		header http.Header
		want   string
	}{
		{"x-forwarded", http.Header{"X-Forwarded-Host": {"h.example"}, "X-Forwarded-Proto": {"https"}, "X-Forwarded-Path": {"/api"}}, "https://h.example/api/batch_statuses?id="},
		{"forwarded", http.Header{"Forwarded": {`for=1.2.3.4;host="f.example";proto=https, for=5.6.7.8`}}, "https://f.example/batch_statuses?id="},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := marshal(t, &pb.BatchList{Batches: []*pb.Batch{mk(t, call(Set("x", 1)))}})
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

// docs/ledgers/sawtooth.md#submitting: what the door says to requests that are wrong.
func TestB2WrongRequests(t *testing.T) {
	n := Start(t, fast(Options{}))
	list := marshal(t, &pb.BatchList{Batches: []*pb.Batch{mk(t, call(Set("x", 1)))}})
	const octets = "application/octet-stream"
	for _, c := range []struct {
		name, contentType string
		body              []byte
		status, code      int
	}{
		{"no content type", "", list, 500, 0},
		{"charset suffix", octets + "; charset=utf-8", list, 400, 42},
		{"upper case", "Application/Octet-Stream", list, 400, 42},
		{"json", "application/json", list, 400, 42},
		{"empty body", octets, nil, 400, 34},
		{"not protobuf", octets, []byte("\x0a\xff\xff"), 400, 35},
		{"wrong content type before the body", "text/plain", nil, 400, 42},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := mustDo(t, http.MethodPost, n.URL()+"/batches", c.contentType, c.body)
			assert.Equal(t, c.status, r.status)
			assert.Equal(t, c.code, r.code())
			if c.code == 0 {
				assert.NotContains(t, r.contentType, "json")
				assert.Nil(t, r.json)
				return
			}
			e := r.json["error"].(map[string]any)
			assert.NotEmpty(t, e["title"])
			assert.NotEmpty(t, e["message"])
		})
	}
}

// docs/ledgers/sawtooth.md#submitting, an edge: a body that is not empty and has no batch in it
// is accepted, with a bare "?id".
func TestB2NoBatches(t *testing.T) {
	n := Start(t, fast(Options{}))
	r := mustDo(t, http.MethodPost, n.URL()+"/batches", "application/octet-stream", []byte{0x10, 0x01}) // an unknown field
	assert.Equal(t, http.StatusAccepted, r.status)
	assert.True(t, strings.HasSuffix(r.json["link"].(string), "/batch_statuses?id"), r.body)
}

// bent returns a copy of a batch with something done to it, not signed again.
func bent(b *pb.Batch, bend func(*pb.Batch)) *pb.Batch {
	c := proto.Clone(b).(*pb.Batch)
	bend(c)
	return c
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

// resign signs a batch around transactions and a header that may both be wrong.
func resign(t *testing.T, bend func(h *pb.BatchHeader), txs ...*pb.Transaction) *pb.Batch {
	t.Helper()
	h := &pb.BatchHeader{SignerPublicKey: public(key(t))}
	for _, x := range txs {
		h.TransactionIds = append(h.TransactionIds, x.GetHeaderSignature())
	}
	bend(h)
	raw := marshal(t, h)
	return &pb.Batch{Header: raw, HeaderSignature: sign(key(t), raw), Transactions: txs}
}

// docs/ledgers/sawtooth.md#submitting: one bad batch rejects the whole list with 30, wherever it
// stands, and nothing of it is taken.
func TestB2WholeListIsRefused(t *testing.T) {
	n := Start(t, fast(Options{}))
	one, two := signTx(t, call(Set("a", 1))), signTx(t, call(Set("b", 1)))
	plain := mk(t, call(Set("c", 1)))
	other := public(secp256k1.PrivKeyFromBytes(bytes.Repeat([]byte{7}, 32)))
	for name, bad := range map[string]*pb.Batch{
		"batch signature of something else": bent(plain, func(b *pb.Batch) { b.HeaderSignature = mk(t, call(Set("d", 1))).GetHeaderSignature() }),
		"high S":                            bent(plain, func(b *pb.Batch) { b.HeaderSignature = highS(t, b.GetHeaderSignature()) }),
		"signature too short":               bent(plain, func(b *pb.Batch) { b.HeaderSignature = b.GetHeaderSignature()[2:] }),
		"signature not hex":                 bent(plain, func(b *pb.Batch) { b.HeaderSignature = strings.Repeat("zz", 64) }),
		"transaction signature":             resign(t, func(*pb.BatchHeader) {}, &pb.Transaction{Header: one.GetHeader(), HeaderSignature: two.GetHeaderSignature(), Payload: one.GetPayload()}),
		"payload":                           resign(t, func(*pb.BatchHeader) {}, &pb.Transaction{Header: one.GetHeader(), HeaderSignature: one.GetHeaderSignature(), Payload: []byte("set a 2")}),
		"upper case digest":                 mk(t, call(Set("e", 1)).with(func(h *pb.TransactionHeader) { h.PayloadSha512 = strings.ToUpper(h.GetPayloadSha512()) })),
		"other batcher":                     mk(t, call(Set("e", 1)).with(func(h *pb.TransactionHeader) { h.BatcherPublicKey = other })),
		"transaction missing in the header": resign(t, func(h *pb.BatchHeader) { h.TransactionIds = h.GetTransactionIds()[:1] }, one, two),
		"other order": resign(t, func(h *pb.BatchHeader) {
			h.TransactionIds[0], h.TransactionIds[1] = h.TransactionIds[1], h.TransactionIds[0]
		}, one, two),
		"transaction twice": resign(t, func(*pb.BatchHeader) {}, one, one),
		"empty dependency":  mk(t, call(Set("e", 1)).with(func(h *pb.TransactionHeader) { h.Dependencies = []string{""} })),
	} {
		t.Run(name, func(t *testing.T) {
			good := mk(t, call(Set("good", 1)))
			for _, list := range [][]*pb.Batch{{good, bad}, {bad, good}, {bad}} {
				r, err := postList(t, n, list...)
				require.NoError(t, err)
				assert.Equal(t, http.StatusBadRequest, r.status, r.body)
				assert.Equal(t, 30, r.code())
			}
			assert.Zero(t, kinds(n, Accepted, good))
			assert.Equal(t, Unknown, word(t, n, good))
		})
	}
}

// docs/ledgers/sawtooth.md#signatures: upper case and blanks are let in, and such an id can
// never be asked for.
func TestA2LenientHex(t *testing.T) {
	n := Start(t, fast(Options{}))
	upper := bent(mk(t, call(Set("u", 1))), func(b *pb.Batch) { b.HeaderSignature = strings.ToUpper(b.GetHeaderSignature()) })
	blank := bent(mk(t, call(Set("v", 1))), func(b *pb.Batch) {
		b.HeaderSignature = b.GetHeaderSignature()[:64] + " " + b.GetHeaderSignature()[64:]
	})
	submitOK(t, n, upper, blank)
	require.Eventually(t, func() bool { _, ok := n.Value("v"); return ok }, 30*time.Second, time.Millisecond)
	r := mustDo(t, http.MethodGet, n.URL()+"/batch_statuses?id="+upper.GetHeaderSignature(), "", nil)
	assert.Equal(t, 60, r.code())
}

// docs/ledgers/sawtooth.md#messages: a batch without transactions passes the structure check.
func TestA1EmptyBatch(t *testing.T) {
	n := Start(t, fast(Options{}))
	b := mk(t)
	submitOK(t, n, b)
	becomes(t, n, b, Committed)
}

// docs/ledgers/sawtooth.md#submitting: a signer that policy does not permit looks like a bad
// signature.
func TestB2SignerNotPermitted(t *testing.T) {
	n := Start(t, fast(Options{Permitted: func(k string) bool { return k != public(key(t)) }}))
	r, err := postList(t, n, mk(t, call(Set("x", 1))))
	require.NoError(t, err)
	assert.Equal(t, 30, r.code())
}

// docs/ledgers/sawtooth.md#submitting, a permanent error in disguise: nobody replies, and the
// REST API gives up.
func TestB2NoReply(t *testing.T) {
	const timeout = 60 * time.Millisecond
	n := Start(t, fast(Options{RESTTimeout: timeout}))
	plain := mk(t, call(Set("x", 1)))
	for name, bad := range map[string]*pb.Batch{
		"batch header":            bent(plain, func(b *pb.Batch) { b.Header = []byte("\x0a\xff") }),
		"transaction header":      bent(plain, func(b *pb.Batch) { b.Transactions[0].Header = []byte("\x0a\xff") }),
		"batch key not a point":   resign(t, func(h *pb.BatchHeader) { h.SignerPublicKey = "02" + strings.Repeat("ff", 32) }),
		"batch key not hex":       resign(t, func(h *pb.BatchHeader) { h.SignerPublicKey = "key" }),
		"transaction key missing": mk(t, call(Set("x", 1)).with(func(h *pb.TransactionHeader) { h.SignerPublicKey = "02" })),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			r, err := postList(t, n, bad)
			require.NoError(t, err)
			assert.Equal(t, http.StatusServiceUnavailable, r.status)
			assert.Equal(t, 17, r.code())
			assert.GreaterOrEqual(t, time.Since(began), timeout)
		})
	}
}

// docs/ledgers/sawtooth.md#submitting, docs/ledgers/sawtooth.md#back-pressure: the pool limit is
// tested once per list, before anything is looked at closely.
func TestB9PoolLimit(t *testing.T) {
	n := Start(t, fast(Options{BlockInterval: time.Hour, PublishDelay: -1, PoolLimit: 2}))
	submitOK(t, n, mk(t, call(Set("a", 1))))
	submitOK(t, n, mk(t, call(Set("b", 1))), mk(t, call(Set("c", 1)))) // overshoots
	assert.Equal(t, 3, n.PoolLen())
	late := mk(t, call(Set("d", 1)))
	r, err := postList(t, n, late)
	require.NoError(t, err)
	assert.Equal(t, http.StatusTooManyRequests, r.status)
	assert.Equal(t, 31, r.code())
	assert.Zero(t, kinds(n, Accepted, late))
	assert.Equal(t, Unknown, word(t, n, late))
	bad, err := postList(t, n, bent(late, func(b *pb.Batch) { b.HeaderSignature = highS(t, b.GetHeaderSignature()) }))
	require.NoError(t, err)
	assert.Equal(t, 31, bad.code(), "back pressure comes before signatures")
}

// docs/ledgers/sawtooth.md#back-pressure: ten times the average block, which moves only upwards
// here.
func TestB9AdaptiveLimit(t *testing.T) {
	l := newPoolLimit(0)
	assert.Equal(t, 300, l.get())
	l.update(10, 10)
	assert.Equal(t, 300, l.get(), "neither what was taken nor what is left is above the average")
	l.update(90, 90)
	assert.Equal(t, 600, l.get())
	l.update(100, 30)
	assert.Equal(t, 500, l.get(), "what is left counts too")
}

// docs/ledgers/sawtooth.md#requests-and-limits: a body has to be smaller than the limit; 413 is
// text.
func TestB1BodyLimit(t *testing.T) {
	list := marshal(t, &pb.BatchList{Batches: []*pb.Batch{mk(t, call(Set("x", 1)))}})
	for _, c := range []struct {
		limit  int64
		status int
	}{{int64(len(list)), 413}, {int64(len(list)) - 1, 413}, {int64(len(list)) + 1, 202}} {
		n := Start(t, fast(Options{MaxBody: c.limit}))
		r := mustDo(t, http.MethodPost, n.URL()+"/batches", "application/octet-stream", list)
		assert.Equal(t, c.status, r.status)
		if c.status == 413 {
			assert.Contains(t, r.contentType, "text/plain")
		}
	}
	n := Start(t, fast(Options{MaxBody: 1000}))
	// Not so long that the node closes the connection while it is still being sent.
	r := mustDo(t, http.MethodPost, n.URL()+"/batch_statuses", "application/json", bytes.Repeat([]byte(" "), 5_000))
	assert.Equal(t, 413, r.status)
}

// docs/ledgers/sawtooth.md#requests-and-limits: 8190 bytes for the request line and for each
// header.
func TestB1LineLimit(t *testing.T) {
	n := Start(t, fast(Options{}))
	ids := func(count int) string {
		return n.URL() + "/batch_statuses?id=" + strings.TrimSuffix(strings.Repeat(strings.Repeat("a", 128)+",", count), ",")
	}
	r := mustDo(t, http.MethodGet, ids(63), "", nil)
	assert.Equal(t, http.StatusOK, r.status)
	assert.Len(t, r.json["data"], 63)
	r = mustDo(t, http.MethodGet, ids(64), "", nil)
	assert.Equal(t, http.StatusBadRequest, r.status)
	assert.NotContains(t, r.contentType, "json")

	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.URL()+"/status", nil)
	require.NoError(t, err)
	req.Header.Set("X-Long", strings.Repeat("x", 8191))
	res, err := n.Client().Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	assert.Equal(t, http.StatusBadRequest, res.StatusCode)
}
