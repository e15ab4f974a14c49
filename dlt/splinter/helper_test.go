package splinter_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/splinter"
	"github.com/dltbatch/dltbatch/dlt/splinter/splintertest"
)

const service = batch.ServiceID("aaaaa-bbbbb::a000")

// vectorKey is the first key of docs/ledgers/sawtooth.md#signatures.
const vectorKey = "2f1e7b7a130d7ba9da0068b3bb0ba1d79e7e77110302c9f746c3c2a63fe40088"

func testKey(t testing.TB) *sawtooth.PrivateKey {
	t.Helper()
	k, err := sawtooth.ParsePrivateKey(vectorKey)
	require.NoError(t, err)
	return k
}

var lastNonce atomic.Int64

// newTransaction returns a transaction that differs from all others.
func newTransaction(payload []byte, address string) sawtooth.Transaction {
	return sawtooth.Transaction{
		FamilyName: splintertest.Family, FamilyVersion: splintertest.FamilyVersion,
		Inputs: []string{address}, Outputs: []string{address}, Payload: payload,
		Nonce: strconv.FormatInt(lastNonce.Add(1), 10),
	}
}

func buildBatch(t testing.TB, s batch.ServiceID, txs ...sawtooth.Transaction) batch.Batch {
	t.Helper()
	b, err := sawtooth.Build(testKey(t), s, txs...)
	require.NoError(t, err)
	return b
}

// incBatch returns a batch that adds one to a name.
func incBatch(t testing.TB, s batch.ServiceID, name string) batch.Batch {
	t.Helper()
	return buildBatch(t, s, newTransaction(splintertest.Inc(name, 1)))
}

func firstAttempt(b batch.Batch) batch.Attempt {
	return batch.Attempt{Key: b.Key(), Number: 1, Payload: b.Payload}
}

func newClient(t testing.TB, url string, o *splinter.Options) *splinter.Client {
	t.Helper()
	c, err := splinter.New(url, o)
	require.NoError(t, err)
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// startNodeThatAnswers returns a node that gives every request the same answer.
func startNodeThatAnswers(t testing.TB, status int, contentType, body string, headers ...string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if contentType != "" {
			w.Header().Set("Content-Type", contentType)
		}
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(s.Close)
	return s
}

// deadURL returns an address that refuses connections.
func deadURL(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	return "http://" + l.Addr().String()
}
