package evmtest

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/internal/geth"
)

// The tests of this file need a real geth, which is looked for or compiled.

// TestGethAnswersAsRecorded makes the requests of the record of geth --dev to the installed geth,
// so that a version with other answers is noticed.
func TestGethAnswersAsRecorded(t *testing.T) {
	lines := readRecord(t, "geth-dev.txt")
	// The record begins at block 7. It shows the base fee of block 4, and no block since then had
	// transactions.
	price := big.NewInt(0x24079a4b)
	for range 4 {
		price = priceBefore(price)
	}
	n := geth.Start(t, geth.Options{Funds: senders(lines, Ether(1000)), BaseFee: price, Dev: true})
	for range 7 {
		require.NoError(t, n.Mine())
	}
	r := &replayer{t: t, url: n.URL(), client: httpClient(t), chainID: geth.ChainID, gappedAccount: Dev(8), skippedLines: map[int]string{21: "the price of block 0", 307: "how soon geth looks for what its pool lacks"}, doBefore: map[int]func(){}}
	r.waitForBlock = func() { require.NoError(t, n.Mine()) }
	r.replayAll(lines)
	require.GreaterOrEqual(t, r.comparedCount, 144)
}

// priceBefore returns the base fee of an empty block whose next block has this base fee.
func priceBefore(price *big.Int) *big.Int {
	was := new(big.Int).Div(new(big.Int).Mul(price, big.NewInt(8)), big.NewInt(7))
	for priceAfter(was).Cmp(price) < 0 {
		was.Add(was, big.NewInt(1))
	}
	return was
}

func priceAfter(was *big.Int) *big.Int { return new(big.Int).Sub(was, new(big.Int).Rsh(was, 3)) }

// startGethPair starts a simulated geth and a real one.
func startGethPair(t *testing.T, o Options, args ...string) *nodePair {
	t.Helper()
	funds := map[string]*big.Int{}
	for i := range 10 {
		funds[Dev(i).Address()] = Ether(10_000)
	}
	n := geth.Start(t, geth.Options{Funds: funds, Dev: true, Args: args})
	o.BlockTime = -1
	return newNodePair(t, Start(t, &o), n.URL(), n)
}

// TestGethRefusesAsSimulated sends a transaction for each reason of a refusal, and compares the
// answers.
func TestGethRefusesAsSimulated(t *testing.T) {
	for why, steps := range stepsToRefusal(geth.ChainID, 4) {
		if why == AccountLimit || why == PoolFull || why == WrongBlobs {
			continue // no method gives an account code; a full pool drops what it likes; the text contains the blobs' hashes
		}
		t.Run(string(why), func(t *testing.T) {
			p := startGethPair(t, Options{})
			for _, step := range steps {
				if step == mineBlock {
					p.mine()
				} else {
					p.ask(sendMethod, step)
				}
			}
			p.compareAccount(Dev(0))
			p.mine()
			p.compareAccount(Dev(0))
		})
	}
}

// waitForPool waits until the real pool has processed all transactions and the last block.
func (p *nodePair) waitForPool(a Account) {
	p.t.Helper()
	pool := func(r *replayer) string {
		return fmt.Sprint(r.callMethod("txpool_inspect"), r.callMethod("eth_getTransactionCount", a.Address(), "pending"))
	}
	want := pool(p.simulated)
	for range 100 { // if the pools still differ, the comparison that follows shows it
		if pool(p.real) == want {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestGethBehavesAsSimulated makes requests that the record does not have to a simulated geth and
// a real one, and compares each answer.
func TestGethBehavesAsSimulated(t *testing.T) {
	for name, do := range behaviors {
		t.Run(name, func(t *testing.T) { do(startGethPair(t, Options{})) })
	}
}

// TestGethIsKilled kills both nodes: the last mined transactions are in no block, and ten seconds
// later they are in the pool again. Until there is another block, a real geth still has receipts
// of the lost block.
func TestGethIsKilled(t *testing.T) {
	p := startGethPair(t, Options{KillUnmines: 1})
	one, h1 := p.sign(Dev(1), Unsigned{})
	two, h2 := p.sign(Dev(1), Unsigned{})
	p.ask(sendMethod, one)
	p.mine()
	p.realGeth.Stop()
	require.NoError(t, p.realGeth.Resume(0))
	p.ask(sendMethod, two)
	p.mine()
	p.compareAccount(Dev(1), h1, h2)
	p.simulatedNode.Kill()
	require.NoError(t, p.realGeth.Kill())
	require.NoError(t, p.realGeth.Resume(1))
	require.NoError(t, p.simulatedNode.Resume())
	p.ask("eth_blockNumber")
	p.compareAccount(Dev(1), h1)
	time.Sleep(trackerStartDelay + 2*time.Second)
	p.compareAccount(Dev(1), h1)
	p.mine()
	p.compareAccount(Dev(1), h1, h2)
}

// TestGethRandomly does the same random things to a simulated geth and to a real one, and compares
// the answers to all questions about them.
func TestGethRandomly(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			p := startGethPair(t, Options{NoTracker: true}, "--txpool.nolocals")
			random := rand.New(rand.NewPCG(seed, 0))
			pick := func(all ...int64) *big.Int { return big.NewInt(all[random.IntN(len(all))]) }
			type one struct{ raw, hash string }
			var sent []one
			for range *randomSteps {
				from := Dev(1 + random.IntN(3))
				count := func(tag any) uint64 {
					nonce, err := strconv.ParseUint(p.simulated.callMethod("eth_getTransactionCount", from.Address(), tag).(string), 0, 64)
					require.NoError(t, err)
					return nonce
				}
				switch random.IntN(10) {
				default:
					nonce := count("pending")
					if random.IntN(3) == 0 {
						nonce = max(nonce+uint64(random.IntN(5)), 2) - 2
					}
					u := Unsigned{
						ChainID: geth.ChainID, Nonce: nonce, To: deadAddress, Tip: pick(0, 1, 1e9, 2e9), FeeCap: pick(1e8, 1e9, 3e9, 10e9, 30e9),
						Gas: pick(21000, 21000, 30000, 20000, 100_000).Uint64(), Value: pick(0, 1, 5e18, 4e18),
					}
					u.Data = make([]byte, pick(0, 0, 0, 40, 300).Int64())
					raw, hash := from.Sign(u)
					sent = append(sent, one{hexBytes(raw), hash})
					p.ask(sendMethod, hexBytes(raw))
				case 0:
					if len(sent) > 0 {
						p.ask(sendMethod, sent[random.IntN(len(sent))].raw)
					}
				case 1, 2, 3:
					p.mine()
				case 4:
					if head := p.realGeth.Height(); head > 0 {
						depth := 1 + random.IntN(min(head%32+1, 4))
						if depth > head%32 {
							break // a finalized block is not taken back
						}
						var include []string
						if random.IntN(2) == 0 {
							raw, hash := from.Sign(Unsigned{ChainID: geth.ChainID, Nonce: count(hexNumber(uint64(head - depth))), To: deadAddress, Value: pick(3, 4)})
							sent = append(sent, one{hexBytes(raw), hash})
							include = append(include, hexBytes(raw))
						}
						p.reorg(depth, include...)
					}
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
