package splintertest_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/splinter/splintertest"
)

var lastNonce atomic.Int64

func newTransaction(payload []byte, address string) sawtooth.Transaction {
	return sawtooth.Transaction{
		FamilyName: splintertest.Family, FamilyVersion: splintertest.FamilyVersion, Payload: payload,
		Inputs: []string{address}, Outputs: []string{address}, Nonce: strconv.FormatInt(lastNonce.Add(1), 10),
	}
}

func buildBatch(t testing.TB, txs ...sawtooth.Transaction) batch.Batch {
	t.Helper()
	key, err := sawtooth.ParsePrivateKey("2f1e7b7a130d7ba9da0068b3bb0ba1d79e7e77110302c9f746c3c2a63fe40088")
	require.NoError(t, err)
	b, err := sawtooth.Build(key, "", txs...)
	require.NoError(t, err)
	return b
}

func incBatch(t testing.TB) batch.Batch {
	t.Helper()
	return buildBatch(t, newTransaction(splintertest.Inc("x", 1)))
}

// batchList returns the body of a POST of these batches.
func batchList(bs ...batch.Batch) (out []byte) {
	for _, b := range bs {
		out = protowire.AppendBytes(protowire.AppendTag(out, 1, protowire.BytesType), b.Payload)
	}
	return out
}

// response is an HTTP answer whose body was read.
type response struct {
	status int
	body   string
}

func (r response) decode(t testing.TB) (decode map[string]any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(r.body), &decode), r.body)
	return decode
}

func sendRequest(t testing.TB, method, url string, body []byte, headers ...string) response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	require.NoError(t, err)
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	require.NoError(t, err)
	defer func() { require.NoError(t, res.Body.Close()) }()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return response{status: res.StatusCode, body: string(text)}
}

func serviceURL(n *splintertest.Network, s batch.ServiceID) string {
	return n.URL(n.NodeOf(s)) + "/scabbard/" + strings.Replace(string(s), "::", "/", 1)
}

func postBatches(t testing.TB, n *splintertest.Network, s batch.ServiceID, bs ...batch.Batch) response {
	t.Helper()
	return sendRequest(t, http.MethodPost, serviceURL(n, s)+"/batches", batchList(bs...))
}

func postAccepted(t testing.TB, n *splintertest.Network, s batch.ServiceID, bs ...batch.Batch) {
	t.Helper()
	r := postBatches(t, n, s, bs...)
	require.Equal(t, http.StatusAccepted, r.status, r.body)
}

func waitForStatus(t testing.TB, n *splintertest.Network, s batch.ServiceID, b batch.Batch, want string) {
	t.Helper()
	require.Eventually(t, func() bool { return n.Status(s, b.ID) == want }, 30*time.Second, time.Millisecond, "never %s", want)
}

// answeredWords returns the results of a batch's executions, in order.
func answeredWords(n *splintertest.Network, b batch.Batch) (out []string) {
	for _, e := range n.Journal() {
		if e.Kind == splintertest.Executed && e.Batches[0] == b.ID {
			out = append(out, e.Word)
		}
	}
	return out
}
