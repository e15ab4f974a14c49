package evm_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/evm"
	"github.com/dltbatch/dltbatch/dlt/evm/evmtest"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store/memory"
)

// interceptor lets a test answer in place of the node, or wait before the node answers.
type interceptor struct {
	next   http.RoundTripper
	answer func(ctx context.Context, body string) *http.Response // the node answers if it returns nil
}

// RoundTrip implements [http.RoundTripper].
func (b interceptor) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if resp := b.answer(r.Context(), string(body)); resp != nil {
		return resp, nil
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	again := r.Clone(r.Context())
	again.Body = io.NopCloser(strings.NewReader(string(body)))
	return b.next.RoundTrip(again)
}

func newResponse(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: -1}
}

// A question that is too much for a node holds up only the batch that needs it. The node answers
// all other questions, so the other lanes go on.
func TestAQuestionTooMuchHoldsUpOneBatch(t *testing.T) {
	tier.Plain(t)
	for name, c := range map[string]struct {
		answer   func(ctx context.Context, account, body string) *http.Response
		wantText []string
	}{
		"an estimate that hangs": {func(ctx context.Context, account, body string) *http.Response {
			if strings.Contains(body, "eth_estimateGas") && strings.Contains(body, account) {
				<-ctx.Done()
			}
			return nil
		}, []string{"no estimate of the gas", "deadline exceeded"}},
		"a proxy that waits no longer for an estimate": {func(_ context.Context, account, body string) *http.Response {
			if strings.Contains(body, "eth_estimateGas") && strings.Contains(body, account) {
				return newResponse(http.StatusGatewayTimeout, "upstream timed out")
			}
			return nil
		}, []string{"no estimate of the gas", "HTTP 504", "upstream timed out"}},
		"an estimate that is no number": {func(_ context.Context, account, body string) *http.Response {
			if strings.Contains(body, "eth_estimateGas") && strings.Contains(body, account) {
				return newResponse(http.StatusOK, `{"jsonrpc":"2.0","id":1,"result":{}}`)
			}
			return nil
		}, []string{"no estimate of the gas", "not a quantity"}},
		"no state of the deep block": {func(_ context.Context, account, body string) *http.Response {
			var one rpcCall
			if json.Unmarshal([]byte(body), &one) == nil && one.Method == "eth_getTransactionCount" && one.Params[0] == account {
				return newResponse(http.StatusOK, `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"missing trie node"}}`)
			}
			return nil
		}, []string{"no state of block", "missing trie node"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSimulatedChain(t, evmtest.Options{Personality: evmtest.Geth, SlotsInAnEpoch: 1})
				s.mine(4)
				from := s.newAccount()
				others := []evmtest.Account{s.newAccount(), s.newAccount(), s.newAccount()}
				o := finalAfterTwoBlocks()
				o.Client = &http.Client{Transport: interceptor{s.http.Transport, func(ctx context.Context, body string) *http.Response {
					return c.answer(ctx, from.Address(), body)
				}}}
				p := s.startRunnerOf(memory.New(), s.newSigningClient(o, s.newKeySigner(append(others, from)...)), queuer.Serial())
				bad := s.newIntentOf(from, evm.Intent{To: evmtest.Dev(9).Address(), Value: big.NewInt(10)})
				p.add(bad)
				time.Sleep(2 * time.Minute)
				rec := p.waitForState(bad, batch.Delayed)
				assert.Equal(t, batch.KindNotYet, rec.Error.Kind)
				for _, wantText := range c.wantText {
					assert.ErrorContains(t, rec.Error, wantText)
				}
				assert.NotContains(t, rec.Error.Error(), "in doubt")
				for _, a := range others { // one after the other, because a gate that has closed lets few through
					good := s.newIntentOf(a, evm.Intent{To: evmtest.Dev(9).Address(), Value: big.NewInt(20)})
					p.add(good)
					since := time.Now()
					p.waitForState(good, batch.Pending)
					assert.Less(t, time.Since(since), 5*time.Second)
				}
			})
		})
	}
}

// A transaction that is in no pool and pays the base fee waits for something else than a higher
// fee, so its fees do not rise. Otherwise a payment would cost more and more while its account has
// no funds.
func TestFeesStayWhileNothingIsInAPool(t *testing.T) {
	tier.Plain(t)
	for name, c := range map[string]struct {
		balance *big.Int
		status  int
		refuses string
	}{
		"no funds":              {balance: big.NewInt(1000)},
		"a provider's limit":    {balance: evmtest.Ether(10), status: http.StatusTooManyRequests, refuses: "slow down"},
		"a pool that is full":   {balance: evmtest.Ether(10), status: http.StatusOK, refuses: `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"txpool is full"}}`},
		"a price of the pool's": {balance: evmtest.Ether(10), status: http.StatusOK, refuses: `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"transaction underpriced"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSimulatedChain(t, evmtest.Options{Personality: evmtest.Geth, SlotsInAnEpoch: 1})
				from := s.newAccountWith(c.balance)
				s.mine(4)
				s.setBaseFee(1)
				s.mine(1)
				var open atomic.Bool
				o := finalAfterTwoBlocks()
				o.Client = &http.Client{Transport: interceptor{s.http.Transport, func(_ context.Context, body string) *http.Response {
					if c.refuses != "" && !open.Load() && strings.Contains(body, "eth_sendRawTransaction") {
						return newResponse(c.status, c.refuses)
					}
					return nil
				}}}
				p, k := s.runIntents(o, from)
				b := s.newIntent(from, 10)
				p.add(b)
				for range 60 {
					time.Sleep(12 * s.timeUnit)
					s.setBaseFee(1)
					s.mine(1)
				}
				require.Greater(t, len(k.preparedOf(b)), 3)
				_, fees, _ := k.lastSlot(t, b)
				assert.Len(t, fees, 1)
				open.Store(true)
				s.control.fund(from.Address(), evmtest.Ether(10))
				p.mineUntil(b, batch.Committed)
				assert.Equal(t, []int64{10}, s.valuesPaid(from))
			})
		})
	}
}

// A replacement is made if a pool may have the last transaction, if that one does not pay the base
// fee, or if Fees asks for more: a pool with a higher lowest price would otherwise refuse it for
// ever.
func TestWhenFeesRise(t *testing.T) {
	pooled := func([]any) (any, string) { return map[string]any{"blockHash": nil}, "" }
	for name, c := range map[string]struct {
		byHash   func([]any) (any, string)
		baseFee  int64 // in gwei; it was 1 before
		tip      int64 // in gwei; it was 1 before
		hasError bool
		isRaised bool
		wantKind batch.ErrorKind
	}{
		"in no pool, the same market":         {baseFee: 1, tip: 1},
		"in no pool, a lower market":          {baseFee: 0, tip: 0},
		"in a pool":                           {byHash: pooled, baseFee: 1, tip: 1, isRaised: true},
		"in no pool, below the base fee":      {baseFee: 4, tip: 1, isRaised: true},
		"in no pool, Fees asks for a tip":     {baseFee: 0, tip: 2, isRaised: true},
		"in no pool, Fees asks for a cap":     {baseFee: 2, tip: 1, isRaised: true},
		"in no pool, Fees fails":              {baseFee: 2, tip: 1, hasError: true},
		"the node's answer is that it's busy": {byHash: func([]any) (any, string) { return nil, "too many requests" }, baseFee: 1, tip: 1, wantKind: batch.KindBusy},
	} {
		t.Run(name, func(t *testing.T) {
			node, url := newScriptedNode(t)
			tip, hasError := int64(1), false
			client, a, _ := preparedIntent(t, node, url, &evm.SignerOptions{Fees: func(ctx context.Context, m evm.Market) (evm.Fee, error) {
				m.Tip = big.NewInt(tip * 1e9)
				if hasError {
					return evm.Fee{}, dlt.ErrUnavailable
				}
				return evm.DefaultFees(ctx, m)
			}})
			tip, hasError = c.tip, c.hasError
			node.setAnswer("eth_getTransactionByHash", c.byHash)
			setBaseFee(node, big.NewInt(c.baseFee*1e9), 0)
			setLastBlock(node, 200)
			kept, err := client.Prepare(t.Context(), a)
			assert.Equal(t, c.wantKind, dlt.Kind(err), "%v", err)
			if c.wantKind != "" {
				return
			}
			assert.Equal(t, c.isRaised, len(kept) > len(a.Prepared))
			assert.True(t, bytes.HasPrefix(kept, a.Prepared))
		})
	}
}

// If Fees asks for the fee cap that the salt has lowered before, that is no higher fee.
func TestTheSaltIsNoHigherMarket(t *testing.T) {
	node, url := newScriptedNode(t)
	setBaseFee(node, big.NewInt(1e9), 0)
	signer, err := evm.NewKeySigner(evmtest.Dev(0).Key())
	require.NoError(t, err)
	client, err := evm.NewSigner(url, 1337, signer, nil)
	require.NoError(t, err)
	for n := range 20 {
		a := attempt(intentOf(t, n, evm.Intent{To: evmtest.Dev(9).Address(), Gas: 21000}), 1)
		a.Prepared, err = client.Prepare(t.Context(), a)
		require.NoError(t, err)
		later := setLastBlock(node, 200)
		kept, err := client.Prepare(t.Context(), a)
		later()
		require.NoError(t, err)
		assert.Equal(t, a.Prepared, kept)
	}
}

// A node on which no block is deep yet is behind, too, once another node had a deep block: its
// counts are old.
func TestANodeWithHardlyAnyBlocksIsBehind(t *testing.T) {
	node, url := newScriptedNode(t)
	setBaseFee(node, big.NewInt(1e9), 0)
	signer, err := evm.NewKeySigner(evmtest.Dev(0).Key())
	require.NoError(t, err)
	c, err := evm.NewSigner(url, 1337, signer, &evm.SignerOptions{Options: evm.Options{Finality: evm.After(2)}})
	require.NoError(t, err)
	b := intentOf(t, 1, evm.Intent{To: evmtest.Dev(9).Address(), Gas: 21000})
	_, err = c.Prepare(t.Context(), attempt(b, 1))
	require.NoError(t, err)
	for _, head := range []uint64{99, 2, 1, 0} {
		back := setLastBlock(node, head)
		_, err = c.Prepare(t.Context(), attempt(b, 1))
		assert.Equal(t, batch.KindNotYet, dlt.Kind(err), "head %d: %v", head, err)
		assert.ErrorContains(t, err, fmt.Sprintf("its last block is %d, and block 98 was deep", head))
		back()
	}
}

// A deep block is a proof against a batch only if its whole list of transactions was read and none
// of them is one of the batch's two, in upper or lower case: the chain may have executed either of
// them.
func TestOnlyAWholeBlockIsAProof(t *testing.T) {
	const at = 80
	for name, c := range map[string]struct {
		change func(block map[string]any, ours string)
		want   batch.Reported // 0 means no answer
		fails  string
	}{
		"another's":   {change: func(map[string]any, string) {}, want: batch.ReportedVoid},
		"our own":     {change: func(b map[string]any, ours string) { firstTx(b)["hash"] = ours }},
		"upper case":  {change: func(b map[string]any, ours string) { firstTx(b)["hash"] = "0x" + strings.ToUpper(ours[2:]) }},
		"no hash":     {change: func(b map[string]any, _ string) { delete(firstTx(b), "hash") }, fails: "without hash"},
		"no list":     {change: func(b map[string]any, _ string) { delete(b, "transactions") }, fails: "leaves out its transactions"},
		"null":        {change: func(b map[string]any, _ string) { b["transactions"] = nil }, fails: "leaves out its transactions"},
		"hashes only": {change: func(b map[string]any, ours string) { b["transactions"] = []any{ours} }, fails: "block 80"},
		// A node with headers and state may lack this block's list, or a part of the list.
		"an empty list":       {change: func(b map[string]any, _ string) { b["transactions"] = []any{} }, want: batch.ReportedPending},
		"only another sender": {change: func(b map[string]any, _ string) { firstTx(b)["from"] = evmtest.Dev(3).Address() }, want: batch.ReportedPending},
		"only another nonce":  {change: func(b map[string]any, _ string) { firstTx(b)["nonce"] = "0x1" }, want: batch.ReportedPending},
		"a legacy one":        {change: func(b map[string]any, _ string) { firstTx(b)["type"] = "0x0" }, want: batch.ReportedVoid},
		"of EIP-7702":         {change: func(b map[string]any, _ string) { firstTx(b)["type"] = "0x4" }, want: batch.ReportedVoid},
		"Optimism's deposit":  {change: func(b map[string]any, _ string) { firstTx(b)["type"] = "0x7e" }, want: batch.ReportedVoid},
		"Arbitrum's deposit":  {change: func(b map[string]any, _ string) { firstTx(b)["type"] = "0x64" }, want: batch.ReportedPending},
		"a retryable's retry": {change: func(b map[string]any, _ string) { firstTx(b)["type"] = "0x68" }, want: batch.ReportedPending},
		"a type to come":      {change: func(b map[string]any, _ string) { firstTx(b)["type"] = "0x5" }, want: batch.ReportedPending},
		"without a type":      {change: func(b map[string]any, _ string) { delete(firstTx(b), "type") }, want: batch.ReportedPending},
		"ours of any type": {change: func(b map[string]any, ours string) {
			firstTx(b)["hash"], firstTx(b)["type"] = ours, "0x64"
		}},
		"an authorization":  {change: withAuthorization(0, 1337, 0, "0x4"), want: batch.ReportedVoid},
		"one for any chain": {change: withAuthorization(0, 0, 0, "0x4"), want: batch.ReportedVoid},
		"one of another":    {change: withAuthorization(3, 1337, 0, "0x4"), want: batch.ReportedPending},
		"one for a chain":   {change: withAuthorization(0, 1338, 0, "0x4"), want: batch.ReportedPending},
		"one of nonce 1":    {change: withAuthorization(0, 1337, 1, "0x4"), want: batch.ReportedPending},
		"one of no effect":  {change: withAuthorization(0, 1337, 0, "0x2"), want: batch.ReportedPending},
	} {
		for which := range 2 {
			t.Run(fmt.Sprint(name, ", transaction ", which), func(t *testing.T) {
				node, url := newScriptedNode(t)
				setBaseFee(node, big.NewInt(1e9), 0)
				signer, err := evm.NewKeySigner(evmtest.Dev(0).Key())
				require.NoError(t, err)
				o := &evm.SignerOptions{Options: evm.Options{Finality: evm.After(2), BumpAfter: 3}}
				client, err := evm.NewSigner(url, 1337, signer, o)
				require.NoError(t, err)
				b := intentOf(t, 1, evm.Intent{To: evmtest.Dev(9).Address(), Gas: 21000})
				a := attempt(b, 1)
				a.Prepared, err = client.Prepare(t.Context(), a)
				require.NoError(t, err)
				node.setAnswer("eth_getTransactionByHash", func(params []any) (any, string) {
					return map[string]any{"hash": params[0], "blockHash": nil, "nonce": "0x0"}, ""
				})
				back := setLastBlock(node, 103)
				a.Prepared, err = client.Prepare(t.Context(), a)
				back()
				require.NoError(t, err)
				node.setAnswer("eth_getTransactionByHash", func([]any) (any, string) { return nil, "" })
				_, _, hashes, err := evm.Slot(a.Prepared)
				require.NoError(t, err)
				require.Len(t, hashes, 2)
				node.setAnswer("eth_getTransactionCount", func(params []any) (any, string) {
					height, known := heightOf(params[1], 100)
					assert.True(t, known)
					if height < at {
						return "0x0", ""
					}
					return "0x1", ""
				})
				before := node.answersByMethod["eth_getBlockByNumber"]
				node.setAnswer("eth_getBlockByNumber", func(params []any) (any, string) {
					doc, refusal := before(params)
					if block := doc.(map[string]any); block["number"] == hexNumber(at) {
						block["transactions"] = []any{map[string]any{"hash": foreignHash, "from": evmtest.Dev(0).Address(), "nonce": "0x0", "type": "0x2"}}
						c.change(block, hashes[which])
					}
					return doc, refusal
				})
				st, err := client.BatchStatuses(t.Context(), b.Service, []batch.Attempt{a})
				if c.fails != "" {
					require.ErrorContains(t, err, c.fails)
					assert.Equal(t, batch.KindDoubt, dlt.Kind(err))
				} else {
					require.NoError(t, err)
				}
				if c.want == 0 {
					assert.Empty(t, st)
					return
				}
				require.Len(t, st, 1)
				assert.Equal(t, c.want, st[0].Reported)
				if c.want == batch.ReportedPending {
					assert.Contains(t, st[0].Message, "the node does not show by whom")
				}
			})
		}
	}
}

// withAuthorization puts into a block a stranger's transaction of type kind with an authorization
// (EIP-7702) of a development account.
func withAuthorization(account int, chain int64, nonce uint64, kind string) func(map[string]any, string) {
	return func(block map[string]any, _ string) {
		block["transactions"] = []any{map[string]any{
			"hash": foreignHash, "from": evmtest.Dev(5).Address(), "nonce": "0x7", "type": kind, "authorizationList": []any{authorization(account, chain, nonce)},
		}}
	}
}

// authorization returns a signed authorization of a development account, as nodes show it.
func authorization(account int, chain int64, nonce uint64) map[string]any {
	auth := evmtx.Authorization{ChainID: big.NewInt(chain), Address: evmtx.Address{19: 9}, Nonce: nonce}
	hash := auth.SigningHash()
	sig := ecdsa.SignCompact(secp256k1.PrivKeyFromBytes(evmtest.Dev(account).Key()), hash[:], false)
	return map[string]any{
		"chainId": "0x" + big.NewInt(chain).Text(16), "address": auth.Address.String(), "nonce": hexNumber(nonce), "yParity": hexNumber(uint64(sig[0] - 27)),
		"r": "0x" + new(big.Int).SetBytes(sig[1:33]).Text(16), "s": "0x" + new(big.Int).SetBytes(sig[33:]).Text(16),
	}
}

// firstTx returns the only transaction of a block.
func firstTx(block map[string]any) map[string]any {
	return block["transactions"].([]any)[0].(map[string]any)
}
