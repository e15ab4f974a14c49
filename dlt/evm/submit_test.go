package evm_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/evm"
	"github.com/dltbatch/dltbatch/dlt/evm/evmtest"
	"github.com/dltbatch/dltbatch/internal/tier"
)

func attempt(b batch.Batch, number int) batch.Attempt {
	return batch.Attempt{Key: b.Key(), Number: number, Payload: b.Payload}
}

// scriptedNode is a node that answers each method by a func. It answers null to any other method.
type scriptedNode struct {
	mu              sync.Mutex
	answersByMethod map[string]func(params []any) (result any, refusal string)
	status          int // status of the answer to a send; 0 means 200
	header          http.Header
	maxArray        int // how many requests an array may have; 0 means any number
	sendCount       int
	arraySizes      []int
}

const (
	genesisHash = "0x1111111111111111111111111111111111111111111111111111111111111111"
	foreignHash = "0x2222222222222222222222222222222222222222222222222222222222222222"
)

func blockAt(number uint64) map[string]any {
	hash := func(n uint64) string {
		if n == 0 {
			return genesisHash
		}
		return fmt.Sprintf("0x%064x", 0xb10c0000+n)
	}
	return map[string]any{"number": fmt.Sprintf("0x%x", number), "hash": hash(number), "parentHash": hash(number - 1), "transactions": []any{}}
}

// heightOf returns the height that a parameter names, by a number or by the hash of a script's
// block. A tag names the head. known is false for the hash of another chain's block.
func heightOf(tag any, head uint64) (height uint64, known bool) {
	switch tag := tag.(type) {
	case map[string]any:
		if tag["blockHash"] == genesisHash {
			return 0, true
		}
		_, err := fmt.Sscanf(tag["blockHash"].(string), "0x%x", &height)
		return height - 0xb10c0000, err == nil && height >= 0xb10c0000
	case string:
		if strings.HasPrefix(tag, "0x") {
			_, err := fmt.Sscanf(tag, "0x%x", &height)
			return height, err == nil
		}
	}
	return head, true
}

// newScriptedNode returns a node of chain 1337 with a hundred empty blocks, and its address.
func newScriptedNode(t testing.TB) (*scriptedNode, string) {
	s := &scriptedNode{answersByMethod: map[string]func([]any) (any, string){
		"eth_chainId":             func([]any) (any, string) { return "0x539", "" },
		"eth_getTransactionCount": func([]any) (any, string) { return "0x0", "" },
		"eth_getBlockByNumber": func(params []any) (any, string) {
			var n uint64
			switch tag := params[0].(string); tag {
			case "latest":
				n = 100
			case "finalized":
				n = 90
			default:
				_, err := fmt.Sscanf(tag, "0x%x", &n)
				require.NoError(t, err)
			}
			return blockAt(n), ""
		},
	}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, server.URL
}

func (s *scriptedNode) setAnswer(method string, f func(params []any) (any, string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answersByMethod[method] = f
}

func (s *scriptedNode) sends() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sendCount
}

// ServeHTTP implements [http.Handler].
func (s *scriptedNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var raw json.RawMessage
	if json.NewDecoder(r.Body).Decode(&raw) != nil {
		return // the client has cancelled the request
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var calls []rpcCall
	array := json.Unmarshal(raw, &calls) == nil
	if !array {
		calls = make([]rpcCall, 1)
		_ = json.Unmarshal(raw, &calls[0])
	}
	s.arraySizes = append(s.arraySizes, len(calls))
	var answers []map[string]any
	for _, c := range calls {
		a := map[string]any{"jsonrpc": "2.0", "id": c.ID}
		if c.Method == "eth_sendRawTransaction" {
			s.sendCount++
		}
		if f := s.answersByMethod[c.Method]; f != nil {
			result, refusal := f(c.Params)
			if refusal != "" {
				a["error"] = map[string]any{"code": -32000, "message": refusal}
			} else {
				a["result"] = result
			}
		} else {
			a["result"] = nil
		}
		answers = append(answers, a)
	}
	var out any = answers
	if !array {
		out = answers[0]
	}
	if s.maxArray > 0 && len(calls) > s.maxArray {
		out = map[string]any{"jsonrpc": "2.0", "id": nil, "error": map[string]any{"code": -32600, "message": "too long"}}
	}
	if calls[0].Method == "eth_sendRawTransaction" && s.status != 0 {
		maps.Copy(w.Header(), s.header)
		w.WriteHeader(s.status)
	}
	_ = json.NewEncoder(w).Encode(out)
}

// The text of each kind of node decides, whatever its code and whatever text a proxy puts around
// it. (OpenZeppelin 681 took a code to mean "try elsewhere", and stopped using all its providers.)
func TestTextNotCode(t *testing.T) {
	tier.Plain(t)
	want := map[evmtest.Refusal]batch.ErrorKind{
		evmtest.AlreadyKnown: "", evmtest.NonceTooLow: batch.KindDoubt, evmtest.ReplacementTooCheap: batch.KindDoubt,
		evmtest.NonceGap: batch.KindNotYet, evmtest.BelowBaseFee: batch.KindNotYet, evmtest.TipTooLow: batch.KindNotYet,
		evmtest.NoFunds: batch.KindNotYet, evmtest.GasAboveBlock: batch.KindNotYet, evmtest.FeeAboveCap: batch.KindNotYet,
		evmtest.Oversized: batch.KindNotYet, evmtest.AccountLimit: batch.KindNotYet, evmtest.UnknownType: batch.KindNotYet,
		evmtest.NotRLP: batch.KindNotYet, evmtest.TrailingBytes: batch.KindNotYet, evmtest.NoBytes: batch.KindDoubt,
		evmtest.TipAboveCap: batch.KindRejected, evmtest.IntrinsicGas: batch.KindNotYet, evmtest.FloorGas: batch.KindNotYet,
		evmtest.GasAboveCap: batch.KindRejected, evmtest.BadSignature: batch.KindRejected,
		evmtest.WrongChain: batch.KindMisconfigured, evmtest.Unprotected: batch.KindMisconfigured, evmtest.PoolFull: batch.KindBusy,
		evmtest.BlobGap: batch.KindNotYet, evmtest.NoBlobs: batch.KindNotYet, evmtest.WrongBlobs: batch.KindNotYet, evmtest.Reserved: batch.KindNotYet,
	}
	s, url := newScriptedNode(t)
	c := newTestClient(t, url, nil)
	b := signedBatch(nil)
	rows := 0
	for _, p := range []evmtest.Personality{
		evmtest.Geth, evmtest.Anvil, evmtest.Provider, evmtest.Besu, evmtest.Nethermind, evmtest.Reth, evmtest.Erigon, evmtest.Sequencer,
	} {
		for refusal, word := range evmtest.Refusals(p) {
			for _, around := range []string{"%s", "proxy-nodefleet.error: %s", "%s: details behind a colon 1, 2"} {
				s.setAnswer("eth_sendRawTransaction", func([]any) (any, string) { return nil, fmt.Sprintf(around, word.Text) })
				kind, known := want[refusal]
				require.True(t, known, refusal)
				s.setAnswer("eth_getTransactionByHash", func([]any) (any, string) {
					if refusal != evmtest.AlreadyKnown {
						return nil, ""
					}
					return map[string]any{"hash": string(b.ID), "blockHash": nil}, ""
				})
				got := dlt.Kind(c.Submit(t.Context(), attempt(b, 1)))
				if kind == batch.KindRejected { // one refusal of one node makes no batch final
					assert.Equal(t, batch.KindNotYet, got, "%s: "+around, p, word.Text)
					back := setLastBlock(s, 101)
					got = dlt.Kind(c.Submit(t.Context(), attempt(b, 1)))
					back()
				}
				assert.Equal(t, kind, got, "%s: "+around, p, word.Text)
				rows++
			}
		}
	}
	assert.Greater(t, rows, 400)
	s.setAnswer("eth_getTransactionByHash", func([]any) (any, string) { return nil, "" })
	for text, kind := range map[string]batch.ErrorKind{
		"unknown transaction type": batch.KindNotYet, "gremlins": batch.KindDoubt, "request timed out": batch.KindDoubt,
		"the method eth_sendRawTransaction does not exist/is not available": batch.KindMisconfigured,
		"Your app has exceeded its compute units per second capacity":       batch.KindBusy,
		"invalid api key": batch.KindMisconfigured,
	} {
		s.setAnswer("eth_sendRawTransaction", func([]any) (any, string) { return nil, text })
		assert.Equal(t, kind, dlt.Kind(c.Submit(t.Context(), attempt(b, 1))), text)
	}
}

// Without a known text of a node, the HTTP status decides. A proxy's 5xx says nothing about the
// node behind it.
func TestStatusesOfProxies(t *testing.T) {
	s, url := newScriptedNode(t)
	c := newTestClient(t, url, nil)
	b := signedBatch(nil)
	s.setAnswer("eth_sendRawTransaction", func([]any) (any, string) { return nil, "gremlins" })
	s.header = http.Header{"Retry-After": {"7"}}
	for status, kind := range map[int]batch.ErrorKind{
		400: batch.KindDoubt, 401: batch.KindMisconfigured, 402: batch.KindMisconfigured, 403: batch.KindMisconfigured, 404: batch.KindMisconfigured,
		415: batch.KindMisconfigured, 301: batch.KindMisconfigured, 307: batch.KindMisconfigured, 429: batch.KindBusy,
		500: batch.KindDoubt, 502: batch.KindDoubt, 503: batch.KindDoubt, 504: batch.KindDoubt, 418: batch.KindDoubt,
	} {
		s.mu.Lock()
		s.status = status
		s.mu.Unlock()
		err := c.Submit(t.Context(), attempt(b, 1))
		assert.Equal(t, kind, dlt.Kind(err), "%d: %v", status, err)
		if status == http.StatusTooManyRequests {
			var e *dlt.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, 7*time.Second, e.RetryAfter)
		}
	}
}

// A result counts as an acceptance only if it is this transaction's hash.
func TestTheHashIsCompared(t *testing.T) {
	s, url := newScriptedNode(t)
	c := newTestClient(t, url, nil)
	b := signedBatch(nil)
	for result, kind := range map[any]batch.ErrorKind{string(b.ID): "", foreignHash: batch.KindDoubt, "": batch.KindDoubt, 7.0: batch.KindDoubt, nil: batch.KindDoubt} {
		s.setAnswer("eth_sendRawTransaction", func([]any) (any, string) { return result, "" })
		err := c.Submit(t.Context(), attempt(b, 1))
		assert.Equal(t, kind, dlt.Kind(err), "%v: %v", result, err)
	}
}

// The reason for a refusal may be an earlier send of the same bytes: if the node knows them, they
// count as accepted. A first attempt has no earlier send.
func TestAResendThatIsRefused(t *testing.T) {
	s, url := newScriptedNode(t)
	c := newTestClient(t, url, nil)
	b := signedBatch(nil)
	for text, kind := range map[string]batch.ErrorKind{
		"insufficient funds for gas * price + value": batch.KindNotYet, "intrinsic gas too low": batch.KindNotYet,
		"replacement transaction underpriced": batch.KindDoubt, "internal error": batch.KindDoubt,
	} {
		s.setAnswer("eth_sendRawTransaction", func([]any) (any, string) { return nil, text })
		s.setAnswer("eth_getTransactionByHash", func([]any) (any, string) { return nil, "" })
		assert.Equal(t, kind, dlt.Kind(c.Submit(t.Context(), attempt(b, 2))), text)
		s.setAnswer("eth_getTransactionByHash", func([]any) (any, string) { return map[string]any{"hash": string(b.ID), "blockHash": nil}, "" })
		require.NoError(t, c.Submit(t.Context(), attempt(b, 2)), text)
		s.setAnswer("eth_getTransactionByHash", func([]any) (any, string) { return nil, "indexing is in progress" })
		assert.Equal(t, batch.KindDoubt, dlt.Kind(c.Submit(t.Context(), attempt(b, 2))), text)
	}
}

// Nothing is posted to a node of another chain, to a node whose chain is not known, or before the
// turn of the batch's nonce.
func TestNothingIsPosted(t *testing.T) {
	other := func(id string) func([]any) (any, string) { return func([]any) (any, string) { return id, "" } }
	for name, c := range map[string]struct {
		method   string
		f        func([]any) (any, string)
		wantKind batch.ErrorKind
		wantText string
	}{
		"another chain":   {"eth_chainId", other("0x1"), batch.KindMisconfigured, "the node's chain is 1, not 1337"},
		"no chain":        {"eth_chainId", func([]any) (any, string) { return nil, "" }, batch.KindUnavailable, "eth_chainId"},
		"no block 0":      {"eth_getBlockByNumber", func([]any) (any, string) { return nil, "" }, batch.KindUnavailable, "block 0"},
		"another genesis": {"eth_getBlockByNumber", func([]any) (any, string) { return blockAt(0), "" }, batch.KindMisconfigured, "another chain with the same id"},
		"no method":       {"eth_chainId", func([]any) (any, string) { return nil, "the method eth_chainId does not exist/is not available" }, batch.KindMisconfigured, "eth_chainId"},
		"too many":        {"eth_chainId", func([]any) (any, string) { return nil, "too many requests" }, batch.KindBusy, "too many"},
		"a gap":           {"eth_getTransactionCount", other("0x7"), batch.KindNotYet, "nonce 9, and the account's next is 7"},
		"no count":        {"eth_getTransactionCount", func([]any) (any, string) { return nil, "gremlins" }, batch.KindUnavailable, "next nonce"},
	} {
		t.Run(name, func(t *testing.T) {
			s, url := newScriptedNode(t)
			s.setAnswer(c.method, c.f)
			pinned := genesisHash
			if name == "another genesis" {
				pinned = foreignHash
			}
			client := newTestClient(t, url, &evm.Options{Genesis: pinned})
			b := ninthBatch(t)
			err := client.Submit(t.Context(), attempt(b, 1))
			assert.Equal(t, c.wantKind, dlt.Kind(err), "%v", err)
			assert.ErrorContains(t, err, c.wantText)
			assert.Zero(t, s.sends())
			if c.method != "eth_getTransactionCount" {
				statuses, err := client.BatchStatuses(t.Context(), "", []batch.Attempt{{Key: b.Key()}})
				require.Error(t, err)
				assert.Empty(t, statuses)
			}
		})
	}
}

func ninthBatch(t testing.TB) batch.Batch {
	raw, _ := evmtest.Dev(0).Sign(evmtest.Unsigned{ChainID: 1337, Nonce: 9, To: evmtest.Dev(1).Address()})
	b, err := evm.NewBatch(raw)
	require.NoError(t, err)
	return b
}

// A payload that is not valid is refused without a question to a node, whoever has stored it.
func TestABrokenPayloadIsNotPosted(t *testing.T) {
	s, url := newScriptedNode(t)
	c := newTestClient(t, url, nil)
	a := attempt(signedBatch(nil), 1)
	a.Payload = []byte("secret content")
	err := c.Submit(t.Context(), a)
	assert.Equal(t, batch.KindRejected, dlt.Kind(err))
	assert.NotContains(t, err.Error(), "secret content")
	assert.Empty(t, s.arraySizes)
}

// The account's next nonce is asked for once. After that the client knows it from accepted
// transactions.
func TestOneQuestionForManySends(t *testing.T) {
	node := evmtest.Start(t, &evmtest.Options{BlockTime: -1})
	var mu sync.Mutex
	questions := 0
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		questions++
		mu.Unlock()
		node.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	c := newTestClient(t, front.URL, nil)
	for n := range uint64(20) {
		raw, _ := evmtest.Dev(0).Sign(evmtest.Unsigned{ChainID: 1337, Nonce: n, To: evmtest.Dev(1).Address()})
		b, err := evm.NewBatch(raw)
		require.NoError(t, err)
		require.NoError(t, c.Submit(t.Context(), attempt(b, 1)))
	}
	mu.Lock()
	defer mu.Unlock()
	assert.LessOrEqual(t, questions, 20+3)
}

// When a node does not answer, the client uses the next node, for submissions and for questions.
func TestSeveralEndpoints(t *testing.T) {
	down := evmtest.Start(t, nil)
	node := evmtest.Start(t, nil)
	c := newTestClient(t, down.URL(), &evm.Options{Fallbacks: []string{node.URL()}, Finality: evm.Instant()})
	down.Close()
	raw, _ := evmtest.Dev(0).Sign(evmtest.Unsigned{ChainID: 1337, To: evmtest.Dev(1).Address()})
	b, err := evm.NewBatch(raw)
	require.NoError(t, err)
	err = c.Submit(t.Context(), attempt(b, 1))
	require.ErrorIs(t, err, dlt.ErrUnavailable)
	var e *dlt.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, down.URL(), e.Endpoint)
	require.NoError(t, c.Submit(t.Context(), attempt(b, 2)))
	assert.Eventually(t, func() bool {
		st, err := c.BatchStatuses(t.Context(), b.Service, []batch.Attempt{{Key: b.Key()}})
		return err == nil && len(st) == 1 && st[0].Reported == batch.ReportedCommitted
	}, 10*time.Second, 10*time.Millisecond)
}

// flawedNode is a node behind a handler that answers in its place: only the sends, or all
// requests. It counts the handler's answers.
type flawedNode struct {
	url         string
	answerCount atomic.Int32
}

func newFlawedNode(t *testing.T, all bool, answer http.HandlerFunc) *flawedNode {
	s, _ := newScriptedNode(t)
	f := &flawedNode{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body) // so that the server notices when the client cancels the request
		if err != nil {
			return
		}
		if all || bytes.Contains(body, []byte("eth_sendRawTransaction")) {
			f.answerCount.Add(1)
			answer(w, r)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		s.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	f.url = server.URL
	return f
}

func (f *flawedNode) wasAsked() bool { return f.answerCount.Swap(0) > 0 }

func answerWith(status int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
}

func hangUntilCancelled(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// The client changes to the next endpoint when an endpoint refuses this client, is busy, or does
// not answer. It stays when the node's answer is about the transaction, or when the call was
// cancelled.
func TestWhichFailuresLeaveAnEndpoint(t *testing.T) {
	tier.Plain(t)
	raw, _ := evmtest.Dev(0).Sign(evmtest.Unsigned{ChainID: 1337, To: evmtest.Dev(1).Address()})
	b, err := evm.NewBatch(raw)
	require.NoError(t, err)
	submit := func(ctx context.Context, c *evm.Client) error { return c.Submit(ctx, attempt(b, 1)) }
	statuses := func(ctx context.Context, c *evm.Client) error {
		_, err := c.BatchStatuses(ctx, b.Service, []batch.Attempt{{Key: b.Key()}})
		return err
	}
	const refusal = `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"no upstream"}}`
	for name, c := range map[string]struct {
		failsAll    bool // true for all requests, false for sends only
		answer      http.HandlerFunc
		call        func(context.Context, *evm.Client) error
		isCancelled bool
		isLeft      bool
	}{
		"question 401":           {true, answerWith(401, ""), submit, false, true},
		"question 429":           {true, answerWith(429, ""), submit, false, true},
		"question 503":           {true, answerWith(503, ""), submit, false, true},
		"question hangs":         {true, hangUntilCancelled, submit, false, true},
		"question stopped":       {true, hangUntilCancelled, submit, true, false},
		"send 401":               {false, answerWith(401, ""), submit, false, true},
		"send 403":               {false, answerWith(403, ""), submit, false, true},
		"send 413":               {false, answerWith(413, ""), submit, false, false},
		"send 429":               {false, answerWith(429, ""), submit, false, true},
		"send 503":               {false, answerWith(503, ""), submit, false, true},
		"send 503 with an error": {false, answerWith(503, refusal), submit, false, true},
		"send hangs":             {false, hangUntilCancelled, submit, false, true},
		"send stopped":           {false, hangUntilCancelled, submit, true, false},
		"node's word":            {false, answerWith(200, strings.Replace(refusal, "no upstream", "replacement transaction underpriced", 1)), submit, false, false},
		"statuses hang":          {true, hangUntilCancelled, statuses, false, true},
		"statuses stopped":       {true, hangUntilCancelled, statuses, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			first, second := newFlawedNode(t, c.failsAll, c.answer), newFlawedNode(t, true, answerWith(503, ""))
			client := newTestClient(t, first.url, &evm.Options{Fallbacks: []string{second.url}})
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			if c.isCancelled {
				ctx, cancel = context.WithCancel(t.Context())
				time.AfterFunc(300*time.Millisecond, cancel)
			}
			defer cancel()
			err := c.call(ctx, client)
			require.Error(t, err)
			assert.True(t, first.wasAsked())
			assert.False(t, second.wasAsked())
			if typed, ok := errors.AsType[*dlt.Error](err); ok {
				assert.Zero(t, typed.RetryAfter, "the other one may be asked at once")
			}
			ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			require.Error(t, c.call(ctx, client))
			assert.Equal(t, c.isLeft, second.wasAsked())
		})
	}
}

// Of two busy endpoints neither is asked before its Retry-After, and an endpoint that refuses this
// client is asked once a minute.
func TestEndpointsThatWereLeft(t *testing.T) {
	raw, _ := evmtest.Dev(0).Sign(evmtest.Unsigned{ChainID: 1337, To: evmtest.Dev(1).Address()})
	b, err := evm.NewBatch(raw)
	require.NoError(t, err)
	submit := func(c *evm.Client) *dlt.Error {
		err, ok := errors.AsType[*dlt.Error](c.Submit(t.Context(), attempt(b, 1)))
		require.True(t, ok)
		return err
	}
	busy, other := newFlawedNode(t, true, answerWith(429, "")), newFlawedNode(t, true, answerWith(429, ""))
	c := newTestClient(t, busy.url, &evm.Options{Fallbacks: []string{other.url}})
	assert.Zero(t, submit(c).RetryAfter)
	assert.InDelta(t, time.Hour, submit(c).RetryAfter, float64(time.Minute))

	busy = newFlawedNode(t, true, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) })
	refusing := newFlawedNode(t, true, answerWith(401, ""))
	c = newTestClient(t, busy.url, &evm.Options{Fallbacks: []string{refusing.url}})
	submit(c)
	submit(c)
	require.True(t, refusing.wasAsked())
	require.True(t, busy.wasAsked())
	for range 3 {
		assert.ErrorIs(t, submit(c), dlt.ErrBusy)
	}
	assert.True(t, busy.wasAsked())
	assert.False(t, refusing.wasAsked(), "it is aside for longer")
}

// Each endpoint that fails a question is put aside, so that a good endpoint is reached, whichever
// endpoints come before it.
func TestQuestionsReachTheGoodEndpoint(t *testing.T) {
	down := evmtest.Start(t, nil)
	down.Close()
	silent := newFlawedNode(t, true, hangUntilCancelled)
	good := evmtest.Start(t, nil)
	c := newTestClient(t, down.URL(), &evm.Options{Fallbacks: []string{silent.url, good.URL()}})
	raw, _ := evmtest.Dev(0).Sign(evmtest.Unsigned{ChainID: 1337, To: evmtest.Dev(1).Address()})
	b, err := evm.NewBatch(raw)
	require.NoError(t, err)
	ask := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.BatchStatuses(ctx, b.Service, []batch.Attempt{{Key: b.Key()}})
		return err
	}
	require.Error(t, ask())
	require.True(t, silent.wasAsked())
	require.NoError(t, ask())
	assert.False(t, silent.wasAsked())
}

// Providers put keys into addresses and headers. No error shows such a key, whatever a proxy
// echoes.
func TestKeysNeverShow(t *testing.T) {
	const key, query, password, header = "0a1b2c3d4e5f60718293", "tokentoken99", "passw0rdpassw0rd", "headersecret42"
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusBadGateway)
		_, _ = fmt.Fprintf(w, "cannot POST %s, authorization %s, %s, user %s", r.URL, r.Header.Get("Authorization"), r.Header.Get("X-Key"), password)
	}))
	t.Cleanup(echo.Close)
	nobody := httptest.NewServer(http.NotFoundHandler())
	nobody.Close()
	for _, base := range []string{echo.URL, nobody.URL} {
		address := strings.Replace(base, "http://", "http://user:"+password+"@", 1) + "/v3/" + key + "?token=" + query
		c := newTestClient(t, address, &evm.Options{Header: http.Header{"X-Key": {"Bearer " + header}}})
		b := signedBatch(nil)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, statuses := c.BatchStatuses(ctx, b.Service, []batch.Attempt{{Key: b.Key()}})
		_, resolve := c.Resolve(ctx, dlt.Doubt{Attempt: attempt(b, 1)})
		for name, err := range map[string]error{"submit": c.Submit(ctx, attempt(b, 1)), "statuses": statuses, "resolve": resolve} {
			require.Error(t, err, name)
			for at := []error{err}; len(at) > 0; at = at[1:] {
				for _, secret := range []string{key, query, password, header} {
					assert.NotContains(t, fmt.Sprintf("%v %+v", at[0], at[0]), secret, name)
				}
				switch x := at[0].(type) { //nolint:errorlint // each error in the chain
				case interface{ Unwrap() error }:
					if inner := x.Unwrap(); inner != nil {
						at = append(at, inner)
					}
				case interface{ Unwrap() []error }:
					at = append(at, x.Unwrap()...)
				}
			}
			var e *dlt.Error
			require.ErrorAs(t, err, &e, name)
			assert.Equal(t, base, e.Endpoint, name)
		}
	}
}

// The POST of a transaction has the traceparent of its context, and no other request has one.
func TestTraceParentIsSent(t *testing.T) {
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	sent := make(chan string, 10)
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent <- r.Header.Get("Traceparent")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	t.Cleanup(node.Close)
	c := newTestClient(t, node.URL, nil)
	b := signedBatch(nil)
	require.Error(t, c.Submit(t.Context(), attempt(b, 1)))
	assert.Empty(t, <-sent)
	require.Error(t, c.Submit(dlt.WithTraceParent(t.Context(), parent), attempt(b, 1)))
	assert.Equal(t, parent, <-sent)
}
