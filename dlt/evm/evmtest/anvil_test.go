package evmtest

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
	"github.com/dltbatch/dltbatch/internal/anvil"
	"github.com/dltbatch/dltbatch/internal/geth"
)

// The tests of this file need a real anvil, which is looked for or downloaded. Requests that are
// made to a real geth, too, are in behaviors.

func httpClient(t *testing.T) *http.Client {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// TestAnvilAnswersAsRecorded makes the requests of two records of anvil to the installed anvil, so
// that a version with other answers is noticed.
func TestAnvilAnswersAsRecorded(t *testing.T) {
	t.Run("on demand", func(t *testing.T) {
		n := anvil.Start(t, "--no-mining", "--accounts", "60")
		r := &replayer{t: t, url: n.URL(), client: httpClient(t), chainID: 31337, gappedAccount: Dev(8)}
		r.replayAll(readRecord(t, "anvil-on-demand.txt"))
		require.GreaterOrEqual(t, r.comparedCount, 145)
	})
	t.Run("interval and restart", func(t *testing.T) { // here blocks are made when the record shows one, and no state is dumped
		args := []string{"--no-mining", "--state-interval", "3600"}
		n := anvil.Start(t, args...)
		r := &replayer{t: t, url: n.URL(), client: httpClient(t), chainID: 31337, doBefore: map[int]func(){}}
		for _, number := range []int{14, 22, 53} {
			r.doBefore[number] = func() { r.callMethod("evm_mine") }
		}
		starts := 0
		r.doRemark = func(note string) bool {
			switch {
			case note == "signal SIGTERM":
				n.Stop()
			case note == "signal SIGKILL":
				require.NoError(t, n.Kill())
			case !strings.HasPrefix(note, "start anvil "):
			case !strings.Contains(note, "--state"):
				require.NoError(t, n.Renew("--no-mining"))
			default:
				if starts++; starts > 1 {
					require.NoError(t, n.Resume(args...))
				}
			}
			return false
		}
		r.replayAll(readRecord(t, "anvil-interval-restart.txt"))
		require.GreaterOrEqual(t, r.comparedCount, 28)
	})
}

// nodePair is a simulated node and a real one, which get the same requests.
type nodePair struct {
	t             *testing.T
	simulated     *replayer
	real          *replayer
	simulatedNode *Node             // the simulated node
	realGeth      *geth.Node        // nil if the real node is an anvil
	nonces        map[string]uint64 // by address
	requestCount  int
	changes       []string // the requests that changed something
}

// mine makes a block of the pool's transactions on each node.
func (p *nodePair) mine() {
	p.t.Helper()
	if p.realGeth == nil {
		p.ask("evm_mine")
		return
	}
	p.simulatedNode.Mine()
	require.NoError(p.t, p.realGeth.Mine())
	p.changes = append(p.changes, "mine")
}

// reorg replaces the last blocks on each node. The first new block has the given transactions.
func (p *nodePair) reorg(depth int, raw ...string) {
	p.t.Helper()
	list := []any{}
	var txs [][]byte
	for _, text := range raw {
		b, ok := parseHexBytes(text)
		require.True(p.t, ok)
		list, txs = append(list, []any{text, 0}), append(txs, b)
	}
	if p.realGeth == nil {
		p.ask("anvil_reorg", depth, list)
		return
	}
	require.NoError(p.t, p.simulatedNode.Reorg(depth, txs...))
	require.NoError(p.t, p.realGeth.Reorg(depth, txs...))
	require.NoError(p.t, p.realGeth.MakeBlock()) // the simulated chain is longer after a reorganization
	p.changes = append(p.changes, fmt.Sprint("reorg ", depth, len(raw)))
}

// ask makes a request to both nodes, and returns the simulated node's answer.
func (p *nodePair) ask(method string, params ...any) any {
	p.t.Helper()
	if params == nil {
		params = []any{}
	}
	p.requestCount++
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": p.requestCount, "method": method, "params": params})
	require.NoError(p.t, err)
	_, _, simulated, err := p.simulated.post(string(body), jsonType)
	require.NoError(p.t, err)
	status, kind, actual, err := p.real.post(string(body), jsonType)
	require.NoError(p.t, err)
	if p.realGeth != nil && strings.Contains(actual, "transaction indexing is in progress") {
		actual = simulated // geth answers so until it has indexed the last block
	}
	diffs := compareAnswer(recordedAnswer{status: status, contentType: kind, body: actual}, http.StatusOK, jsonType, simulated)
	require.Empty(p.t, diffs, "%s\nsimulated %s\nreal %s\nafter\n%s", body, simulated, actual, strings.Join(p.changes, "\n"))
	if !strings.HasPrefix(method, "eth_get") && !strings.HasPrefix(method, "txpool") && method != "eth_blockNumber" {
		p.changes = append(p.changes, fmt.Sprintf("%d %s", p.requestCount, requestSummary(method, params)+" "+simulated))
	}
	var got struct{ Result any }
	require.NoError(p.t, json.Unmarshal([]byte(simulated), &got))
	return got.Result
}

// askEstimate asks both nodes for the gas of a call. A geth stops searching when it is near
// enough.
func (p *nodePair) askEstimate(tx map[string]any) {
	p.t.Helper()
	if p.realGeth == nil {
		p.ask("eth_estimateGas", tx)
		return
	}
	var gas [2]uint64
	for i, r := range []*replayer{p.simulated, p.real} {
		var err error
		gas[i], err = strconv.ParseUint(r.callMethod("eth_estimateGas", tx).(string), 0, 64)
		require.NoError(p.t, err)
	}
	require.GreaterOrEqual(p.t, gas[1], gas[0])
	require.InEpsilon(p.t, gas[0], gas[1], 0.015)
}

// requestSummary describes a request in a few words.
func requestSummary(method string, params []any) string {
	if method != sendMethod {
		return fmt.Sprint(method, params)
	}
	raw, _ := parseHexBytes(params[0].(string))
	tx, err := evmtx.Decode(raw)
	if tx == nil {
		return fmt.Sprint(method, err)
	}
	from, _ := tx.Sender()
	return fmt.Sprintf("%s nonce %d tip %v cap %v gas %d value %v data %d", from.String()[:6], tx.Nonce, tx.Tip, tx.FeeCap, tx.Gas, tx.Value, len(tx.Data))
}

// askAtBlock asks both nodes about the block of the same number, whose hashes differ.
func (p *nodePair) askAtBlock(method string, number uint64, before ...any) {
	p.t.Helper()
	answers := [2]string{}
	for i, r := range []*replayer{p.simulated, p.real} {
		hash := r.callMethod("eth_getBlockByNumber", hexNumber(number), false).(map[string]any)["hash"]
		params := append(append([]any{}, before...), map[string]any{"blockHash": hash, "requireCanonical": true})
		answers[i] = fmt.Sprint(r.callMethod(method, params...))
	}
	require.Equal(p.t, answers[1], answers[0], "%s at %d", method, number)
}

// sign returns the signed next transaction of the account.
func (p *nodePair) sign(a Account, u Unsigned) (raw, hash string) {
	u.ChainID, u.Nonce = p.simulated.chainID, p.nonces[a.Address()]
	p.nonces[a.Address()]++
	if u.To == "" && u.Data == nil {
		u.To = deadAddress
	}
	b, h := a.Sign(u)
	return hexBytes(b), h
}

// compareAccount asks both nodes everything about some transactions and their account.
func (p *nodePair) compareAccount(a Account, hashes ...string) {
	p.t.Helper()
	if p.realGeth != nil {
		p.waitForPool(a)
	}
	for _, h := range hashes {
		p.ask("eth_getTransactionReceipt", h)
		p.ask("eth_getTransactionByHash", h)
	}
	for _, tag := range []string{"latest", "pending", "safe", "finalized", "earliest"} {
		p.ask("eth_getTransactionCount", a.Address(), tag)
	}
	p.ask("eth_getBalance", a.Address(), "latest")
	p.ask("txpool_status")
	p.ask("txpool_inspect")
	p.ask("eth_blockNumber")
}

func newNodePair(t *testing.T, s *Node, url string, g *geth.Node) *nodePair {
	return &nodePair{
		t: t, simulatedNode: s, realGeth: g, nonces: map[string]uint64{},
		simulated: &replayer{t: t, url: s.URL(), client: httpClient(t), chainID: s.options.ChainID}, real: &replayer{t: t, url: url, client: httpClient(t)},
	}
}

// startAnvilPair starts a simulated anvil and a real one.
func startAnvilPair(t *testing.T) *nodePair {
	t.Helper()
	n := anvil.Start(t, "--no-mining")
	s := Start(t, &Options{Personality: Anvil, BlockTime: -1, SlotsInAnEpoch: 1})
	return newNodePair(t, s, n.URL(), nil)
}

// TestAnvilRefusesAsSimulated sends a transaction for each reason of a refusal, and compares the
// answers.
func TestAnvilRefusesAsSimulated(t *testing.T) {
	all := stepsToRefusal(31337, 4)
	for _, why := range []Refusal{BlobGap, NoBlobs, WrongBlobs, Reserved} { // anvil computes for half a minute before its first blobs
		delete(all, why)
	}
	for why, steps := range all {
		t.Run(string(why), func(t *testing.T) {
			p := startAnvilPair(t)
			for _, step := range steps {
				switch step {
				case mineBlock:
					p.ask("evm_mine")
				case delegateCode:
					p.ask("anvil_setCode", Dev(0).Address(), hexBytes(delegatedCode()))
				default:
					p.ask(sendMethod, step)
				}
			}
			p.compareAccount(Dev(0))
			p.ask("evm_mine")
			p.compareAccount(Dev(0))
		})
	}
}

// behaviors are requests to a simulated node and a real one that the records do not have.
var behaviors = map[string]func(p *nodePair){
	"a reorg": func(p *nodePair) {
		first, h1 := p.sign(Dev(1), Unsigned{})
		second, h2 := p.sign(Dev(1), Unsigned{})
		p.ask(sendMethod, first)
		p.mine()
		p.ask(sendMethod, second)
		p.mine()
		p.mine()
		p.mine()
		p.compareAccount(Dev(1), h1, h2)
		p.reorg(3)
		p.compareAccount(Dev(1), h1, h2)
		p.ask(sendMethod, second)
		p.mine()
		p.compareAccount(Dev(1), h1, h2)
	},
	"a reorg with another at the nonce": func(p *nodePair) {
		ours, h1 := p.sign(Dev(1), Unsigned{Value: big.NewInt(1)})
		p.nonces[Dev(1).Address()]--
		theirs, h2 := p.sign(Dev(1), Unsigned{Value: big.NewInt(2)})
		p.ask(sendMethod, ours)
		p.mine()
		p.mine()
		p.reorg(2, theirs)
		p.compareAccount(Dev(1), h1, h2)
		p.ask(sendMethod, ours)
		p.ask(sendMethod, theirs)
	},
	"replaced": func(p *nodePair) {
		one, h1 := p.sign(Dev(1), Unsigned{})
		p.nonces[Dev(1).Address()]--
		two, h2 := p.sign(Dev(1), Unsigned{FeeCap: big.NewInt(31e9)})
		p.ask(sendMethod, one)
		p.ask(sendMethod, two)
		p.compareAccount(Dev(1), h1, h2)
		p.mine()
		p.compareAccount(Dev(1), h1, h2)
	},
	"many of two accounts": func(p *nodePair) {
		for i := range 5 {
			x, _ := p.sign(Dev(1), Unsigned{Tip: big.NewInt(int64(i + 1)), Value: big.NewInt(5)})
			y, _ := p.sign(Dev(2), Unsigned{Tip: big.NewInt(int64(3 * i)), Value: big.NewInt(6)})
			p.ask(sendMethod, x)
			p.ask(sendMethod, y)
		}
		p.mine()
		p.ask("eth_getBlockByNumber", "latest", true)
		p.ask("eth_getBlockByNumber", "latest", false)
		p.ask("eth_getBlockReceipts", "latest")
		p.ask("eth_feeHistory", "0x2", "latest", []int{10, 50, 90})
		p.ask("eth_getTransactionBySenderAndNonce", Dev(1).Address(), "0x2")
		p.ask("eth_getTransactionBySenderAndNonce", Dev(1).Address(), "0x99")
	},
	"state at a block": func(p *nodePair) {
		for range 4 {
			raw, _ := p.sign(Dev(1), Unsigned{Value: big.NewInt(7)})
			p.ask(sendMethod, raw)
			p.mine()
		}
		for number := range uint64(5) {
			p.askAtBlock("eth_getTransactionCount", number, Dev(1).Address())
			p.askAtBlock("eth_getBalance", number, deadAddress)
			p.ask("eth_getTransactionCount", Dev(1).Address(), hexNumber(number))
		}
		p.ask("eth_getTransactionCount", Dev(1).Address(), map[string]any{"blockHash": zeroHash[:65] + "1", "requireCanonical": true})
		p.ask("eth_getTransactionCount", Dev(1).Address(), "0x6")
		p.ask("eth_getBlockByNumber", "0x6", false)
		p.ask("eth_getBlockByHash", zeroHash[:65]+"1", false)
		p.ask("eth_getBlockByNumber", "0x0", true)
		if p.realGeth == nil { // geth asks for more if blocks have paid more
			p.ask("eth_gasPrice")
		}
	},
	"contracts": func(p *nodePair) {
		raw, h := p.sign(Dev(1), Unsigned{Data: Reverting(), Gas: 100_000})
		p.askEstimate(map[string]any{"from": Dev(1).Address(), "data": hexBytes(Reverting())})
		p.ask(sendMethod, raw)
		p.mine()
		p.compareAccount(Dev(1), h)
		to := contractAddress(evmtx.KeyAddress(Dev(1).key.PubKey()), 0).String()
		p.ask("eth_getCode", to, "latest")
		p.ask("eth_call", map[string]any{"to": to, "data": "0x12"}, "latest")
		p.ask("eth_call", map[string]any{"to": deadAddress, "data": "0x12"}, "latest")
		p.ask("eth_estimateGas", map[string]any{"from": Dev(1).Address(), "to": deadAddress, "value": "0x1"})
		p.ask("eth_estimateGas", map[string]any{"from": Dev(1).Address(), "to": to, "value": "0x1"})
		call, h2 := p.sign(Dev(2), Unsigned{To: to, Value: big.NewInt(5), Gas: 50_000, Data: []byte{1, 2, 3, 0}})
		p.ask(sendMethod, call)
		p.mine()
		p.compareAccount(Dev(2), h2)
		p.ask("eth_getBalance", to, "latest")
		p.ask("eth_getTransactionCount", to, "latest")
	},
	"the other types": func(p *nodePair) {
		for _, tx := range []*evmtx.Tx{
			{Type: evmtx.Legacy, ChainID: p.simulated.chainID},
			{Type: evmtx.AccessList, ChainID: p.simulated.chainID, Nonce: 1, Access: []evmtx.AccessTuple{{Address: evmtx.Address{9}, Keys: []evmtx.Hash{{1}, {2}}}}},
			{Type: evmtx.Legacy, Nonce: 2},
		} {
			tx.Tip, tx.FeeCap, tx.Gas, tx.To, tx.Value = big.NewInt(3e9), big.NewInt(3e9), 60_000, &evmtx.Address{0xde}, big.NewInt(1)
			tx.Sign(Dev(1).key)
			p.ask(sendMethod, hexBytes(tx.Encode()))
			p.compareAccount(Dev(1), tx.Hash().String())
			p.mine()
			p.compareAccount(Dev(1), tx.Hash().String())
		}
	},
}

// TestAnvilBehavesAsSimulated makes requests that the records do not have to a simulated anvil and
// a real one, and compares each answer.
func TestAnvilBehavesAsSimulated(t *testing.T) {
	a, b := Dev(1), Dev(2)
	all := maps.Clone(behaviors)
	maps.Copy(all, map[string]func(p *nodePair){
		"a rollback": func(p *nodePair) {
			raw, h := p.sign(a, Unsigned{})
			p.ask(sendMethod, raw)
			p.ask("anvil_mine", "0x3")
			p.compareAccount(a, h)
			p.ask("anvil_rollback", 2)
			p.compareAccount(a, h)
			p.ask("anvil_rollback", 1)
			p.compareAccount(a, h)
			p.ask(sendMethod, raw)
			p.ask("evm_mine")
			p.compareAccount(a, h)
			p.ask("anvil_rollback", 9)
		},
		"a base fee above the cap": func(p *nodePair) {
			raw, h := p.sign(a, Unsigned{})
			p.ask(sendMethod, raw)
			p.ask("anvil_setNextBlockBaseFeePerGas", "0x174876e800")
			other, h2 := p.sign(b, Unsigned{})
			p.ask(sendMethod, other)
			p.ask("evm_mine")
			p.compareAccount(a, h)
			p.compareAccount(b, h2)
			p.ask("eth_feeHistory", "0x5", "latest", []int{25, 75})
			p.ask(sendMethod, raw)
		},
		"dropped": func(p *nodePair) {
			raw, h := p.sign(a, Unsigned{})
			p.ask(sendMethod, raw)
			p.compareAccount(a, h)
			p.ask("anvil_dropTransaction", h)
			p.compareAccount(a, h)
			p.ask("anvil_dropTransaction", h)
			p.ask(sendMethod, raw)
			p.ask("evm_mine")
			p.compareAccount(a, h)
		},
		"funds": func(p *nodePair) {
			p.ask("anvil_setBalance", a.Address(), hexBig(big.NewInt(700_000_000_000_000)))
			one, h1 := p.sign(a, Unsigned{Value: big.NewInt(60_000_000_000_000)})
			two, h2 := p.sign(a, Unsigned{Value: big.NewInt(60_000_000_000_000)})
			more, _ := p.sign(a, Unsigned{Value: big.NewInt(80_000_000_000_000)})
			p.ask(sendMethod, one)
			p.ask(sendMethod, two) // the account can pay for each of them alone
			p.ask(sendMethod, more)
			p.ask("evm_mine")
			p.ask("evm_mine")
			p.compareAccount(a, h1, h2)
		},
		"a reorg of more than there is": func(p *nodePair) {
			p.ask("evm_mine")
			p.ask("anvil_reorg", 99, []any{})
		},
	})
	for name, do := range all {
		t.Run(name, func(t *testing.T) {
			do(startAnvilPair(t))
		})
	}
}

// waitsTwice reports whether anvil would keep two transactions of a nonce, of which one waits for
// an earlier nonce.
func waitsTwice(p *nodePair, a Account, nonce uint64) bool {
	pool := p.simulated.callMethod("txpool_inspect").(map[string]any)
	has := func(part string, nonce uint64) bool {
		mine, _ := pool[part].(map[string]any)[a.Address()].(map[string]any)
		return mine[strconv.FormatUint(nonce, 10)] != nil
	}
	next := p.simulated.callMethod("eth_getTransactionCount", a.Address(), "latest") == hexNumber(nonce)
	return has("queued", nonce) || has("pending", nonce) && !next && !has("pending", nonce-1)
}

var randomSteps = flag.Int("evm.steps", 50, "requests that change something, in each of three random runs on a simulated and a real anvil")

// TestAnvilRandomly does the same random things to a simulated anvil and to a real one, and
// compares the answers to all questions about them.
func TestAnvilRandomly(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			p := startAnvilPair(t)
			random := rand.New(rand.NewPCG(seed, 0))
			pick := func(all ...int64) *big.Int { return big.NewInt(all[random.IntN(len(all))]) }
			type one struct {
				raw, hash string
				from      Account
				nonce     uint64
			}
			var sent []one
			height := func() uint64 {
				head, err := strconv.ParseUint(p.simulated.callMethod("eth_blockNumber").(string), 0, 64)
				require.NoError(t, err)
				return head
			}
			for range *randomSteps {
				from := Dev(1 + random.IntN(3))
				switch random.IntN(16) {
				default:
					nonce, err := strconv.ParseUint(p.simulated.callMethod("eth_getTransactionCount", from.Address(), "pending").(string), 0, 64)
					require.NoError(t, err)
					if random.IntN(3) == 0 {
						nonce = max(nonce+uint64(random.IntN(5)), 2) - 2
					}
					if waitsTwice(p, from, nonce) {
						continue
					}
					u := Unsigned{
						ChainID: 31337, Nonce: nonce, To: deadAddress, Tip: pick(0, 1, 1e9, 2e9), FeeCap: pick(1e8, 1e9, 3e9, 10e9, 30e9),
						Gas: pick(21000, 21000, 30000, 20000, 100_000).Uint64(), Value: pick(0, 1, 5e18, 4e18),
					}
					u.Data = make([]byte, pick(0, 0, 0, 40, 300).Int64())
					raw, hash := from.Sign(u)
					sent = append(sent, one{hexBytes(raw), hash, from, nonce})
					p.ask(sendMethod, hexBytes(raw))
				case 0:
					if len(sent) > 0 {
						if x := sent[random.IntN(len(sent))]; !waitsTwice(p, x.from, x.nonce) {
							p.ask(sendMethod, x.raw)
						}
					}
				case 1, 2, 3:
					p.ask("evm_mine")
				case 4:
					if head := height(); head > 0 {
						depth := 1 + random.IntN(int(min(head, 4)))
						include := []any{}
						if random.IntN(2) == 0 {
							count := p.simulated.callMethod("eth_getTransactionCount", from.Address(), hexNumber(head-uint64(depth)))
							nonce, err := strconv.ParseUint(count.(string), 0, 64)
							require.NoError(t, err)
							raw, hash := from.Sign(Unsigned{ChainID: 31337, Nonce: nonce, To: deadAddress, Value: pick(3, 4)})
							sent = append(sent, one{hexBytes(raw), hash, from, nonce})
							include = append(include, []any{hexBytes(raw), random.IntN(depth)})
						}
						p.ask("anvil_reorg", depth, include)
					}
				case 5:
					if head := height(); head > 0 {
						p.ask("anvil_rollback", 1+random.IntN(int(min(head, 3))))
					}
				case 6:
					if len(sent) > 0 {
						p.ask("anvil_dropTransaction", sent[random.IntN(len(sent))].hash)
					}
				case 7:
					p.ask("anvil_setNextBlockBaseFeePerGas", hexBig(pick(5e8, 2e9, 20e9)))
				case 8:
					p.ask("anvil_setBalance", from.Address(), hexBig(pick(1e15, 9e18)))
				}
				for i := 1; i <= 3; i++ {
					p.compareAccount(Dev(i))
				}
				for range min(len(sent), 3) {
					p.compareAccount(from, sent[random.IntN(len(sent))].hash)
				}
				p.ask("eth_getBlockByNumber", "latest", true)
				p.ask("eth_feeHistory", "0x3", "latest", []int{50})
			}
		})
	}
}
