package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const benchmarks = `package a

import "testing"

var kept [][]byte

func BenchmarkMake(b *testing.B) {
	for b.Loop() {
		kept = append(kept[:0]%s)
	}
}
`

// The comparison shows that a change allocates twice as often as its base, and leaves the
// repository as it was.
func TestCompare(t *testing.T) {
	root := t.TempDir()
	git := func(args ...string) string {
		out, err := runCommand(t.Context(), root, "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.org"}, args...)...)
		require.NoError(t, err)
		return string(out)
	}
	write := func(name, text string) {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	once := ", make([]byte, 100)"
	write("go.mod", "module example.org/a\n\ngo 1.26\n")
	write("a/a_test.go", strings.Replace(benchmarks, "%s", once, 1))
	write("b/b_test.go", "package b\n\nfunc notABenchmark() {}\n")
	git("init", "--quiet")
	git("add", ".")
	git("commit", "--quiet", "-m", "base")
	write("a/a_test.go", strings.Replace(benchmarks, "%s", once+once, 1))
	write("c/c_test.go", strings.Replace(benchmarks, "%s", once, 1))

	var out strings.Builder
	c := comparison{root: root, baseRevision: "HEAD", benchPattern: ".", benchTime: "10x", rounds: 6, out: &out}
	require.NoError(t, c.run(t.Context(), nil))
	text := out.String()
	require.Contains(t, text, "c: the base has no benchmarks there\n")
	require.Contains(t, text, "1/6 a base\n1/6 a change\n2/6 a change\n2/6 a base\n")
	require.NotContains(t, text, " b ")
	_, allocs, ok := strings.Cut(text, "allocs/op")
	require.True(t, ok, text)
	require.Contains(t, allocs, "+100.00% (p=0.002 n=6)")
	require.Len(t, strings.Split(strings.TrimSpace(git("worktree", "list")), "\n"), 1)

	c.baseRevision = ""
	require.ErrorContains(t, c.run(t.Context(), nil), "-base")
	c.baseRevision = "no-such-revision"
	require.ErrorContains(t, c.run(t.Context(), nil), "no-such-revision")
}
