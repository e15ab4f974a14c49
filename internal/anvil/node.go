package anvil

import (
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/dltbatch/dltbatch/internal/binaries"
	"github.com/dltbatch/dltbatch/internal/daemon"
	"github.com/dltbatch/dltbatch/internal/tier"
)

// Node is an anvil with its folder. Its methods must be called by one goroutine at a time.
type Node struct {
	program   string
	stateFile string // the file in which the node keeps its state
	daemon.Server
}

// Start starts a node in a folder of the test, and stops it at the test's end: see [Run]. If there
// is no anvil and none can be downloaded, the test fails.
func Start(t testing.TB, args ...string) *Node {
	t.Helper()
	tier.Server(t)
	tier.Plain(t) // runs with the race detector use simulated nodes
	bin, err := binaries.Anvil().Bring()
	if err != nil {
		t.Fatalf("no anvil to test with: %v", err)
	}
	n, err := Run(bin, t.TempDir(), args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Stop)
	return n
}

// Run starts a node whose finalized block is two blocks behind the head. It keeps its state in a
// file of dir, and writes the file once a second, unless args have another --state-interval. bin
// is the program: see [binaries.Anvil]. args are further arguments. The caller stops the node.
func Run(bin, dir string, args ...string) (*Node, error) {
	n := &Node{program: bin, stateFile: filepath.Join(dir, "state.json")}
	if err := n.Resume(args...); err != nil {
		return nil, err
	}
	return n, nil
}

const listeningPrefix = "Listening on "

// Resume starts the node again with the state in its file, at the same address.
func (n *Node) Resume(args ...string) error {
	kept := []string{"--slots-in-an-epoch", "1", "--state", n.stateFile}
	if !slices.Contains(args, "--state-interval") {
		kept = append(kept, "--state-interval", "1")
	}
	return n.startProcess(append(kept, args...))
}

// Renew starts the node again as another chain, without a state file, at the same address.
func (n *Node) Renew(args ...string) error { return n.startProcess(args) }

func (n *Node) startProcess(args []string) error {
	cmd := exec.Command(n.program, slices.Concat([]string{"--host", "127.0.0.1", "--port", n.Port()}, args)...)
	return n.StartProgram(cmd, listeningPrefix, listeningPrefix)
}

// StateFile returns the file in which the node keeps its state. If the node is killed while it
// writes the file, only a part of the state may be in it.
func (n *Node) StateFile() string { return n.stateFile }
