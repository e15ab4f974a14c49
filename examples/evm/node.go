package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/dlt/evm/evmtest"
	"github.com/dltbatch/dltbatch/internal/anvil"
	"github.com/dltbatch/dltbatch/internal/binaries"
)

// All times are scaled down by the same factor, so that minutes of a chain take seconds. A block
// counts as deep once a reorganization (3 blocks) and a kill (all blocks of the second since the
// node last wrote its state) together cannot remove it.
const (
	blockTime  = 250 * time.Millisecond
	depth      = 10
	reorgDepth = 3
)

const (
	anyNode       = "any"
	anvilNode     = "anvil"
	simulatedNode = "simulated"
)

// node is a node of a chain that makes blocks on request.
type node interface {
	URL() string
	Kill() error   // sends SIGKILL
	Resume() error // starts the node again after Kill, at the same address
	Stop()
}

// realNode is a real anvil.
type realNode struct{ *anvil.Node }

func (n realNode) Resume() error { return n.Node.Resume(mineOnRequest) }

const mineOnRequest = "--no-mining"

// simNode is a simulated node with the interface of anvil.
type simNode struct{ *evmtest.Node }

func (n simNode) Kill() error { n.Node.Kill(); return nil }
func (n simNode) Stop()       { n.Close() }

// startNode starts a node. what describes it in words.
func startNode(kind string, install bool, dir string) (n node, what string, err error) {
	if kind != anyNode && kind != anvilNode && kind != simulatedNode {
		return nil, "", fmt.Errorf("-node %q: want %s, %s or %s", kind, anyNode, anvilNode, simulatedNode)
	}
	what = "a simulated node"
	if kind != simulatedNode {
		find := binaries.Anvil().Find
		if install {
			find = binaries.Anvil().Bring
		}
		bin, err := find()
		switch {
		case err == nil:
			started, err := anvil.Run(bin, dir, mineOnRequest)
			if err != nil {
				return nil, "", err
			}
			return realNode{started}, "anvil, a real node,", nil
		case kind == anvilNode || !errors.Is(err, binaries.ErrMissing):
			return nil, "", fmt.Errorf("%w\n-install brings it from npm, and -node %s does without", err, simulatedNode)
		}
		what = "a simulated node (anvil is not installed; -install gets it)"
	}
	started, err := evmtest.Listen(&evmtest.Options{
		Personality: evmtest.Anvil, BlockTime: -1, SlotsInAnEpoch: 1, DumpInterval: time.Second,
	})
	if err != nil {
		return nil, "", err
	}
	return simNode{started}, what, nil
}
