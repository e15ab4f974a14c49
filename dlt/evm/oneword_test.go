package evm_test

import (
	"context"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/evm"
	"github.com/dltbatch/dltbatch/dlt/evm/evmtest"
)

// newSigningClientAt returns a SigningClient of a script.
func newSigningClientAt(t *testing.T, url string, o *evm.SignerOptions) *evm.SigningClient {
	signer, err := evm.NewKeySigner(evmtest.Dev(0).Key())
	require.NoError(t, err)
	c, err := evm.NewSigner(url, 1337, signer, o)
	require.NoError(t, err)
	return c
}

// A refusal that would make a batch final does so only when the chain repeats it at a later head.
// The node that refused first may be behind, or contradict itself later.
func TestOneRefusalEndsNothing(t *testing.T) {
	at := func(s *scriptedNode, head uint64) func() { return setLastBlock(s, head) }
	t.Run("a call that would be taken back", func(t *testing.T) {
		s, url := newScriptedNode(t)
		setBaseFee(s, big.NewInt(1e9), 0)
		c := newSigningClientAt(t, url, nil)
		a := attempt(intentOf(t, 1, evm.Intent{To: evmtest.Dev(9).Address(), Data: []byte{1}}), 1)
		reverts := func(params []any) (any, string) { return nil, "execution reverted: ERC20: insufficient allowance" }
		prepare := func(want batch.ErrorKind) {
			t.Helper()
			_, err := c.Prepare(t.Context(), a)
			require.Equal(t, want, dlt.Kind(err), "%v", err)
		}
		// "latest" may be another node's block: after the view's own head the call does not
		// revert.
		s.setAnswer("eth_estimateGas", func(params []any) (any, string) {
			if len(params) == 1 {
				return reverts(nil)
			}
			assert.Equal(t, map[string]any{"blockHash": blockAt(100)["hash"], "requireCanonical": true}, params[1])
			return "0x5208", ""
		})
		prepare("")
		s.setAnswer("eth_estimateGas", reverts)
		for range 5 {
			prepare(batch.KindNotYet)
		}
		back := at(s, 95)
		prepare(batch.KindNotYet)
		back()
		s.setAnswer("eth_estimateGas", func([]any) (any, string) { return "0x5208", "" })
		prepare("") // the earlier refusal is forgotten
		s.setAnswer("eth_estimateGas", reverts)
		prepare(batch.KindNotYet)
		at(s, 101)
		prepare(batch.KindRejected)
	})
	t.Run("a send", func(t *testing.T) {
		s, url := newScriptedNode(t)
		c := newTestClient(t, url, nil)
		b := signedBatch(nil)
		s.setAnswer("eth_sendRawTransaction", func([]any) (any, string) { return nil, "transaction gas limit too high" })
		for range 5 {
			require.Equal(t, batch.KindNotYet, dlt.Kind(c.Submit(t.Context(), attempt(b, 1))))
		}
		back := at(s, 99)
		require.Equal(t, batch.KindNotYet, dlt.Kind(c.Submit(t.Context(), attempt(b, 1))))
		back()
		require.Equal(t, batch.KindRejected, dlt.Kind(c.Submit(t.Context(), attempt(b, 1))))
	})
	t.Run("another node takes it", func(t *testing.T) {
		s, url := newScriptedNode(t)
		b := signedBatch(nil)
		s.setAnswer("eth_sendRawTransaction", func([]any) (any, string) { return nil, "transaction gas limit too high" })
		other, fallback := newScriptedNode(t)
		other.setAnswer("eth_sendRawTransaction", func([]any) (any, string) { return string(b.ID), "" })
		c := newTestClient(t, url, &evm.Options{Genesis: genesisHash, Fallbacks: []string{fallback}})
		require.Equal(t, batch.KindNotYet, dlt.Kind(c.Submit(t.Context(), attempt(b, 1))))
		at(s, 101)
		require.NoError(t, c.Submit(t.Context(), attempt(b, 1)))
	})
}

// One absurd head of a node stops neither intents nor events, and is stored with no transaction.
func TestOneAbsurdHeadStopsNothing(t *testing.T) {
	const absurd = 1 << 60
	alone := func(s *scriptedNode) func() { // an absurd head that fits no other block
		before := s.answersByMethod["eth_getBlockByNumber"]
		s.setAnswer("eth_getBlockByNumber", func(params []any) (any, string) {
			doc, refusal := before(params)
			if params[0] == "latest" || params[0] == "finalized" {
				doc.(map[string]any)["number"] = hexNumber(absurd)
			}
			return doc, refusal
		})
		return func() { s.setAnswer("eth_getBlockByNumber", before) }
	}
	whole := func(s *scriptedNode) func() { // an absurd head with blocks below it
		before := s.answersByMethod["eth_getBlockByNumber"]
		s.setAnswer("eth_getBlockByNumber", func(params []any) (any, string) {
			if params[0] == "latest" || params[0] == "finalized" {
				return before([]any{hexNumber(absurd)})
			}
			return before(params)
		})
		return func() { s.setAnswer("eth_getBlockByNumber", before) }
	}
	for name, wrong := range map[string]func(*scriptedNode) func(){"alone": alone, "with blocks below it": whole} {
		for _, finality := range []evm.Finality{{}, evm.After(2), evm.Instant()} {
			t.Run(fmt.Sprint(name, " ", finality), func(t *testing.T) {
				s, url := newScriptedNode(t)
				setBaseFee(s, big.NewInt(1e9), 0)
				c := newSigningClientAt(t, url, &evm.SignerOptions{Options: evm.Options{Finality: finality}})
				a := attempt(intentOf(t, 1, evm.Intent{To: evmtest.Dev(9).Address(), Gas: 21000}), 1)
				for range 3 {
					kept, err := c.Prepare(t.Context(), a)
					require.NoError(t, err)
					back := wrong(s)
					_, _ = c.Prepare(t.Context(), a)
					_, _ = c.BatchStatuses(t.Context(), a.Service, []batch.Attempt{{Key: a.Key, Prepared: kept}})
					back()
				}
				// The absurd head may be the first one that a process receives.
				again := newSigningClientAt(t, url, &evm.SignerOptions{Options: evm.Options{Finality: finality}})
				back := wrong(s)
				_, _ = again.Prepare(t.Context(), a)
				back()
				for range 8 {
					if _, err := again.Prepare(t.Context(), a); err == nil {
						return
					}
				}
				assert.Fail(t, "it stops intents")
			})
		}
	}
	t.Run("a replacement", func(t *testing.T) {
		s, url := newScriptedNode(t)
		c, a, hash := preparedIntent(t, s, url, nil)
		s.setAnswer("eth_getTransactionByHash", func([]any) (any, string) { return map[string]any{"hash": hash, "blockHash": nil, "nonce": "0x0"}, "" })
		back := alone(s)
		_, err := c.Prepare(t.Context(), a)
		assert.Equal(t, batch.KindNotYet, dlt.Kind(err), "%v", err)
		back()
		setLastBlock(s, 103)
		kept, err := c.Prepare(t.Context(), a)
		require.NoError(t, err)
		assert.Greater(t, len(kept), len(a.Prepared))
	})
	t.Run("events", func(t *testing.T) {
		s, url := newScriptedNode(t)
		asked := 0
		s.setAnswer("eth_blockNumber", func([]any) (any, string) {
			if asked++; asked > 100 {
				return nil, "enough"
			}
			if asked == 2 {
				return hexNumber(absurd), ""
			}
			return hexNumber(uint64(asked)), ""
		})
		events := 0
		err := newTestClient(t, url, &evm.Options{HeadInterval: time.Millisecond}).Events(t.Context(), nil, func(dlt.Event) error {
			if events++; events == 6 {
				return errEnough
			}
			return nil
		})
		require.ErrorIs(t, err, errEnough)
		assert.Less(t, asked, 20)
	})
}

// A node that has removed block 0, or began with a snapshot, is identified by the chain's id and a
// later block.
func TestANodeWithoutBlockZero(t *testing.T) {
	b := signedBatch(nil)
	for name, c := range map[string]struct {
		zero     any
		refusal  string
		pinned   string
		id       string
		wantKind batch.ErrorKind
	}{
		"null":                       {pinned: genesisHash},
		"pruned":                     {pinned: genesisHash, refusal: "pruned history unavailable"},
		"not found":                  {pinned: genesisHash, refusal: "header not found"},
		"no genesis is known":        {},
		"of another chain":           {pinned: genesisHash, id: "0x1", wantKind: batch.KindMisconfigured},
		"an answer that says little": {pinned: genesisHash, refusal: "gremlins", wantKind: batch.KindUnavailable},
		"busy":                       {pinned: genesisHash, refusal: "too many requests", wantKind: batch.KindBusy},
	} {
		t.Run(name, func(t *testing.T) {
			s, url := newScriptedNode(t)
			before := s.answersByMethod["eth_getBlockByNumber"]
			s.setAnswer("eth_getBlockByNumber", func(params []any) (any, string) {
				if params[0] == "0x0" {
					return c.zero, c.refusal
				}
				return before(params)
			})
			if c.id != "" {
				s.setAnswer("eth_chainId", func([]any) (any, string) { return c.id, "" })
			}
			s.setAnswer("eth_sendRawTransaction", func([]any) (any, string) { return string(b.ID), "" })
			client := newTestClient(t, url, &evm.Options{Genesis: c.pinned, Finality: evm.After(2)})
			err := client.Submit(t.Context(), attempt(b, 1))
			assert.Equal(t, c.wantKind, dlt.Kind(err), "%v", err)
			assert.Equal(t, c.wantKind == "", s.sends() == 1)
			if c.wantKind == "" {
				assert.Equal(t, batch.ReportedUnknown, reportedBy(t, client, b))
			}
		})
	}
}

// Once a deep block of the chain is known, a node without block 0 must not have a different block
// at that height.
func TestANodeWithoutBlockZeroHasTheKnownBlocks(t *testing.T) {
	s, url := newScriptedNode(t)
	b, next := signedBatch(nil), ninthBatch(t)
	s.setAnswer("eth_getTransactionReceipt", func(params []any) (any, string) {
		if params[0] == string(b.ID) {
			return receiptIn(b.ID, 80, nil), ""
		}
		return nil, ""
	})
	c := newTestClient(t, url, nil)
	require.Equal(t, batch.ReportedCommitted, reportedBy(t, c, b))
	s.setAnswer("eth_getTransactionCount", func([]any) (any, string) { return "0x9", "" })
	s.setAnswer("eth_sendRawTransaction", func([]any) (any, string) { return string(next.ID), "" })
	s.setAnswer("eth_getBlockByNumber", func(params []any) (any, string) {
		if params[0] == "0x0" {
			return nil, ""
		}
		return map[string]any{"number": "0x5a", "hash": foreignHash, "parentHash": siblingHash, "transactions": []any{}}, ""
	})
	c.CloseIdleConnections() // another process may listen there now
	err := c.Submit(t.Context(), attempt(next, 1))
	assert.Equal(t, batch.KindMisconfigured, dlt.Kind(err), "%v", err)
	assert.Zero(t, s.sends())
}

// A send that a provider throttles was not accepted, whatever the text of the answer. The batch
// goes to the fallback.
func TestAThrottledSendGoesToTheFallback(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
	}{
		{200, `{"jsonrpc":"2.0","id":1,"error":{"code":-32005,"message":"limit exceeded"}}`},
		{200, `{"jsonrpc":"2.0","id":1,"error":{"code":-32005,"message":"daily request count exceeded, request rate limited"}}`},
		{200, `{"jsonrpc":"2.0","id":1,"error":{"code":-32005,"message":"project ID request rate exceeded"}}`},
		{200, `{"jsonrpc":"2.0","id":1,"error":{"code":-32005,"message":"in words that nobody knows"}}`},
		{200, `{"jsonrpc":"2.0","id":1,"error":{"code":429,"message":"in words that nobody knows"}}`},
		{200, `{"jsonrpc":"2.0","id":1,"error":{"code":-32007,"message":"50/second request limit reached - reduce calls per second"}}`},
		{200, `Too many requests`},
		{429, `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"insufficient funds"}}`},
		{429, `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"in words that nobody knows"}}`},
		{429, ``},
		{503, `rate limit exceeded`},
		{400, `ThrottlingException: Rate exceeded`},
	} {
		t.Run(fmt.Sprint(c.status, c.body), func(t *testing.T) {
			s, _ := newScriptedNode(t)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				rec := httptest.NewRecorder()
				if s.ServeHTTP(rec, r); s.sends() > 0 {
					w.WriteHeader(c.status)
					_, _ = w.Write([]byte(c.body))
					return
				}
				_, _ = w.Write(rec.Body.Bytes())
			}))
			t.Cleanup(server.Close)
			b := signedBatch(nil)
			other, fallback := newScriptedNode(t)
			other.setAnswer("eth_sendRawTransaction", func([]any) (any, string) { return string(b.ID), "" })
			client := newTestClient(t, server.URL, &evm.Options{Genesis: genesisHash, Fallbacks: []string{fallback}})
			err := client.Submit(t.Context(), attempt(b, 1))
			require.Equal(t, batch.KindBusy, dlt.Kind(err), "%v", err)
			require.NoError(t, client.Submit(t.Context(), attempt(b, 1)))
		})
	}
	for text, kind := range map[string]batch.ErrorKind{
		"account limit exceeded": batch.KindNotYet, "tx gas limit exceeded": batch.KindNotYet, "exceeds block gas limit": batch.KindNotYet,
	} {
		s, url := newScriptedNode(t)
		s.setAnswer("eth_sendRawTransaction", func([]any) (any, string) { return nil, text })
		assert.Equal(t, kind, dlt.Kind(newTestClient(t, url, nil).Submit(t.Context(), attempt(signedBatch(nil), 1))), text)
	}
}

// When a node answers "already known", the transaction counts as accepted only if the node shows
// it.
func TestAlreadyKnownIsAskedFor(t *testing.T) {
	b := signedBatch(nil)
	ours, theirs := map[string]any{"hash": string(b.ID), "blockHash": nil}, map[string]any{"hash": foreignHash, "blockHash": nil}
	refuse := func([]any) (any, string) { return nil, "transaction indexing is in progress" }
	is := func(doc any) func([]any) (any, string) { return func([]any) (any, string) { return doc, "" } }
	for name, c := range map[string]struct {
		receipt, byHash func([]any) (any, string)
		wantKind        batch.ErrorKind
	}{
		"it shows it":                          {is(nil), is(ours), ""},
		"it shows nothing":                     {is(nil), is(nil), batch.KindDoubt},
		"it shows another":                     {is(nil), is(theirs), batch.KindDoubt},
		"it is mined":                          {is(receiptIn(b.ID, 80, nil)), is(nil), ""},
		"it shows it, and no receipts":         {refuse, is(ours), ""},
		"it shows a receipt, and nothing else": {is(receiptIn(b.ID, 80, nil)), refuse, ""},
		"it answers neither":                   {refuse, refuse, batch.KindDoubt},
		"it has no answer, and shows no other": {refuse, is(nil), batch.KindDoubt},
	} {
		for _, words := range []string{"already known", "known transaction: " + foreignHash, "nonce 0: a transaction of this account already exists"} {
			s, url := newScriptedNode(t)
			s.setAnswer("eth_sendRawTransaction", func([]any) (any, string) { return nil, words })
			s.setAnswer("eth_getTransactionReceipt", c.receipt)
			s.setAnswer("eth_getTransactionByHash", c.byHash)
			assert.Equal(t, c.wantKind, dlt.Kind(newTestClient(t, url, nil).Submit(t.Context(), attempt(b, 1))), "%s: %s", name, words)
		}
	}
}

// An error about one question hides no good answer to another: an error about the receipt does not
// hide the pool's answer, and an error about one batch does not hide the answers about others.
// Another node is asked about the batch with the error.
func TestAnErrorHidesNoGoodAnswer(t *testing.T) {
	b, other := signedBatch(nil), ninthBatch(t)
	s, url := newScriptedNode(t)
	s.setAnswer("eth_getTransactionReceipt", func([]any) (any, string) { return nil, "transaction indexing is in progress" })
	s.setAnswer("eth_getTransactionByHash", func(params []any) (any, string) {
		if params[0] == string(b.ID) {
			return map[string]any{"hash": string(b.ID), "blockHash": nil, "nonce": "0x0", "gasPrice": "0x1"}, ""
		}
		return nil, ""
	})
	s.setAnswer("eth_getTransactionCount", func([]any) (any, string) { return "0x1", "" })
	ask := []batch.Attempt{{Key: b.Key()}, {Key: other.Key()}}
	got, err := newTestClient(t, url, nil).BatchStatuses(t.Context(), b.Service, ask)
	require.ErrorContains(t, err, "indexing")
	require.Len(t, got, 1, "without a receipt's answer no trace means nothing")
	assert.Equal(t, batch.Status{ID: b.ID, Reported: batch.ReportedPending, Message: got[0].Message}, got[0])

	good, fallback := newScriptedNode(t)
	good.setAnswer("eth_getTransactionReceipt", func(params []any) (any, string) { return receiptIn(batch.ID(params[0].(string)), 80, nil), "" })
	got, err = newTestClient(t, url, &evm.Options{Genesis: genesisHash, Fallbacks: []string{fallback}}).BatchStatuses(t.Context(), b.Service, ask)
	require.NoError(t, err)
	by := map[batch.ID]batch.Reported{}
	for _, st := range got {
		by[st.ID] = st.Reported
	}
	assert.Equal(t, map[batch.ID]batch.Reported{b.ID: batch.ReportedPending, other.ID: batch.ReportedCommitted}, by)
}

// A refusal with an unknown text may be one node's own. When it comes again and again, another
// node gets the batch.
func TestAnUnknownRefusalGoesToTheFallback(t *testing.T) {
	b := signedBatch(nil)
	for name, refuse := range map[string]func(s *scriptedNode){
		"words": func(s *scriptedNode) {
			s.setAnswer("eth_sendRawTransaction", func([]any) (any, string) { return nil, "Invalid Account" })
		},
		"another hash": func(s *scriptedNode) {
			s.setAnswer("eth_sendRawTransaction", func([]any) (any, string) { return foreignHash, "" })
		},
		"a status": func(s *scriptedNode) { s.status = http.StatusTeapot },
	} {
		t.Run(name, func(t *testing.T) {
			s, url := newScriptedNode(t)
			refuse(s)
			other, fallback := newScriptedNode(t)
			other.setAnswer("eth_sendRawTransaction", func([]any) (any, string) { return string(b.ID), "" })
			c := newTestClient(t, url, &evm.Options{Genesis: genesisHash, Fallbacks: []string{fallback}})
			for range 3 {
				require.Equal(t, batch.KindDoubt, dlt.Kind(c.Submit(t.Context(), attempt(b, 1))))
			}
			require.NoError(t, c.Submit(t.Context(), attempt(b, 1)))
			assert.Equal(t, 3, s.sends())
		})
	}
}

// When a node is behind, the client changes to another node.
func TestANodeThatIsBehindIsLeft(t *testing.T) {
	s, url := newScriptedNode(t)
	setBaseFee(s, big.NewInt(1e9), 0)
	good, fallback := newScriptedNode(t)
	setBaseFee(good, big.NewInt(1e9), 0)
	c := newSigningClientAt(t, url, &evm.SignerOptions{Options: evm.Options{Finality: evm.After(2), Genesis: genesisHash, Fallbacks: []string{fallback}}})
	a := attempt(intentOf(t, 1, evm.Intent{To: evmtest.Dev(9).Address(), Gas: 21000}), 1)
	_, err := c.Prepare(t.Context(), a)
	require.NoError(t, err)
	setLastBlock(s, 50)
	_, err = c.Prepare(t.Context(), a)
	require.ErrorContains(t, err, "the node is behind")
	_, err = c.Prepare(t.Context(), a)
	require.NoError(t, err)
}

// Another process, of another chain, listens behind the same address now. A question that does not
// ask for the chain's id has opened the connection. A send uses this connection only after the
// client has asked over it which chain it leads to.
func TestAConnectionOfAnotherQuestionIsNotKnown(t *testing.T) {
	right, _ := newScriptedNode(t)
	wrong, _ := newScriptedNode(t)
	b := signedBatch(nil)
	raw, _ := evmtest.Dev(0).Sign(evmtest.Unsigned{ChainID: 1337, Nonce: 1, To: evmtest.Dev(1).Address()}) // so that the send needs no question for a count
	next, err := evm.NewBatch(raw)
	require.NoError(t, err)
	for _, s := range []*scriptedNode{right, wrong} {
		s.setAnswer("eth_blockNumber", func([]any) (any, string) { return "0x64", "" })
		s.setAnswer("eth_sendRawTransaction", func(params []any) (any, string) {
			for _, one := range []batch.Batch{b, next} {
				if strings.HasSuffix(params[0].(string), toHex(one.Payload)[2:]) {
					return string(one.ID), ""
				}
			}
			return nil, "gremlins"
		})
		s.setAnswer("eth_getTransactionCount", func([]any) (any, string) { return "0x9", "" })
	}
	wrong.setAnswer("eth_chainId", func([]any) (any, string) { return "0x1", "" })
	var listeningNode atomic.Pointer[scriptedNode]
	listeningNode.Store(right)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { listeningNode.Load().ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	c := newTestClient(t, server.URL, &evm.Options{HeadInterval: time.Hour})
	require.NoError(t, c.Submit(t.Context(), attempt(b, 1)))
	listeningNode.Store(wrong)
	c.CloseIdleConnections()
	ctx, stop := context.WithCancel(t.Context())
	require.NoError(t, c.Events(ctx, nil, func(dlt.Event) error { stop(); return nil }))
	err = c.Submit(t.Context(), attempt(next, 1))
	assert.Equal(t, batch.KindMisconfigured, dlt.Kind(err), "%v", err)
	assert.Zero(t, wrong.sends(), "it was sent to another chain")
}

// A reorganization puts somebody else's transaction into a block between the block that was deep
// when an intent was signed and the head of that time. The search for the use of the nonce begins
// at the block that was deep.
func TestTheSearchBeginsAtTheBlockThatWasDeep(t *testing.T) {
	for _, finality := range []evm.Finality{{}, evm.After(10)} {
		for _, used := range []uint64{91, 95, 100} {
			s, url := newScriptedNode(t)
			c, a, _ := preparedIntent(t, s, url, &evm.SignerOptions{Options: evm.Options{Finality: finality}}) // signed at head 100, when block 90 was deep
			setLastBlock(setFinalizedHeight(s, 115), 125)
			s.setAnswer("eth_getTransactionCount", func(params []any) (any, string) {
				if params[1] == "latest" || params[1] == "pending" || params[1] == hexNumber(115) {
					return "0x1", ""
				}
				return nil, "missing trie node"
			})
			before := s.answersByMethod["eth_getBlockByNumber"]
			s.setAnswer("eth_getBlockByNumber", func(params []any) (any, string) {
				doc, refusal := before(params)
				if params[0] == hexNumber(used) {
					doc.(map[string]any)["transactions"] = []any{map[string]any{"from": evmtest.Dev(0).Address(), "nonce": "0x0", "hash": foreignHash, "type": "0x2"}}
				}
				return doc, refusal
			})
			found := false
			for range 10 {
				st, err := c.BatchStatuses(t.Context(), a.Service, []batch.Attempt{a})
				require.NoError(t, err)
				found = found || len(st) == 1 && st[0].Reported == batch.ReportedVoid
			}
			assert.True(t, found, "%s: in block %d", finality, used)
		}
	}
}
