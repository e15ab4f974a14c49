package evmtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// reply is an HTTP answer whose body was read.
type reply struct {
	status int
	text   string
	header http.Header
}

// post sends a body to a node.
func post(t testing.TB, n *Node, body []byte) (reply, error) {
	t.Helper()
	url := n.URL()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", jsonType)
	res, err := n.Client().Do(req)
	if err != nil {
		return reply{}, err
	}
	all, err := io.ReadAll(res.Body)
	return reply{res.StatusCode, string(all), res.Header}, errors.Join(err, res.Body.Close())
}

func bodyOf(t testing.TB, method string, params ...any) []byte {
	t.Helper()
	if params == nil {
		params = []any{}
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	require.NoError(t, err)
	return body
}

// ask calls a method. The error is nil if the node answered with a result.
func ask(t testing.TB, n *Node, method string, params ...any) (any, *RPCError) {
	t.Helper()
	r, err := post(t, n, bodyOf(t, method, params...))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, r.status, r.text)
	var got struct {
		Result any
		Error  *struct {
			Code    int
			Message string
		}
	}
	require.NoError(t, json.Unmarshal([]byte(r.text), &got), r.text)
	if got.Error != nil {
		return nil, &RPCError{got.Error.Code, got.Error.Message}
	}
	return got.Result, nil
}

// askResult is ask for a call that must succeed.
func askResult(t testing.TB, n *Node, method string, params ...any) any {
	t.Helper()
	x, w := ask(t, n, method, params...)
	require.Nil(t, w, "%s %v", method, params)
	return x
}

// signPayment returns a signed payment of one wei, changed by bend.
func signPayment(n *Node, a Account, nonce uint64, bend ...func(*Unsigned)) (raw, hash string) {
	u := Unsigned{ChainID: n.options.ChainID, Nonce: nonce, To: deadAddress, Value: big.NewInt(1)}
	for _, b := range bend {
		b(&u)
	}
	b, h := a.Sign(u)
	return hexBytes(b), h
}

// sendPayment sends a payment, which must be accepted.
func sendPayment(t testing.TB, n *Node, a Account, nonce uint64, bend ...func(*Unsigned)) (hash string) {
	t.Helper()
	raw, h := signPayment(n, a, nonce, bend...)
	require.Equal(t, h, askResult(t, n, sendMethod, raw))
	return h
}

func nonceOf(t testing.TB, n *Node, a Account, tag any) any {
	t.Helper()
	return askResult(t, n, "eth_getTransactionCount", a.Address(), tag)
}

// blockNumberOf returns the block of a transaction: nil if it is in none, false if the node does
// not know the transaction.
func blockNumberOf(t testing.TB, n *Node, hash string) any {
	t.Helper()
	tx, ok := askResult(t, n, "eth_getTransactionByHash", hash).(map[string]any)
	if !ok {
		return false
	}
	receipt, _ := askResult(t, n, "eth_getTransactionReceipt", hash).(map[string]any)
	require.Equal(t, tx["blockNumber"], receipt["blockNumber"], "by hash and receipt")
	return tx["blockNumber"]
}

// runInBubble runs f in virtual time, with a node that has no socket.
func runInBubble(t *testing.T, o Options, f func(t *testing.T, n *Node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o.InMemory = true
		f(t, Start(t, &o))
	})
}
