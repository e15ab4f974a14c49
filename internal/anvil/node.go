package anvil

import (
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/dltbatch/dltbatch/internal/binaries"
	"github.com/dltbatch/dltbatch/internal/daemon"
	"github.com/dltbatch/dltbatch/internal/tier"
)

// Node is an anvil, and its folder. One goroutine at a time calls its methods.
type Node struct {
	bin   string
	state string // the file of its state
	port  string
	p     *daemon.Process // nil while it is down
}

// Start starts a node in a folder of the test, whose end stops it: see [Run]. Where there is no
// anvil and none can be brought, the test fails.
func Start(t testing.TB, args ...string) *Node {
	t.Helper()
	tier.Server(t)
	tier.Plain(t) // simulated nodes run with the race detector
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

// Run starts a node whose finalized block is two behind the head, and which keeps its state in a
// file of dir, once a second, unless args have another --state-interval. bin is the program: see
// [binaries.Anvil]. args are more of its arguments. The caller stops the node.
func Run(bin, dir string, args ...string) (*Node, error) {
	n := &Node{bin: bin, state: filepath.Join(dir, "state.json"), port: "0"}
	if err := n.Resume(args...); err != nil {
		return nil, err
	}
	return n, nil
}

const listening = "Listening on "

// Resume starts the node again, with the state of its file. Its address stays.
func (n *Node) Resume(args ...string) error {
	kept := []string{"--slots-in-an-epoch", "1", "--state", n.state}
	if !slices.Contains(args, "--state-interval") {
		kept = append(kept, "--state-interval", "1")
	}
	return n.run(append(kept, args...))
}

// Renew starts the node again as another chain, which keeps no state. Its address stays.
func (n *Node) Renew(args ...string) error { return n.run(args) }

func (n *Node) run(args []string) error {
	cmd := exec.Command(n.bin, slices.Concat([]string{"--host", "127.0.0.1", "--port", n.port}, args)...)
	p, err := daemon.Run(cmd, listening, syscall.SIGTERM)
	if err != nil {
		return err
	}
	n.p = p
	_, addr, _ := strings.Cut(p.Ready(), listening)
	_, port, err := net.SplitHostPort(strings.TrimSpace(addr))
	if err != nil {
		return fmt.Errorf("anvil says %q: %w", p.Ready(), err)
	}
	n.port = port
	return nil
}

// URL returns the address of the node.
func (n *Node) URL() string { return "http://" + net.JoinHostPort("127.0.0.1", n.port) }

// State returns the file in which the node keeps its state. A node that is killed while it writes
// may leave a part of it.
func (n *Node) State() string { return n.state }

// Kill ends the node without a warning.
func (n *Node) Kill() error {
	if n.p == nil {
		return nil
	}
	err := n.p.Crash()
	n.p = nil
	return err
}

// Stop ends the node with a signal, so that it writes its state.
func (n *Node) Stop() {
	if n.p != nil {
		n.p.Stop()
		n.p = nil
	}
}
