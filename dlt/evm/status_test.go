package evm_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/evm"
	"github.com/dltbatch/dltbatch/dlt/evm/evmtest"
	"github.com/dltbatch/dltbatch/internal/tier"
)

// receiptIn returns a receipt of a transaction in a block of the script.
func receiptIn(id batch.ID, number uint64, change map[string]any) map[string]any {
	r := map[string]any{
		"transactionHash": string(id), "blockNumber": fmt.Sprintf("0x%x", number), "blockHash": blockAt(number)["hash"],
		"status": "0x1", "gasUsed": "0x5208", "effectiveGasPrice": "0x3b9aca00", "contractAddress": nil,
		"logs": []any{}, "logsBloom": "0x00",
	}
	maps.Copy(r, change)
	return r
}

// A node's answers lead to these statuses, compared with one head (100) and one deep block (90).
func TestStatusesOfOneView(t *testing.T) {
	b := signedBatch(nil)
	pooled, mined := map[string]any{"hash": string(b.ID), "blockHash": nil}, map[string]any{"hash": string(b.ID), "blockHash": genesisHash}
	for name, c := range map[string]struct {
		receipt, pooledTx any
		want              batch.Reported // 0 means no answer
		err               string
	}{
		"deep":                      {receiptIn(b.ID, 90, nil), nil, batch.ReportedCommitted, ""},
		"deeper":                    {receiptIn(b.ID, 3, nil), nil, batch.ReportedCommitted, ""},
		"deep and reverted":         {receiptIn(b.ID, 89, map[string]any{"status": "0x0"}), nil, batch.ReportedInvalid, ""},
		"not deep":                  {receiptIn(b.ID, 91, nil), nil, batch.ReportedValid, ""},
		"not deep and reverted":     {receiptIn(b.ID, 91, map[string]any{"status": "0x0"}), nil, batch.ReportedValid, ""},
		"beyond the head":           {receiptIn(b.ID, 120, nil), nil, batch.ReportedValid, ""},
		"of another chain's block":  {receiptIn(b.ID, 80, map[string]any{"blockHash": foreignHash}), nil, 0, ""},
		"in the pool":               {nil, pooled, batch.ReportedPending, ""},
		"in the pool, block zero":   {nil, map[string]any{"hash": string(b.ID), "blockHash": "0x" + strings.Repeat("0", 64), "blockNumber": nil}, batch.ReportedPending, ""},
		"in a block without hash":   {nil, map[string]any{"hash": string(b.ID), "blockHash": ""}, 0, ""},
		"nowhere":                   {nil, nil, batch.ReportedUnknown, ""},
		"mined, and no receipt":     {nil, mined, 0, ""},
		"another's receipt":         {receiptIn(batch.ID(foreignHash), 80, nil), nil, 0, ""},
		"another's transaction":     {nil, map[string]any{"hash": foreignHash, "blockHash": nil}, 0, ""},
		"a word that nobody knows":  {receiptIn(b.ID, 80, map[string]any{"status": "0x2"}), nil, 0, "neither executed"},
		"no status (pre-Byzantium)": {receiptIn(b.ID, 80, map[string]any{"status": nil}), nil, 0, "neither executed"},
		"no block":                  {receiptIn(b.ID, 80, map[string]any{"blockHash": nil}), nil, 0, "no hash"},
		"no receipt at all":         {"0x1", nil, 0, "receipt of"},
		"a transaction of letters":  {nil, "abc", 0, "transaction"},
	} {
		t.Run(name, func(t *testing.T) {
			s, url := newScriptedNode(t)
			s.setAnswer("eth_getTransactionReceipt", func([]any) (any, string) { return c.receipt, "" })
			s.setAnswer("eth_getTransactionByHash", func([]any) (any, string) { return c.pooledTx, "" })
			got, err := newTestClient(t, url, nil).BatchStatuses(t.Context(), b.Service, []batch.Attempt{{Key: b.Key()}, {Key: b.Key()}, {Key: batch.Key{ID: "0x12"}}})
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
			} else {
				require.NoError(t, err)
			}
			if c.want == 0 {
				require.Empty(t, got)
				return
			}
			require.Len(t, got, 1)
			assert.Equal(t, b.ID, got[0].ID)
			assert.Equal(t, c.want, got[0].Reported)
			if c.want != batch.ReportedCommitted && c.want != batch.ReportedInvalid {
				assert.Empty(t, got[0].Receipts)
				return
			}
			r, err := evm.ReadReceipt(got[0].Receipts[0])
			require.NoError(t, err)
			assert.Equal(t, c.want == batch.ReportedInvalid, r.Reverted)
			assert.EqualValues(t, 21000, r.GasUsed)
			assert.Equal(t, "1000000000", r.GasPrice.String())
			assert.Equal(t, blockAt(r.Block)["hash"], r.BlockHash)
			assert.NotContains(t, string(got[0].Receipts[0].Data), "logsBloom")
		})
	}
}

// When no block comes, for example because a layer's sequencer is down, the report says how old
// the last block is once that is more than ten minutes. The payment goes on with the next block.
func TestAChainThatStandsStill(t *testing.T) {
	for _, c := range []struct {
		after    time.Duration
		wantText string
	}{{9 * time.Minute, ""}, {14 * time.Minute, `; the last block is 1[34]m\d+s old`}} {
		synctest.Test(t, func(t *testing.T) {
			s := newSimulatedChain(t, evmtest.Options{Personality: evmtest.Geth})
			s.stuckAfter = c.after
			from := s.newAccount()
			p := s.startRunner(evm.Options{Finality: evm.After(2)})
			s.mine(4)
			b := s.newPayment(from, 0, 10)
			p.add(b)
			p.waitForState(b, batch.Pending)
			time.Sleep(c.after + 30*time.Second)
			rec := p.record(b)
			require.NotEmpty(t, rec.Decision)
			if c.wantText == "" {
				assert.NotContains(t, rec.Decision, "the last block is")
			} else {
				assert.Regexp(t, c.wantText, rec.Decision)
			}
			p.mineUntil(b, batch.Committed)
			assert.Equal(t, []int64{10}, s.valuesPaid(from))
		})
	}
}

// The status of a transaction in the pool names its fees and the base fee.
func TestAPooledTransactionSaysWhatItPays(t *testing.T) {
	b := signedBatch(nil)
	const price = "nonce 17, at most 20 gwei for a unit of gas; the base fee of block 100 is 35.5 gwei"
	for want, fees := range map[string]map[string]any{
		price + "; the node holds it back from its blocks, though no nonce is missing before it":       {"maxFeePerGas": "0x4a817c800", "next": "0x11"},
		"nonce 17, at most 20 gwei for a unit of gas; the base fee of block 100 is 35.5 gwei":          {"maxFeePerGas": "0x4a817c800", "gasPrice": "0x1"},
		"nonce 17, at most 0.000000001 gwei for a unit of gas; the base fee of block 100 is 35.5 gwei": {"gasPrice": "0x1"},
		"": {},
	} {
		s, url := newScriptedNode(t)
		s.setAnswer("eth_getBlockByNumber", func(params []any) (any, string) {
			n := map[string]uint64{"0x0": 0, "latest": 100, "finalized": 90}[params[0].(string)]
			block := blockAt(n)
			block["baseFeePerGas"] = "0x843f70300"
			return block, ""
		})
		s.setAnswer("eth_getTransactionCount", func([]any) (any, string) {
			if next, there := fees["next"]; there { // the pool names this nonce as the account's next
				return next, ""
			}
			return "0x12", ""
		})
		doc := map[string]any{"hash": string(b.ID), "blockHash": nil, "nonce": "0x11"}
		maps.Copy(doc, fees)
		s.setAnswer("eth_getTransactionByHash", func([]any) (any, string) { return doc, "" })
		got, err := newTestClient(t, url, nil).BatchStatuses(t.Context(), b.Service, []batch.Attempt{{Key: b.Key()}})
		require.NoError(t, err)
		require.Len(t, got, 1)
		assert.Equal(t, batch.Status{ID: b.ID, Reported: batch.ReportedPending, Message: want}, got[0])
	}
}

// A backend that is behind takes back no block that was deep once, and makes no statement about
// it.
func TestANodeThatIsBehindTakesNothingBack(t *testing.T) {
	s, url := newScriptedNode(t)
	b := signedBatch(nil)
	s.setAnswer("eth_getTransactionReceipt", func([]any) (any, string) { return receiptIn(b.ID, 90, nil), "" })
	head := uint64(100)
	s.setAnswer("eth_getBlockByNumber", scriptedBlocks(&head, nil))
	c := newTestClient(t, url, &evm.Options{Finality: evm.After(10)})
	for _, one := range []struct {
		head uint64
		want batch.Reported
	}{{100, batch.ReportedCommitted}, {99, 0}, {91, 0}, {90, 0}, {89, 0}, {100, batch.ReportedCommitted}} {
		s.mu.Lock()
		head = one.head
		s.mu.Unlock()
		assert.Equal(t, one.want, reportedBy(t, c, b), "head %d", one.head)
	}
	s.mu.Lock()
	head = 99
	s.mu.Unlock()
	assert.Equal(t, batch.ReportedValid, reportedBy(t, newTestClient(t, url, &evm.Options{Finality: evm.After(10)}), b), "a client that has seen no more")
}

// A node stands still on a fork at its last block, and others have shown a higher block to be
// deep. The node's own blocks are then not deep: they may be orphans.
func TestAnOrphanOfANodeThatIsBehindIsNotDeep(t *testing.T) {
	s, url := newScriptedNode(t)
	b := signedBatch(nil)
	head, fork := uint64(100), map[uint64]string{}
	var receipt any
	s.setAnswer("eth_getTransactionReceipt", func([]any) (any, string) { return receipt, "" })
	s.setAnswer("eth_getTransactionByHash", func([]any) (any, string) { return nil, "" })
	s.setAnswer("eth_getBlockByNumber", scriptedBlocks(&head, fork))
	c := newTestClient(t, url, &evm.Options{Finality: evm.After(10)})
	assert.Equal(t, batch.ReportedUnknown, reportedBy(t, c, b))
	s.mu.Lock()
	head, fork[80], receipt = 80, foreignHash, receiptIn(b.ID, 80, map[string]any{"blockHash": foreignHash})
	s.mu.Unlock()
	for range 3 { // after the first question the receipt is remembered
		assert.Zero(t, reportedBy(t, c, b))
	}
	s.mu.Lock()
	head = 90
	s.mu.Unlock()
	assert.Equal(t, batch.ReportedCommitted, reportedBy(t, c, b), "with enough blocks upon it")
}

// scriptedBlocks answers as a chain with this head, on which the blocks at some heights have other
// hashes.
func scriptedBlocks(head *uint64, fork map[uint64]string) func([]any) (any, string) {
	return func(params []any) (any, string) {
		n := *head
		if tag := params[0].(string); tag != "latest" {
			if _, err := fmt.Sscanf(tag, "0x%x", &n); err != nil {
				return nil, err.Error()
			}
		}
		if n > *head {
			return nil, ""
		}
		block := blockAt(n)
		if hash := fork[n]; hash != "" {
			block["hash"] = hash
		}
		if hash := fork[n-1]; hash != "" {
			block["parentHash"] = hash
		}
		return block, ""
	}
}

// reportedBy returns the reported status of a batch, 0 if there is none.
func reportedBy(t *testing.T, c *evm.Client, b batch.Batch) batch.Reported {
	t.Helper()
	got, err := c.BatchStatuses(t.Context(), b.Service, []batch.Attempt{{Key: b.Key()}})
	require.NoError(t, err)
	if len(got) == 0 {
		return 0
	}
	return got[0].Reported
}

// Without the block that measures depth there is no answer, and the error says what to do.
func TestAChainWithoutFinality(t *testing.T) {
	node := evmtest.Start(t, &evmtest.Options{NoFinality: true})
	b := signedBatch(nil)
	ask := []batch.Attempt{{Key: b.Key()}}
	got, err := newTestClient(t, node.URL(), nil).BatchStatuses(t.Context(), b.Service, ask)
	require.ErrorContains(t, err, "needs another Options.Finality")
	assert.Empty(t, got)
	got, err = newTestClient(t, node.URL(), &evm.Options{Finality: evm.After(3)}).BatchStatuses(t.Context(), b.Service, ask)
	require.NoError(t, err)
	assert.Len(t, got, 1)
}

// An array that is too long for a provider is halved until the provider accepts it. Later arrays
// stay that short.
func TestArraysAreHalved(t *testing.T) {
	tier.Plain(t)
	for _, most := range []int{0, 60, 7, 1} {
		s, url := newScriptedNode(t)
		s.maxArray = most
		c := newTestClient(t, url, nil)
		var ask []batch.Attempt
		for n := range uint64(120) {
			raw, _ := evmtest.Dev(0).Sign(evmtest.Unsigned{ChainID: 1337, Nonce: n, To: evmtest.Dev(1).Address()})
			b, err := evm.NewBatch(raw)
			require.NoError(t, err)
			ask = append(ask, batch.Attempt{Key: b.Key()})
		}
		got, err := c.BatchStatuses(t.Context(), "", ask)
		require.NoError(t, err, most)
		assert.Len(t, got, 120)
		before := len(s.arraySizes)
		_, err = c.BatchStatuses(t.Context(), "", ask)
		require.NoError(t, err)
		if most > 0 {
			assert.LessOrEqual(t, slices.Max(s.arraySizes[before:]), most)
		}
	}
}

// Nothing is posted over a connection before the client has asked over it which chain it leads to:
// another node may listen at the same address since the last request.
func TestANewConnectionIsAskedFirst(t *testing.T) {
	node := evmtest.Start(t, &evmtest.Options{BlockTime: -1})
	var mu sync.Mutex
	asked := map[string]bool{} // by the port of the client's connection
	bad := 0
	front := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client has cancelled the request
		}
		mu.Lock()
		if strings.Contains(string(body), "eth_chainId") {
			asked[r.RemoteAddr] = true
		} else if strings.Contains(string(body), "eth_sendRawTransaction") && !asked[r.RemoteAddr] {
			bad++
		}
		mu.Unlock()
		again := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(string(body)))
		again.Header = r.Header
		node.ServeHTTP(w, again)
	}))
	conns := map[net.Conn]bool{}
	front.Config.ConnState = func(c net.Conn, state http.ConnState) {
		mu.Lock()
		defer mu.Unlock()
		conns[c] = state != http.StateClosed
	}
	front.Start()
	t.Cleanup(front.Close)
	c := newTestClient(t, front.URL, nil)
	for n := range uint64(5) {
		raw, _ := evmtest.Dev(0).Sign(evmtest.Unsigned{ChainID: 1337, Nonce: n, To: evmtest.Dev(1).Address()})
		b, err := evm.NewBatch(raw)
		require.NoError(t, err)
		require.NoError(t, c.Submit(t.Context(), attempt(b, 1)))
		c.CloseIdleConnections() // so that the next request opens a new connection
	}
	mu.Lock()
	defer mu.Unlock()
	assert.Zero(t, bad)
	assert.GreaterOrEqual(t, len(conns), 5)
}

func TestReadReceiptRefuses(t *testing.T) {
	for _, data := range []string{"", "{}", `{"transactionHash":"0x12"}`} {
		_, err := evm.ReadReceipt(batch.Receipt{TransactionID: "x", Data: []byte(data)})
		require.ErrorIs(t, err, batch.ErrInvalidInput)
	}
}

// A receipt with very many logs is recorded without them.
func TestLongReceipts(t *testing.T) {
	s, url := newScriptedNode(t)
	b := signedBatch(nil)
	s.setAnswer("eth_getTransactionReceipt", func([]any) (any, string) {
		return receiptIn(b.ID, 80, map[string]any{"logs": []string{strings.Repeat("a", 70<<10)}}), ""
	})
	got, err := newTestClient(t, url, nil).BatchStatuses(t.Context(), b.Service, []batch.Attempt{{Key: b.Key()}})
	require.NoError(t, err)
	assert.Less(t, len(got[0].Receipts[0].Data), 1000)
	r, err := evm.ReadReceipt(got[0].Receipts[0])
	require.NoError(t, err)
	assert.EqualValues(t, 80, r.Block)
}

// A deep block that shows the use of a nonce is proof. An answer that a node cannot give is none.
func TestResolve(t *testing.T) {
	b := signedBatch(nil) // with nonce 0
	from := string(b.Service)
	pruned := func(tag string) bool { var n uint64; _, _ = fmt.Sscanf(tag, "0x%x", &n); return n < 60 }
	count := func(used uint64, state func(string) bool) func([]any) (any, string) {
		return func(params []any) (any, string) {
			tag, ok := params[1].(string)
			if !ok { // a question by a block's hash
				for n := range uint64(101) {
					if blockAt(n)["hash"] == params[1].(map[string]any)["blockHash"] {
						tag = fmt.Sprintf("0x%x", n)
					}
				}
			}
			if state != nil && state(tag) {
				return nil, "historical state 0x1 is not available"
			}
			var n uint64
			_, _ = fmt.Sscanf(tag, "0x%x", &n)
			if n >= used {
				return "0x1", ""
			}
			return "0x0", ""
		}
	}
	with := func(at uint64, txs ...map[string]any) func([]any) (any, string) {
		return func(params []any) (any, string) {
			var n uint64
			switch tag := params[0].(string); tag {
			case "latest":
				n = 100
			case "finalized":
				n = 90
			default:
				_, _ = fmt.Sscanf(tag, "0x%x", &n)
			}
			block := blockAt(n)
			if n == at && params[1] == true {
				block["transactions"] = txs
			}
			return block, ""
		}
	}
	theirs := map[string]any{"hash": foreignHash, "from": from, "nonce": "0x0", "type": "0x2"}
	stranger := map[string]any{"hash": genesisHash, "from": evmtest.Dev(3).Address(), "nonce": "0x0", "type": "0x0"}
	permit := map[string]any{"hash": genesisHash, "from": evmtest.Dev(3).Address(), "nonce": "0x1", "type": "0x4", "authorizationList": []any{authorization(3, 0, 0), authorization(0, 0, 0)}}
	ours := map[string]any{"hash": string(b.ID), "from": from, "nonce": "0x0", "type": "0x2"}
	for name, c := range map[string]struct {
		count, blocks, byName func([]any) (any, string)
		want                  dlt.Evidence
		err                   string
	}{
		"nobody":                             {count: count(1000, nil), want: dlt.InFlight},
		"somebody, not deep yet":             {count: count(95, nil), want: dlt.InFlight},
		"somebody in a deep block":           {count: count(77, nil), blocks: with(77, stranger, theirs), want: dlt.NotCommitted},
		"somebody in the last deep block":    {count: count(90, nil), blocks: with(90, theirs), want: dlt.NotCommitted},
		"somebody in block 1":                {count: count(1, nil), blocks: with(1, theirs), want: dlt.NotCommitted},
		"ours, whose receipt lags":           {count: count(77, nil), blocks: with(77, ours), want: dlt.InFlight},
		"an authorization":                   {count: count(77, nil), blocks: with(77, stranger, permit), want: dlt.NotCommitted},
		"a block that does not show it":      {count: count(77, nil), blocks: with(77, stranger), want: dlt.CannotTell},
		"a block whose list is empty":        {count: count(77, nil), want: dlt.CannotTell},
		"in time, and the state goes back":   {count: count(77, pruned), blocks: with(77, theirs), want: dlt.NotCommitted},
		"long ago, and the state is gone":    {count: count(20, pruned), blocks: with(20, theirs), want: dlt.CannotTell},
		"long ago, and the node finds it":    {count: count(20, pruned), blocks: with(20, theirs), byName: func([]any) (any, string) { return map[string]any{"blockNumber": "0x14"}, "" }, want: dlt.NotCommitted},
		"the node finds it, not deep":        {count: count(20, pruned), byName: func([]any) (any, string) { return map[string]any{"blockNumber": "0x5f"}, "" }, want: dlt.CannotTell},
		"the node finds it, and it is wrong": {count: count(20, pruned), blocks: with(20), byName: func([]any) (any, string) { return map[string]any{"blockNumber": "0x15"}, "" }, want: dlt.CannotTell, err: "no state"},
		"a used nonce in block 0":            {count: count(0, nil), want: dlt.CannotTell, err: "block 0 used nonce 0"},
		"the block's own count says no": {count: func(p []any) (any, string) {
			if _, byNumber := p[1].(string); !byNumber {
				return "0x0", ""
			}
			return count(77, nil)(p)
		}, want: dlt.CannotTell, err: "nonce 0, between blocks"},
		"the provider is busy": {count: func(p []any) (any, string) {
			if p[1] != "0x5a" { // the number of the deep block
				return nil, "too many requests"
			}
			return count(77, nil)(p)
		}, want: dlt.CannotTell, err: "too many requests"},
		"a block that is not there": {count: count(77, nil), blocks: func(p []any) (any, string) {
			if p[1] == true {
				return nil, ""
			}
			return with(0)(p)
		}, want: dlt.CannotTell, err: "the node has none"},
	} {
		t.Run(name, func(t *testing.T) {
			s, url := newScriptedNode(t)
			s.setAnswer("eth_getTransactionCount", func(params []any) (any, string) {
				if params[1] == "pending" {
					return "0x1", ""
				}
				return c.count(params)
			})
			if c.blocks != nil {
				s.setAnswer("eth_getBlockByNumber", c.blocks)
			}
			s.setAnswer("eth_getTransactionBySenderAndNonce", c.byName)
			client := newTestClient(t, url, nil)
			got, err := client.Resolve(t.Context(), dlt.Doubt{Attempt: attempt(b, 1)})
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
			} else {
				require.NoError(t, err)
			}
			assert.Equal(t, c.want, got)
			// A send that is refused because of its nonce needs the same proof.
			s.setAnswer("eth_sendRawTransaction", func([]any) (any, string) { return nil, "nonce too low: next nonce 1, tx nonce 0" })
			err = client.Submit(t.Context(), attempt(b, 2))
			if c.want == dlt.NotCommitted {
				require.ErrorIs(t, err, dlt.ErrRejected)
				assert.ErrorContains(t, err, "nonce 0 was used by")
			} else {
				assert.Equal(t, batch.KindDoubt, dlt.Kind(err), "%v", err)
			}
		})
	}
}

// A receipt, or the pool, gives the evidence before any other proof is looked for.
func TestResolveByReceipt(t *testing.T) {
	b := signedBatch(nil)
	for name, c := range map[string]struct {
		receipt any
		want    dlt.Evidence
	}{
		"executed": {receiptIn(b.ID, 80, nil), dlt.Committed}, "reverted": {receiptIn(b.ID, 80, map[string]any{"status": "0x0"}), dlt.NotCommitted},
		"not deep": {receiptIn(b.ID, 95, nil), dlt.InFlight}, "of another chain": {receiptIn(b.ID, 80, map[string]any{"blockHash": foreignHash}), dlt.InFlight},
	} {
		s, url := newScriptedNode(t)
		s.setAnswer("eth_getTransactionReceipt", func([]any) (any, string) { return c.receipt, "" })
		got, err := newTestClient(t, url, nil).Resolve(t.Context(), dlt.Doubt{Attempt: attempt(b, 1)})
		require.NoError(t, err, name)
		assert.Equal(t, c.want, got, name)
	}
}

// FuzzAnswers gives any answer to a client, which never panics and returns no status that nobody
// asked for.
func FuzzAnswers(f *testing.F) {
	b := signedBatch(nil)
	good, err := json.Marshal([]any{map[string]any{"id": 1, "result": "0x539"}, map[string]any{"id": 2, "result": blockAt(0)}, map[string]any{"id": 5, "result": receiptIn(b.ID, 80, nil)}})
	require.NoError(f, err)
	f.Add(good)
	f.Add([]byte(`{"id":1,"error":{"code":-32600,"message":"batch too large"}}`))
	f.Add([]byte(`[{"id":null}]`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		c, err := evm.New("http://node", 1337, &evm.Options{Client: &http.Client{Transport: answerBytes(answer)}})
		require.NoError(t, err)
		statuses, err := c.BatchStatuses(t.Context(), b.Service, []batch.Attempt{{Key: b.Key()}})
		for _, s := range statuses {
			require.Equal(t, b.ID, s.ID)
		}
		require.True(t, err != nil || len(statuses) <= 1)
		_ = c.Submit(t.Context(), attempt(b, 1))
		_, err = c.Resolve(t.Context(), dlt.Doubt{Attempt: attempt(b, 1)})
		require.NotErrorIs(t, err, dlt.ErrRejected)
	})
}

// answerBytes answers every request with the same bytes.
type answerBytes []byte

// RoundTrip implements [http.RoundTripper].
func (a answerBytes) RoundTrip(r *http.Request) (*http.Response, error) {
	_, _ = io.Copy(io.Discard, r.Body)
	rec := httptest.NewRecorder()
	_, _ = rec.Write(a)
	return rec.Result(), nil
}
