package evm_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/evm"
	"github.com/dltbatch/dltbatch/dlt/evm/evmtest"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
	"github.com/dltbatch/dltbatch/internal/anvil"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store/memory"
)

// remoteSigner answers as Web3Signer in its eth1 mode: eth_signTransaction returns the signed
// transaction, and a refusal has the status 400 and a JSON-RPC error.
type remoteSigner struct {
	*httptest.Server
	chain uint64 // the chain of its own option, for which it signs whatever the request says
	keys  map[string]evmtest.Account

	mu            sync.Mutex
	requestParams []map[string]any // the parameters of each request
	// changeAnswer, if not nil, changes the signed transaction or the answer.
	changeAnswer func(w http.ResponseWriter, r *http.Request, tx *evmtx.Tx)
	lastHeader   http.Header // the headers of the last request
}

func newRemoteSigner(t testing.TB, chain uint64, keys ...evmtest.Account) *remoteSigner {
	s := &remoteSigner{chain: chain, keys: map[string]evmtest.Account{}}
	for _, k := range keys {
		s.keys[k.Address()] = k
	}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *remoteSigner) setChange(f func(w http.ResponseWriter, r *http.Request, tx *evmtx.Tx)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changeAnswer = f
}

func (s *remoteSigner) requestCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.requestParams)
}

func (s *remoteSigner) serve(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Version string           `json:"jsonrpc"`
		ID      int              `json:"id"`
		Method  string           `json:"method"`
		Params  []map[string]any `json:"params"`
	}
	refuse := func(status, code int, message string) {
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%d,"error":{"code":%d,"message":%q}}`, req.ID, code, message)
	}
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil || req.Version != "2.0" || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
		refuse(http.StatusBadRequest, -32700, "Parse error")
		return
	}
	s.mu.Lock()
	s.requestParams, s.lastHeader = append(s.requestParams, req.Params[0]), r.Header
	bends := s.changeAnswer
	s.mu.Unlock()
	if req.Method != "eth_signTransaction" || len(req.Params) != 1 {
		refuse(http.StatusBadRequest, -32602, "Invalid params")
		return
	}
	p := req.Params[0]
	key, ok := s.keys[p["from"].(string)]
	if !ok {
		refuse(http.StatusBadRequest, -32000, "No unlocked account matches the Sender")
		return
	}
	quantity := func(field string) *big.Int {
		v, ok := new(big.Int).SetString(p[field].(string)[2:], 16)
		if !ok || p[field] != "0x"+v.Text(16) {
			panic(http.ErrAbortHandler)
		}
		return v
	}
	tx := &evmtx.Tx{
		Type: evmtx.DynamicFee, ChainID: s.chain, Nonce: quantity("nonce").Uint64(), Tip: quantity("maxPriorityFeePerGas"),
		FeeCap: quantity("maxFeePerGas"), Gas: quantity("gas").Uint64(), Value: quantity("value"),
	}
	if to, ok := p["to"].(string); ok {
		address, err := evmtx.ParseAddress(to)
		if err != nil {
			refuse(http.StatusBadRequest, -32602, "Invalid params")
			return
		}
		tx.To = &address
	}
	if data, ok := p["data"].(string); ok {
		tx.Data = fromHex(data)
	}
	tx.Sign(secp256k1.PrivKeyFromBytes(key.Key()))
	if bends != nil {
		bends(w, r, tx)
		return
	}
	answerSigned(w, toHex(tx.Encode()))
}

func answerSigned(w io.Writer, text string) {
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"result":%q}`, text)
}

// signer returns a signer that asks the service, without idle connections left at the end.
func (s *remoteSigner) signer(t testing.TB, o *evm.Web3SignerOptions) *evm.Web3Signer {
	w, err := evm.NewWeb3Signer(s.URL, o)
	require.NoError(t, err)
	t.Cleanup(w.CloseIdleConnections)
	return w
}

func unsignedOf(chain uint64) evm.Unsigned {
	to, err := evmtx.ParseAddress(evmtest.Dev(9).Address())
	if err != nil {
		panic(err)
	}
	tx := &evmtx.Tx{Type: evmtx.DynamicFee, ChainID: chain, Nonce: 7, Tip: big.NewInt(1e9), FeeCap: big.NewInt(3e9), Gas: 50_000, To: &to, Value: big.NewInt(5), Data: []byte{0xab, 0}}
	return evm.Unsigned{
		ChainID: chain, Nonce: 7, Fee: evm.Fee{Tip: tx.Tip, FeeCap: tx.FeeCap}, Gas: tx.Gas, To: to.String(), Value: tx.Value, Data: tx.Data,
		Bytes: tx.SigningBytes(), Hash: tx.SigningHash(),
	}
}

// The request is as Web3Signer documents it, and the answer is read as the account's signature.
func TestWeb3Signer(t *testing.T) {
	s := newRemoteSigner(t, 1337, evmtest.Dev(0))
	w := s.signer(t, &evm.Web3SignerOptions{Header: http.Header{"Authorization": {"Bearer secret-token"}}})
	want, err := evm.NewKeySigner(evmtest.Dev(0).Key())
	require.NoError(t, err)
	for name, tx := range map[string]evm.Unsigned{"a call": unsignedOf(1337), "a contract": unsignedContract(1337)} {
		sig, err := w.Sign(t.Context(), evmtest.Dev(0).Address(), tx)
		require.NoError(t, err, name)
		good, err := want.Sign(t.Context(), evmtest.Dev(0).Address(), tx)
		require.NoError(t, err)
		assert.Equal(t, good, sig, name)
		assert.Equal(t, "Bearer secret-token", s.lastHeader.Get("Authorization"))
		p := s.requestParams[len(s.requestParams)-1]
		for field, v := range map[string]any{
			"from": evmtest.Dev(0).Address(), "gas": "0xc350", "maxFeePerGas": "0xb2d05e00", "maxPriorityFeePerGas": "0x3b9aca00",
			"nonce": "0x7", "value": "0x5", "data": "0xab00", "chainId": "0x539",
		} {
			assert.Equal(t, v, p[field], "%s: %s", name, field)
		}
		if tx.To == "" {
			assert.NotContains(t, p, "to")
		} else {
			assert.Equal(t, tx.To, p["to"])
		}
	}
	assert.Equal(t, "evm.Web3Signer at "+s.URL, fmt.Sprintf("%v", w))
}

func unsignedContract(chain uint64) evm.Unsigned {
	tx := unsignedOf(chain)
	inner := &evmtx.Tx{Type: evmtx.DynamicFee, ChainID: chain, Nonce: 7, Tip: tx.Fee.Tip, FeeCap: tx.Fee.FeeCap, Gas: tx.Gas, Value: tx.Value, Data: tx.Data}
	tx.To, tx.Bytes, tx.Hash = "", inner.SigningBytes(), inner.SigningHash()
	return tx
}

// badSigners are services that answer wrongly.
var badSigners = map[string]struct {
	bend func(w http.ResponseWriter, r *http.Request, tx *evmtx.Tx)
	says string
	kind error
}{
	"HTML": {func(w http.ResponseWriter, _ *http.Request, _ *evmtx.Tx) {
		_, _ = io.WriteString(w, "<html><body>gateway secret-token</body></html>")
	}, "no JSON", dlt.ErrUnavailable},
	"nothing": {func(http.ResponseWriter, *http.Request, *evmtx.Tx) {}, "no JSON", dlt.ErrUnavailable},
	"500": {func(w http.ResponseWriter, _ *http.Request, _ *evmtx.Tx) {
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"Internal error of secret-token"}}`)
	}, "HTTP 500", dlt.ErrUnavailable},
	"500 without words":   {answerStatus(http.StatusInternalServerError), "HTTP 500", dlt.ErrUnavailable},
	"401":                 {answerStatus(http.StatusUnauthorized), "HTTP 401", dlt.ErrMisconfigured},
	"404":                 {answerStatus(http.StatusNotFound), "HTTP 404", dlt.ErrMisconfigured},
	"a redirect":          {answerRedirect, "HTTP 307", dlt.ErrMisconfigured},
	"signed, and a 500":   {answerSignedWith500, "under another status", dlt.ErrUnavailable},
	"a broken connection": {func(http.ResponseWriter, *http.Request, *evmtx.Tx) { panic(http.ErrAbortHandler) }, "EOF", dlt.ErrUnavailable},
	"an endless answer":   {answerEndlessly, "larger than", dlt.ErrUnavailable},
	"null":                {answerResult("null"), "the result is not the signed transaction", dlt.ErrUnavailable},
	"no result": {func(w http.ResponseWriter, _ *http.Request, _ *evmtx.Tx) {
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1}`)
	}, "the result is not", dlt.ErrUnavailable},
	"an object":        {answerResult(`{"raw":"0x02"}`), "the result is not the signed transaction", dlt.ErrUnavailable},
	"a signature only": {answerResult(`"0x` + strings.Repeat("11", 65) + `"`), "the result: ", dlt.ErrUnavailable},
	"truncated hex": {func(w http.ResponseWriter, _ *http.Request, tx *evmtx.Tx) {
		answerSigned(w, toHex(tx.Encode())[:101])
	}, "an even number of hex digits, but 101 characters", dlt.ErrUnavailable},
	"truncated bytes": {func(w http.ResponseWriter, _ *http.Request, tx *evmtx.Tx) {
		answerSigned(w, toHex(tx.Encode())[:100])
	}, "canonical RLP", dlt.ErrUnavailable},
	"a byte too many": {func(w http.ResponseWriter, _ *http.Request, tx *evmtx.Tx) { answerSigned(w, toHex(tx.Encode())+"00") }, "nothing behind it", dlt.ErrUnavailable},
	"no prefix":       {func(w http.ResponseWriter, _ *http.Request, tx *evmtx.Tx) { answerSigned(w, toHex(tx.Encode())[2:]) }, "not 0x", dlt.ErrUnavailable},
	"another nonce":   {signChanged(func(tx *evmtx.Tx) { tx.Nonce++ }), "it signed another transaction: nonce 8, not 7", dlt.ErrMisconfigured},
	"another chain":   {signChanged(func(tx *evmtx.Tx) { tx.ChainID = 1 }), "chain id 1, not 1337", dlt.ErrMisconfigured},
	"another fee":     {signChanged(func(tx *evmtx.Tx) { tx.FeeCap = big.NewInt(4e9) }), "maxFeePerGas 4000000000, not 3000000000", dlt.ErrMisconfigured},
	"another tip":     {signChanged(func(tx *evmtx.Tx) { tx.Tip = big.NewInt(2) }), "maxPriorityFeePerGas 2, not 1000000000", dlt.ErrMisconfigured},
	"other gas":       {signChanged(func(tx *evmtx.Tx) { tx.Gas = 90000 }), "gas 90000, not 50000", dlt.ErrMisconfigured},
	"another account": {signChanged(func(tx *evmtx.Tx) { tx.To = nil }), "to , not 0xa0ee", dlt.ErrMisconfigured},
	"another value":   {signChanged(func(tx *evmtx.Tx) { tx.Value = big.NewInt(6) }), "value 6, not 5", dlt.ErrMisconfigured},
	"other data":      {signChanged(func(tx *evmtx.Tx) { tx.Data = nil }), "data , not 0xab00", dlt.ErrMisconfigured},
	"an access list":  {signChanged(func(tx *evmtx.Tx) { tx.Access = []evmtx.AccessTuple{{}} }), "with an access list", dlt.ErrMisconfigured},
	"another type":    {signChanged(func(tx *evmtx.Tx) { tx.Type, tx.Tip = evmtx.Legacy, tx.FeeCap }), "type 0, not 2", dlt.ErrMisconfigured},
}

func answerStatus(code int) func(http.ResponseWriter, *http.Request, *evmtx.Tx) {
	return func(w http.ResponseWriter, _ *http.Request, _ *evmtx.Tx) { w.WriteHeader(code) }
}

func answerRedirect(w http.ResponseWriter, r *http.Request, _ *evmtx.Tx) {
	http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
}

func answerSignedWith500(w http.ResponseWriter, _ *http.Request, tx *evmtx.Tx) {
	w.WriteHeader(http.StatusInternalServerError)
	answerSigned(w, toHex(tx.Encode()))
}

func answerEndlessly(w http.ResponseWriter, r *http.Request, _ *evmtx.Tx) {
	for r.Context().Err() == nil {
		if _, err := w.Write(make([]byte, 64<<10)); err != nil {
			return
		}
	}
}

func answerResult(text string) func(http.ResponseWriter, *http.Request, *evmtx.Tx) {
	return func(w http.ResponseWriter, _ *http.Request, _ *evmtx.Tx) {
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"result":%s}`, text)
	}
}

// signChanged signs another transaction, with the right key.
func signChanged(change func(*evmtx.Tx)) func(http.ResponseWriter, *http.Request, *evmtx.Tx) {
	return func(w http.ResponseWriter, _ *http.Request, tx *evmtx.Tx) {
		change(tx)
		tx.Sign(secp256k1.PrivKeyFromBytes(evmtest.Dev(0).Key()))
		answerSigned(w, toHex(tx.Encode()))
	}
}

// Whatever the service answers, the error names the mistake and shows no credentials, and the
// service was asked once.
func TestWeb3SignerThatFails(t *testing.T) {
	for name, c := range badSigners {
		t.Run(name, func(t *testing.T) {
			s := newRemoteSigner(t, 1337, evmtest.Dev(0))
			s.setChange(c.bend)
			address := strings.Replace(s.URL, "http://", "http://user:secret-token@", 1) + "/v1/secret-key-of-path?key=secret-in-query"
			w, err := evm.NewWeb3Signer(address, &evm.Web3SignerOptions{Header: http.Header{"X-Key": {"secret-token"}}})
			require.NoError(t, err)
			defer w.CloseIdleConnections()
			_, err = w.Sign(t.Context(), evmtest.Dev(0).Address(), unsignedOf(1337))
			require.ErrorContains(t, err, c.says)
			require.ErrorIs(t, err, c.kind)
			assert.ErrorContains(t, err, s.URL, "it names the service")
			for _, secret := range []string{"secret-token", "secret-key-of-path", "secret-in-query"} {
				assert.NotContains(t, err.Error(), secret)
				assert.NotContains(t, fmt.Sprintf("%v %+v %#v", w, w, w), secret)
			}
			assert.Less(t, len(err.Error()), 700)
			assert.Equal(t, 1, s.requestCount())
		})
	}
	t.Run("no such account", func(t *testing.T) {
		s := newRemoteSigner(t, 1337, evmtest.Dev(1))
		_, err := s.signer(t, nil).Sign(t.Context(), evmtest.Dev(0).Address(), unsignedOf(1337))
		require.ErrorContains(t, err, "No unlocked account matches the Sender")
		require.ErrorContains(t, err, "HTTP 400")
	})
	t.Run("nobody listens", func(t *testing.T) {
		s := newRemoteSigner(t, 1337)
		s.Close()
		_, err := s.signer(t, nil).Sign(t.Context(), evmtest.Dev(0).Address(), unsignedOf(1337))
		require.ErrorIs(t, err, dlt.ErrUnavailable)
	})
	t.Run("a hang", func(t *testing.T) {
		s := newRemoteSigner(t, 1337, evmtest.Dev(0))
		s.setChange(func(_ http.ResponseWriter, r *http.Request, _ *evmtx.Tx) { <-r.Context().Done() })
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := s.signer(t, nil).Sign(ctx, evmtest.Dev(0).Address(), unsignedOf(1337))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, dlt.ErrUnavailable)
	})
}

// While a signing service answers wrongly, nothing of an intent is stored or sent, and within the
// time limit the lane shows the reason. Once the service answers rightly, the payment is made. A
// high s is turned into the low one.
func TestWeb3SignerInALane(t *testing.T) {
	node := evmtest.Start(t, &evmtest.Options{Personality: evmtest.Anvil, BlockTime: -1, SlotsInAnEpoch: 1})
	s := newChainAtURL(t, node.URL())
	from := s.newAccount()
	remote := newRemoteSigner(t, s.chain, from)
	hang := make(chan struct{})
	defer close(hang)
	o := finalAfterTwoBlocks()
	o.SignTimeout = 250 * time.Millisecond
	k := &slotRecorder{}
	p := s.startRunnerOf(memory.New(), withSlotRecorder(s.newSigningClient(o, remote.signer(t, nil)), k), queuer.Serial())
	for _, c := range []struct {
		name, wantText string
		bend           func(w http.ResponseWriter, r *http.Request, tx *evmtx.Tx)
	}{
		{"another account's", "its signature is of account " + evmtest.Dev(3).Address(), func(w http.ResponseWriter, _ *http.Request, tx *evmtx.Tx) {
			tx.Sign(secp256k1.PrivKeyFromBytes(evmtest.Dev(3).Key()))
			answerSigned(w, toHex(tx.Encode()))
		}},
		{"another value", "it signed another transaction: value", func(w http.ResponseWriter, _ *http.Request, tx *evmtx.Tx) {
			tx.Value = big.NewInt(1)
			tx.Sign(secp256k1.PrivKeyFromBytes(from.Key()))
			answerSigned(w, toHex(tx.Encode()))
		}},
		{"a hang", "deadline exceeded", func(_ http.ResponseWriter, r *http.Request, _ *evmtx.Tx) {
			select {
			case <-r.Context().Done():
			case <-hang:
			}
		}},
		{"HTML", "no JSON", func(w http.ResponseWriter, _ *http.Request, _ *evmtx.Tx) { _, _ = io.WriteString(w, "<html>") }},
	} {
		remote.setChange(c.bend)
		b := s.newIntent(from, int64(10+len(k.preparedByBatch)))
		p.add(b)
		var rec batch.Record
		for range 2000 {
			if rec = p.record(b); rec.Error != nil && strings.Contains(rec.Error.Error(), c.wantText) {
				break
			}
			time.Sleep(s.timeUnit)
		}
		require.NotNil(t, rec.Error, c.name)
		require.ErrorContains(t, rec.Error, c.wantText, c.name)
		assert.Equal(t, batch.KindNotYet, rec.Error.Kind, c.name)
		assert.Empty(t, k.preparedOf(b), "%s: nothing was posted", c.name)
		remote.setChange(func(w http.ResponseWriter, _ *http.Request, tx *evmtx.Tx) { // a right answer with s in the upper half
			tx.S = new(big.Int).Sub(secp256k1.Params().N, tx.S)
			tx.YParity ^= 1
			answerSigned(w, toHex(tx.Encode()))
		})
		p.mineUntil(b, batch.Committed)
	}
	assert.Len(t, s.valuesPaid(from), 4)
}

// anvil signs for the accounts that it funds, with the same request.
func TestWeb3SignerOfAnvil(t *testing.T) {
	s := newChainAtURL(t, anvil.Start(t, "--no-mining").URL())
	w, err := evm.NewWeb3Signer(s.url, nil)
	require.NoError(t, err)
	t.Cleanup(w.CloseIdleConnections)
	from := evmtest.Dev(0)
	p := s.startRunnerOf(memory.New(), s.newSigningClient(finalAfterTwoBlocks(), w), queuer.Serial())
	pay, create := s.newIntent(from, 10), s.newIntentOf(from, evm.Intent{Data: evmtest.Reverting(), Value: big.NewInt(0)})
	p.add(pay, create)
	p.mineUntil(pay, batch.Committed)
	p.mineUntil(create, batch.Committed)
	assert.Equal(t, []int64{10, 0}, s.valuesPaid(from))
}

func TestNewWeb3SignerOptions(t *testing.T) {
	for name, c := range map[string]struct {
		url     string
		options *evm.Web3SignerOptions
		field   string
	}{
		"no scheme":        {"localhost:9000", nil, "url"},
		"another scheme":   {"ftp://localhost", nil, "url"},
		"a secret":         {"http://user:secret-token@/", nil, "url"},
		"a header":         {"http://localhost:1", &evm.Web3SignerOptions{Header: http.Header{"Content-Type": {"x"}}}, "Web3SignerOptions.Header"},
		"TLS and a client": {"http://localhost:1", &evm.Web3SignerOptions{Client: &http.Client{}, TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12}}, "Web3SignerOptions.TLSConfig"},
	} {
		_, err := evm.NewWeb3Signer(c.url, c.options)
		var inputErr *batch.InputError
		require.ErrorAs(t, err, &inputErr, name)
		assert.Equal(t, c.field, inputErr.Field, name)
		assert.NotContains(t, err.Error(), "secret-token")
	}
}

// Any answer of a service is either refused or is the requested transaction.
func FuzzSigned(f *testing.F) {
	tx := unsignedOf(1337)
	to, err := evmtx.ParseAddress(tx.To)
	require.NoError(f, err)
	signed := &evmtx.Tx{Type: evmtx.DynamicFee, ChainID: 1337, Nonce: 7, Tip: tx.Fee.Tip, FeeCap: tx.Fee.FeeCap, Gas: tx.Gas, To: &to, Value: tx.Value, Data: tx.Data}
	signed.Sign(secp256k1.PrivKeyFromBytes(evmtest.Dev(0).Key()))
	good := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":%q}`, toHex(signed.Encode()))
	require.NoError(f, evm.ReadSigned([]byte(good), tx))
	for _, seed := range []string{good, good[:100], `{"error":{"code":-32000,"message":"no"}}`, `{"result":"0x02c0"}`, `{"result":"0x"}`, `[]`, ``} {
		f.Add([]byte(seed))
	}
	unsigned := toHex(tx.Bytes[2:]) // all fields, without the type and the list's length
	f.Fuzz(func(t *testing.T, raw []byte) {
		if err := evm.ReadSigned(raw, tx); err == nil && !strings.Contains(strings.ToLower(string(raw)), unsigned[2:]) {
			t.Fatalf("read, and not what was asked for: %s", raw)
		}
	})
}
