package anvil

import (
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/internal/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Check(m)) }

// Run returns an error if the program ends before it listens.
func TestRunEnds(t *testing.T) {
	_, err := Run(os.Args[0], t.TempDir())
	require.ErrorContains(t, err, "ended")
}

func ask(t *testing.T, n *Node, method string) string {
	t.Helper()
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Post(n.URL(), "application/json",
		strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":[]}`))
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return string(text)
}

// A stopped node has all its blocks when it resumes, a killed one has those of its last dump, and
// a renewed one has none.
func TestAnvilIsKilled(t *testing.T) {
	n := Start(t, "--no-mining", "--state-interval", "3600")
	url := n.URL()
	ask(t, n, "evm_mine")
	n.Stop()
	require.NoError(t, n.Resume("--no-mining", "--state-interval", "3600"))
	ask(t, n, "evm_mine")
	require.Contains(t, ask(t, n, "eth_blockNumber"), "0x2")
	require.NoError(t, n.Kill())
	require.NoError(t, n.Kill())
	require.NoError(t, n.Resume("--no-mining"))
	require.Contains(t, ask(t, n, "eth_blockNumber"), "0x1")
	require.NoError(t, n.Kill())
	require.NoError(t, n.Renew("--no-mining"))
	require.Contains(t, ask(t, n, "eth_blockNumber"), "0x0")
	require.Equal(t, url, n.URL())
}
