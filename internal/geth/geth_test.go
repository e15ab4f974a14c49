package geth

import (
	"math/big"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/internal/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Check(m)) }

// Run returns an error if the program is not geth.
func TestRunEnds(t *testing.T) {
	_, err := Run("false", t.TempDir(), Options{})
	require.ErrorContains(t, err, "dumpgenesis")
}

func (n *Node) latestAndFinalized(t *testing.T) (number, finalized string) {
	t.Helper()
	for tag, out := range map[string]*string{"latest": &number, "finalized": &finalized} {
		var b struct{ Number string }
		require.NoError(t, n.callMethod(&b, "eth_getBlockByNumber", tag, false))
		*out = b.Number
	}
	return number, finalized
}

// A node that was stopped, or killed, has all blocks again except those that its consensus client
// takes back. It finalizes blocks as its consensus client says, and keeps its address.
func TestGethIsKilled(t *testing.T) {
	n := Start(t, Options{Funds: map[string]*big.Int{"0x00000000000000000000000000000000000000aa": big.NewInt(7)}})
	url := n.URL()
	for range 6 {
		require.NoError(t, n.Mine())
	}
	number, finalized := n.latestAndFinalized(t)
	require.Equal(t, []string{"0x6", "0x2"}, []string{number, finalized})
	n.Stop()
	require.NoError(t, n.Resume(0))
	require.NoError(t, n.Mine())
	for _, lose := range []int{0, 2} {
		require.NoError(t, n.Kill())
		require.NoError(t, n.Kill())
		require.NoError(t, n.Resume(lose))
		number, _ = n.latestAndFinalized(t)
		require.Equal(t, map[int]string{0: "0x7", 2: "0x5"}[lose], number)
	}
	require.NoError(t, n.Mine())
	was := n.blocks[5].hash
	require.NoError(t, n.Reorg(2))
	require.Equal(t, 6, n.Height())
	require.NotEqual(t, was, n.blocks[5].hash)
	require.Error(t, n.Reorg(7))
	require.NoError(t, n.Forget())
	number, finalized = n.latestAndFinalized(t)
	require.Equal(t, []string{"0x6", "0x2"}, []string{number, finalized})
	var funds string
	require.NoError(t, n.callMethod(&funds, "eth_getBalance", "0x00000000000000000000000000000000000000aa", "latest"))
	require.Equal(t, "0x7", funds)
	require.ErrorIs(t, n.callMethod(&funds, "eth_noSuchThing"), errRefused)
	require.Equal(t, url, n.URL())
}
