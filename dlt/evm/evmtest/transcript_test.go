package evmtest

import (
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRecords repeats the requests that were made to geth 1.17.8 and anvil 1.7.1, byte by byte and
// in their order, and compares every answer: status, content type, keys, types, texts, numbers,
// and hashes of transactions. Of block hashes, roots and times it compares the type and the
// length. Of an answer that the record cuts off, it compares the recorded part and the length. It
// does not compare the lines that the replay skips, each for a given reason, nor the answers in
// the middle of an array of a hundred or more.
func TestRecords(t *testing.T) {
	held := map[string]bool{}
	for _, sc := range []struct {
		file  string
		o     Options
		least int // the least number of compared exchanges and remarks, so that none gets lost
		set   func(n *Node, r *replayer)
	}{
		{file: "anvil-on-demand.txt", o: Options{Personality: Anvil, BlockTime: -1, SlotsInAnEpoch: 1}, least: 145},
		{file: "anvil-automine.txt", o: Options{Personality: Anvil, MineDelay: time.Minute}, least: 115, set: prepareAutomine},
		{file: "anvil-interval-restart.txt", o: Options{Personality: Anvil, BlockTime: time.Second, DumpInterval: 1500 * time.Millisecond}, least: 28, set: prepareInterval},
		{file: "geth-dev.txt", o: Options{BlockTime: 2 * time.Second}, least: 146, set: prepareDevChain},
		{file: "geth-gapped-120.txt", o: Options{BlockTime: 2 * time.Second}, least: 7, set: prepareTracker},
	} {
		held[sc.file] = true
		t.Run(sc.file, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(9000 * 24 * time.Hour) // so that the times have as many digits as in the record
				lines := readRecord(t, sc.file)
				sc.o.InMemory = true
				funds := Ether(10_000)
				if strings.HasPrefix(sc.file, "geth") {
					funds = Ether(1000)
				}
				sc.o.Accounts = senders(lines, funds)
				n := Start(t, &sc.o)
				r := &replayer{t: t, url: "http://evm.test", client: n.Client(), chainID: n.options.ChainID, gappedAccount: Dev(8), doBefore: map[int]func(){}, skippedLines: map[int]string{}}
				if sc.set != nil {
					sc.set(n, r)
				}
				r.replayAll(lines)
				require.GreaterOrEqual(t, r.comparedCount, sc.least)
			})
		})
	}
	files, err := os.ReadDir(filepath.Join("testdata", "nodes"))
	require.NoError(t, err)
	for _, f := range files {
		require.True(t, held[f.Name()], "nobody replays %s", f.Name())
	}
}

// prepareAutomine makes the block of a transaction before the next request, except where the
// record shows that the next request was faster.
func prepareAutomine(n *Node, r *replayer) {
	const race = "the first of an array was mined before the third was read"
	r.skippedLines[234], r.skippedLines[238], r.skippedLines[239], r.skippedLines[240], r.skippedLines[241] = race, race, race, race, race
	for number := 1; number < 300; number++ {
		if number <= 34 || number > 70 {
			r.doBefore[number] = func() { time.Sleep(2 * time.Minute) }
		}
	}
	r.doBefore[236] = func() { // in the record the array made two blocks, and here it makes one
		time.Sleep(2 * time.Minute)
		n.Mine()
	}
}

// prepareInterval makes blocks when the record shows new ones, and does what its remarks say.
func prepareInterval(n *Node, r *replayer) {
	for _, number := range []int{14, 22, 53} {
		r.doBefore[number] = func() { time.Sleep(time.Second) }
	}
	starts := 0
	r.doRemark = func(note string) bool {
		switch {
		case note == "signal SIGTERM":
			n.Stop()
		case note == "signal SIGKILL":
			n.Kill()
		case strings.HasPrefix(note, "start anvil "):
			if !strings.Contains(note, "--block-time") {
				n.options.BlockTime = -1
			}
			if !strings.Contains(note, "--state") {
				n.options.DumpInterval, n.dumpedBlocks, n.chain = 0, nil, newChain(&n.options, 99, time.Now())
			}
			if starts++; starts > 1 {
				require.NoError(r.t, n.Resume())
			}
		}
		return false
	}
}

// prepareDevChain brings the node into the state in which the record begins: seven blocks with
// transactions.
func prepareDevChain(n *Node, r *replayer) {
	time.Sleep(14 * time.Second)
	n.withLock(func(time.Time) {
		for i, wei := range []int64{0x24079a4b, 0x1f86a702, 0x1b95d222, 0x182317de} {
			n.chain.blocks[4+i].baseFee = big.NewInt(wei)
		}
		n.chain.nextBaseFee = n.chain.head().nextBaseFee()
	})
	r.waitForBlock = func() { time.Sleep(time.Until(n.nextBlock)) }
}

// prepareTracker fills the gap shortly before the tracker looks.
func prepareTracker(n *Node, r *replayer) {
	r.gappedAccount = Dev(1)
	r.doBefore[8] = func() { time.Sleep(7500 * time.Millisecond) }
	r.doBefore[10] = func() { time.Sleep(time.Second) }
	r.doBefore[11] = func() { time.Sleep(4 * time.Second) }
}
