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

// TestRecords makes the requests that were made to geth 1.17.8 and anvil 1.7.1, byte by byte
// and in their order, and compares every answer: status, content type, keys, types, texts,
// numbers, and hashes of transactions. Of hashes of blocks, roots and times the type and the
// length are compared. Of answers that a record cuts off, what it has of them and the length are.
// Not compared are the lines in replay.skip, each with its reason, and of an array of a hundred or
// more the answers in between.
func TestRecords(t *testing.T) {
	held := map[string]bool{}
	for _, sc := range []struct {
		file  string
		o     Options
		least int // exchanges and remarks that are compared, so that none is lost
		set   func(n *Node, r *replay)
	}{
		{file: "anvil-on-demand.txt", o: Options{Personality: Anvil, BlockTime: -1, SlotsInAnEpoch: 1}, least: 145},
		{file: "anvil-automine.txt", o: Options{Personality: Anvil, MineDelay: time.Minute}, least: 115, set: automine},
		{file: "anvil-interval-restart.txt", o: Options{Personality: Anvil, BlockTime: time.Second, DumpInterval: 1500 * time.Millisecond}, least: 28, set: interval},
		{file: "geth-dev.txt", o: Options{BlockTime: 2 * time.Second}, least: 146, set: dev},
		{file: "geth-gapped-120.txt", o: Options{BlockTime: 2 * time.Second}, least: 7, set: tracker},
	} {
		held[sc.file] = true
		t.Run(sc.file, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(9000 * 24 * time.Hour) // times had as many digits
				lines := readRecord(t, sc.file)
				sc.o.InMemory = true
				funds := Ether(10_000)
				if strings.HasPrefix(sc.file, "geth") {
					funds = Ether(1000)
				}
				sc.o.Accounts = senders(lines, funds)
				n := Start(t, &sc.o)
				r := &replay{t: t, url: "http://evm.test", client: n.Client(), chainID: n.o.ChainID, gapped: Dev(8), before: map[int]func(){}, skip: map[int]string{}}
				if sc.set != nil {
					sc.set(n, r)
				}
				r.run(lines)
				require.GreaterOrEqual(t, r.held, sc.least)
			})
		})
	}
	files, err := os.ReadDir(filepath.Join("testdata", "nodes"))
	require.NoError(t, err)
	for _, f := range files {
		require.True(t, held[f.Name()], "nobody replays %s", f.Name())
	}
}

// automine has the block of a transaction come when the next request comes, but where the record
// says that the request was faster.
func automine(n *Node, r *replay) {
	const race = "the first of an array was mined before the third was read"
	r.skip[234], r.skip[238], r.skip[239], r.skip[240], r.skip[241] = race, race, race, race, race
	for number := 1; number < 300; number++ {
		if number <= 34 || number > 70 {
			r.before[number] = func() { time.Sleep(2 * time.Minute) }
		}
	}
	r.before[236] = func() { // the array made two blocks there, and makes one here
		time.Sleep(2 * time.Minute)
		n.Mine()
	}
}

// interval has the blocks come when the record shows one, and does what its remarks say.
func interval(n *Node, r *replay) {
	for _, number := range []int{14, 22, 53} {
		r.before[number] = func() { time.Sleep(time.Second) }
	}
	starts := 0
	r.notes = func(note string) bool {
		switch {
		case note == "signal SIGTERM":
			n.Stop()
		case note == "signal SIGKILL":
			n.Kill()
		case strings.HasPrefix(note, "start anvil "):
			if !strings.Contains(note, "--block-time") {
				n.o.BlockTime = -1
			}
			if !strings.Contains(note, "--state") {
				n.o.DumpInterval, n.dumped, n.c = 0, nil, newChain(&n.o, 99, time.Now())
			}
			if starts++; starts > 1 {
				require.NoError(r.t, n.Resume())
			}
		}
		return false
	}
}

// dev is the node as it was when the record begins: seven blocks, which had transactions.
func dev(n *Node, r *replay) {
	time.Sleep(14 * time.Second)
	n.locked(func(time.Time) {
		for i, wei := range []int64{0x24079a4b, 0x1f86a702, 0x1b95d222, 0x182317de} {
			n.c.blocks[4+i].baseFee = big.NewInt(wei)
		}
		n.c.next = n.c.head().nextBaseFee()
	})
	r.pause = func() { time.Sleep(time.Until(n.nextBlock)) }
}

// tracker has the gap filled shortly before the tracker looks.
func tracker(n *Node, r *replay) {
	r.gapped = Dev(1)
	r.before[8] = func() { time.Sleep(7500 * time.Millisecond) }
	r.before[10] = func() { time.Sleep(time.Second) }
	r.before[11] = func() { time.Sleep(4 * time.Second) }
}
