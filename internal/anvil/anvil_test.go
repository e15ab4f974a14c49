package anvil

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/internal/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Check(m)) }

// The lock file pins one version by its hash, and has no address.
func TestLock(t *testing.T) {
	text, err := lock.ReadFile("npm/package-lock.json")
	require.NoError(t, err)
	require.NotContains(t, string(text), "://")
	var doc struct {
		Packages map[string]struct {
			Version, Integrity string
			HasInstallScript   bool
			Dependencies       map[string]string
		}
	}
	require.NoError(t, json.Unmarshal(text, &doc))
	for name, p := range doc.Packages {
		if name == "" {
			for _, version := range p.Dependencies {
				require.Equal(t, Version, version)
			}
			continue
		}
		require.True(t, strings.HasPrefix(p.Integrity, "sha512-"), name)
		require.False(t, p.HasInstallScript, name)
	}
	require.Len(t, doc.Packages, 2)
}

// The variable comes first, and what it names has to be there.
func TestVariable(t *testing.T) {
	t.Setenv(Variable, "/nowhere/anvil")
	_, err := Find()
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = Program()
	require.ErrorIs(t, err, os.ErrNotExist)
	t.Setenv(Variable, os.Args[0])
	found, err := Find()
	require.NoError(t, err)
	require.Equal(t, os.Args[0], found)
	_, err = Run(found, t.TempDir()) // it says nothing of listening
	require.ErrorContains(t, err, "ended")
}

// Another version on the PATH is left alone, the same one is taken.
func TestAnvilOnThePath(t *testing.T) {
	t.Setenv(Variable, "")
	dir := t.TempDir()
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	script := filepath.Join(dir, "anvil")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\necho anvil Version: 1.0.0\n"), 0o755))
	found, err := Program()
	require.NoError(t, err)
	require.NotEqual(t, script, found)
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\necho anvil Version: "+Version+"\n"), 0o755))
	found, err = Find()
	require.NoError(t, err)
	require.Equal(t, script, found)
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

// A node that is stopped has its blocks afterwards, one that is killed those of its last dump, and
// one that is renewed none.
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
