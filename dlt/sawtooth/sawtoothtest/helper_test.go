package sawtoothtest

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/internal/pb"
)

// newKey returns the key that signs in the tests, from the vector of
// docs/ledgers/sawtooth.md#signatures.
func newKey(t testing.TB) *secp256k1.PrivateKey {
	t.Helper()
	b, err := hex.DecodeString("2f1e7b7a130d7ba9da0068b3bb0ba1d79e7e77110302c9f746c3c2a63fe40088")
	require.NoError(t, err)
	return secp256k1.PrivKeyFromBytes(b)
}

func sign(k *secp256k1.PrivateKey, message []byte) string {
	sum := sha256.Sum256(message)
	sig := ecdsa.SignCompact(k, sum[:], true)
	return hex.EncodeToString(sig[1:])
}

func publicKeyHex(k *secp256k1.PrivateKey) string {
	return hex.EncodeToString(k.PubKey().SerializeCompressed())
}

var lastNonce atomic.Int64

// unsignedTx is a transaction before it is signed. Its header can still be changed.
type unsignedTx struct {
	payload []byte
	header  *pb.TransactionHeader
}

func intkeyTx(payload []byte, address string) unsignedTx {
	sum := sha512.Sum512(payload)
	return unsignedTx{payload: payload, header: &pb.TransactionHeader{
		FamilyName: IntKey.Name, FamilyVersion: IntKey.Version,
		Inputs: []string{address}, Outputs: []string{address},
		Nonce: strconv.FormatInt(lastNonce.Add(1), 10), PayloadSha512: hex.EncodeToString(sum[:]),
	}}
}

func (x unsignedTx) withHeader(bend func(h *pb.TransactionHeader)) unsignedTx {
	x.header = proto.Clone(x.header).(*pb.TransactionHeader)
	bend(x.header)
	return x
}

func marshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	require.NoError(t, err)
	return b
}

func signTx(t testing.TB, x unsignedTx) *pb.Transaction {
	t.Helper()
	k := newKey(t)
	h := proto.Clone(x.header).(*pb.TransactionHeader)
	if h.SignerPublicKey == "" {
		h.SignerPublicKey = publicKeyHex(k)
	}
	if h.BatcherPublicKey == "" {
		h.BatcherPublicKey = publicKeyHex(k)
	}
	raw := marshal(t, h)
	return &pb.Transaction{Header: raw, HeaderSignature: sign(k, raw), Payload: x.payload}
}

func signBatch(t testing.TB, txs ...*pb.Transaction) *pb.Batch {
	t.Helper()
	k := newKey(t)
	h := &pb.BatchHeader{SignerPublicKey: publicKeyHex(k)}
	for _, x := range txs {
		h.TransactionIds = append(h.TransactionIds, x.GetHeaderSignature())
	}
	raw := marshal(t, h)
	return &pb.Batch{Header: raw, HeaderSignature: sign(k, raw), Transactions: txs}
}

func makeBatch(t testing.TB, txs ...unsignedTx) *pb.Batch {
	t.Helper()
	signed := make([]*pb.Transaction, len(txs))
	for i, x := range txs {
		signed[i] = signTx(t, x)
	}
	return signBatch(t, signed...)
}

func batchID(b *pb.Batch) batch.ID { return batch.ID(b.GetHeaderSignature()) }

// response is an HTTP answer whose body was read.
type response struct {
	status      int
	contentType string
	body        string
	json        map[string]any
}

func (r response) code() int {
	e, ok := r.json["error"].(map[string]any)
	if !ok {
		return 0
	}
	return int(e["code"].(float64))
}

func tryRequest(t testing.TB, method, url, contentType string, body []byte) (response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	require.NoError(t, err)
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return response{}, err
	}
	defer func() { require.NoError(t, res.Body.Close()) }()
	text, err := io.ReadAll(res.Body)
	r := response{status: res.StatusCode, contentType: res.Header.Get("Content-Type"), body: string(text)}
	if strings.HasPrefix(r.contentType, "application/json") && err == nil {
		require.NoError(t, json.Unmarshal(text, &r.json))
	}
	return r, err
}

func sendRequest(t testing.TB, method, url, contentType string, body []byte) response {
	t.Helper()
	r, err := tryRequest(t, method, url, contentType, body)
	require.NoError(t, err)
	return r
}

func postList(t testing.TB, n *Node, bs ...*pb.Batch) (response, error) {
	t.Helper()
	return tryRequest(t, http.MethodPost, n.URL()+"/batches", "application/octet-stream", marshal(t, &pb.BatchList{Batches: bs}))
}

func submitOK(t testing.TB, n *Node, bs ...*pb.Batch) {
	t.Helper()
	r, err := postList(t, n, bs...)
	require.NoError(t, err)
	require.Equal(t, http.StatusAccepted, r.status, r.body)
}

// askStatus returns the status of a batch, asked for over HTTP.
func askStatus(t testing.TB, n *Node, b *pb.Batch) string {
	t.Helper()
	w, _ := statusOf(t, n, b)
	return w
}

func statusOf(t testing.TB, n *Node, b *pb.Batch) (string, []any) {
	t.Helper()
	r := sendRequest(t, http.MethodGet, n.URL()+"/batch_statuses?id="+b.GetHeaderSignature(), "", nil)
	require.Equal(t, http.StatusOK, r.status, r.body)
	e := r.json["data"].([]any)[0].(map[string]any)
	return e["status"].(string), e["invalid_transactions"].([]any)
}

func waitForStatus(t testing.TB, n *Node, b *pb.Batch, want string) {
	t.Helper()
	require.Eventually(t, func() bool { return askStatus(t, n, b) == want }, 30*time.Second, time.Millisecond, "never %s", want)
}

// fastOptions returns options of a node that makes a block every 10 ms.
func fastOptions(o Options) *Options {
	if o.BlockInterval == 0 {
		o.BlockInterval = 10 * time.Millisecond
	}
	return &o
}

// countEntries counts the journal's entries of kind k that name the batch.
func countEntries(n *Node, k Kind, b *pb.Batch) (count int) {
	for _, e := range n.Journal() {
		if e.Kind != k {
			continue
		}
		for _, x := range e.Batches {
			if x == batchID(b) {
				count++
			}
		}
	}
	return count
}

// requestInBubble makes a request inside a bubble of synctest.
func requestInBubble(t testing.TB, n *Node, req *http.Request) response {
	t.Helper()
	res, err := n.Client().Do(req)
	require.NoError(t, err)
	defer func() { require.NoError(t, res.Body.Close()) }()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	r := response{status: res.StatusCode, contentType: res.Header.Get("Content-Type"), body: string(text)}
	if strings.HasPrefix(r.contentType, "application/json") {
		require.NoError(t, json.Unmarshal(text, &r.json))
	}
	return r
}

func postInBubble(t testing.TB, n *Node, bs ...*pb.Batch) response {
	t.Helper()
	body := marshal(t, &pb.BatchList{Batches: bs})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x/batches", bytes.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/octet-stream")
	return requestInBubble(t, n, req)
}

func submitInBubble(t testing.TB, n *Node, bs ...*pb.Batch) {
	t.Helper()
	require.Equal(t, http.StatusAccepted, postInBubble(t, n, bs...).status)
}
