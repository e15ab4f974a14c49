package geth

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dltbatch/dltbatch/internal/binaries"
	"github.com/dltbatch/dltbatch/internal/daemon"
	"github.com/dltbatch/dltbatch/internal/tier"
)

// ChainID is the id of the nodes' chains.
const ChainID = 1337

// Options are about a node and its chain.
type Options struct {
	Funds   map[string]*big.Int // of accounts, by address
	BaseFee *big.Int            // of block 0; nil is geth's own for new chains
	// Dev says that blocks are final as those of geth --dev: the head is safe, and finalized is
	// the last one whose number is a multiple of 32. Else a block is safe after two others, and
	// finalized after FinalizedAfter.
	Dev bool
	// FinalizedAfter is the number of blocks on a finalized block; 0 means four. It is above the
	// number of blocks that a test loses and replaces without new ones between: no node goes back
	// behind a finalized block.
	FinalizedAfter int
	Args           []string // more arguments of geth
}

// Node is a geth, its folder, and its consensus client. One goroutine at a time calls its methods,
// except URL. Kill loses the states since the node was last stopped. One that was never stopped
// loses all, and takes no block any more, since it wants to get the last state from its peers.
type Node struct {
	program string
	folder  string
	options Options
	daemon.Server
	// blocks has the payload of each block; that of block 0 has its hash only.
	blocks     []payload
	buildCount int // blocks
}

// Start starts a node in a temporary folder. The end of the test stops it. Only make soak starts
// one: to compile geth takes ten minutes. Where there is no geth and none can be brought, the test
// fails.
func Start(t testing.TB, o Options) *Node {
	t.Helper()
	bin, dir := prepareNode(t)
	n, err := Run(bin, dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Stop)
	return n
}

// StartDev is Start for a geth --dev, which makes its blocks by itself.
func StartDev(t testing.TB, args ...string) (url string) {
	t.Helper()
	bin, dir := prepareNode(t)
	n := &Node{program: bin, folder: dir, options: Options{Args: append([]string{"--dev"}, args...)}}
	if err := n.startProcess(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Stop)
	return n.URL()
}

func prepareNode(t testing.TB) (bin, dir string) {
	t.Helper()
	tier.Soak(t, "to compile geth takes ten minutes")
	tier.Plain(t) // simulated nodes run with the race detector
	bin, err := binaries.Geth().Bring()
	if err != nil {
		t.Fatalf("no geth to test with: %v", err)
	}
	dir, err = os.MkdirTemp("", "geth") //nolint:usetesting // the folder of the test has a name that is too long
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return bin, dir
}

// Run starts a node with a new chain. bin is the program: see [binaries.Geth]. dir has its files
// and its socket, so that the path is short. The caller stops the node.
func Run(bin, dir string, o Options) (*Node, error) {
	n := &Node{program: bin, folder: dir, options: o}
	if err := n.writeGenesis(); err != nil {
		return nil, err
	}
	if err := n.startProcess(); err != nil {
		return nil, err
	}
	var first struct{ Hash, Timestamp string }
	if err := n.callMethod(&first, "eth_getBlockByNumber", "0x0", false); err != nil {
		n.Stop()
		return nil, err
	}
	n.blocks = []payload{{hash: first.Hash, timestamp: first.Timestamp}}
	if err := n.setHead(0); err != nil {
		n.Stop()
		return nil, err
	}
	return n, nil
}

// writeGenesis writes block 0: that of geth --dev, with the accounts' funds.
func (n *Node) writeGenesis() error {
	out, err := exec.Command(n.program, "--dev", "dumpgenesis").Output()
	if err != nil {
		return fmt.Errorf("geth --dev dumpgenesis: %w", err)
	}
	var genesis, config map[string]json.RawMessage
	var alloc map[string]any
	err = json.Unmarshal(out, &genesis)
	if err = errors.Join(err, json.Unmarshal(genesis["config"], &config), json.Unmarshal(genesis["alloc"], &alloc)); err != nil {
		return fmt.Errorf("geth --dev dumpgenesis: %w: %s", err, out)
	}
	// A fork that no chain has yet.
	maps.DeleteFunc(config, func(name string, _ json.RawMessage) bool { return name == "bogotaTime" || name == "amsterdamTime" })
	for address, wei := range n.options.Funds {
		alloc[strings.TrimPrefix(address, "0x")] = map[string]string{"balance": hexBig(wei)}
	}
	if genesis["config"], err = json.Marshal(config); err != nil {
		return err
	}
	if genesis["alloc"], err = json.Marshal(alloc); err != nil {
		return err
	}
	if n.options.BaseFee != nil {
		genesis["baseFeePerGas"] = json.RawMessage(`"` + hexBig(n.options.BaseFee) + `"`)
	}
	text, err := json.Marshal(genesis)
	if err != nil {
		return err
	}
	file := filepath.Join(n.folder, "genesis.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return err
	}
	if out, err := exec.Command(n.program, "--datadir", n.folder, "init", file).CombinedOutput(); err != nil {
		return fmt.Errorf("geth init: %w: %s", err, out)
	}
	return nil
}

// readyMark is on the line that has the address for everybody, which comes after those for this
// package.
const readyMark = " auth=false"

func (n *Node) startProcess() error {
	args := append([]string{"--datadir", n.folder, "--networkid", fmt.Sprint(ChainID), "--syncmode", "full", "--cache", "64",
		"--nodiscover", "--maxpeers", "0", "--nat", "none", "--port", "0", "--authrpc.port", "0", "--ipcpath", n.socket(),
		"--http", "--http.addr", "127.0.0.1", "--http.port", n.Port(), "--http.api", "eth,net,web3,txpool",
		"--miner.gasprice", "1"}, n.options.Args...) // the lowest tip is that of geth --dev
	return n.StartProgram(exec.Command(n.program, args...), readyMark, "endpoint=")
}

func (n *Node) socket() string { return filepath.Join(n.folder, "geth.ipc") }

// Resume starts the node again, without the last blocks of its chain, as many as lose says: the
// consensus client hands it those before them that it has lost. Its address stays.
func (n *Node) Resume(lose int) error {
	if err := n.startProcess(); err != nil {
		return err
	}
	return n.restoreLostBlocks(lose)
}

// Forget starts the node again with an empty pool: the file in which it keeps the transactions
// that it was sent is gone. Its address stays.
func (n *Node) Forget() error {
	n.Stop()
	if err := os.Remove(filepath.Join(n.folder, "geth", "transactions.rlp")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return n.Resume(0)
}

func hexBig(n *big.Int) string { return "0x" + n.Text(16) }
