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

// Options are the options of a node and its chain.
type Options struct {
	Funds   map[string]*big.Int // the accounts' balances, by address
	BaseFee *big.Int            // of block 0; nil means geth's own for new chains
	// Dev is true if blocks are finalized as by geth --dev: the head is safe, and the finalized
	// block is the last one whose number is a multiple of 32. Otherwise a block is safe with two
	// others on top, and finalized with FinalizedAfter.
	Dev bool
	// FinalizedAfter is how many blocks are on top of a finalized block; 0 means four. It must be
	// more than a test loses or replaces without new blocks in between, because a node never goes
	// back behind a finalized block.
	FinalizedAfter int
	Args           []string // further arguments of geth
}

// Node is a geth, with its folder and its consensus client. Its methods, except URL, must be
// called by one goroutine at a time. Kill loses the states since the node was last stopped. A node
// that was never stopped loses all, and accepts no more blocks, because it wants to get the last
// state from its peers.
type Node struct {
	program string
	folder  string
	options Options
	daemon.Server
	// blocks has the payload of each block. That of block 0 has only its hash.
	blocks     []payload
	buildCount int // how many blocks were built, so that no two are the same
}

// Start starts a node in a temporary folder, and stops it at the test's end. Only make soak starts
// one, because compiling geth takes ten minutes. If there is no geth and none can be compiled, the
// test fails.
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

// StartDev starts a geth --dev as Start does. It makes its blocks by itself.
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
	tier.Plain(t) // runs with the race detector use simulated nodes
	bin, err := binaries.Geth().Bring()
	if err != nil {
		t.Fatalf("no geth to test with: %v", err)
	}
	dir, err = os.MkdirTemp("", "geth") //nolint:usetesting // the test's own folder has a name that is too long
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return bin, dir
}

// Run starts a node with a new chain. bin is the program: see [binaries.Geth]. dir gets its files
// and its socket, so its path must be short. The caller stops the node.
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

// writeGenesis writes block 0: that of geth --dev, with the funds of the options.
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
	// This fork exists on no chain yet.
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

// readyMark is in the output line with the public address. That line comes after the lines with
// the addresses for this package.
const readyMark = " auth=false"

func (n *Node) startProcess() error {
	args := append([]string{"--datadir", n.folder, "--networkid", fmt.Sprint(ChainID), "--syncmode", "full", "--cache", "64",
		"--nodiscover", "--maxpeers", "0", "--nat", "none", "--port", "0", "--authrpc.port", "0", "--ipcpath", n.socket(),
		"--http", "--http.addr", "127.0.0.1", "--http.port", n.Port(), "--http.api", "eth,net,web3,txpool",
		"--miner.gasprice", "1"}, n.options.Args...) // geth --dev has this lowest tip, too
	return n.StartProgram(exec.Command(n.program, args...), readyMark, "endpoint=")
}

func (n *Node) socket() string { return filepath.Join(n.folder, "geth.ipc") }

// Resume starts the node again, at the same address. The consensus client sends it the blocks that
// it has lost, except the last lose blocks of the chain.
func (n *Node) Resume(lose int) error {
	if err := n.startProcess(); err != nil {
		return err
	}
	return n.restoreLostBlocks(lose)
}

// Forget starts the node again, at the same address, with an empty pool: it removes the file in
// which the node keeps the sent transactions.
func (n *Node) Forget() error {
	n.Stop()
	if err := os.Remove(filepath.Join(n.folder, "geth", "transactions.rlp")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return n.Resume(0)
}

func hexBig(n *big.Int) string { return "0x" + n.Text(16) }
