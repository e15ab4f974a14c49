package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const code = `package p

type state int

const (
	open state = iota
	shut
)

type when int

func (w when) Before(when) bool { return true }

func f(a, b int, err error) (state, error) {
	if a < b && b != 0 {
		a, b = h()
	}
	if when(a).Before(when(b)) {
		return shut, err
	}
	const q = "SELECT x WHERE y < 5 AND z = 1 FOR UPDATE"
	g(q, struct{ n int }{n: a})
	return open, nil
}

func h() (int, int) { return 1, 2 }

func g(string, struct{ n int }) {}
`

func TestChanges(t *testing.T) {
	tr := &tree{fileSet: token.NewFileSet()}
	file, err := parser.ParseFile(tr.fileSet, "/p.go", code, parser.SkipObjectResolution)
	require.NoError(t, err)
	tr.root = "/"
	p := &pkg{dir: ".", path: "p", files: map[string]*ast.File{"/p.go": file}, src: map[string][]byte{"/p.go": []byte(code)}}
	tr.pkgs = map[string]*pkg{".": p}
	all, err := tr.changes(p)
	require.NoError(t, err)
	made := map[string]bool{}
	for _, c := range all {
		require.Equal(t, c.oldText, code[c.start:c.start+len(c.oldText)])
		made[c.function+" "+c.operator+": "+c.oldText+" -> "+c.newText] = tr.checkBuilds("p.go", c.apply([]byte(code))) == nil
	}
	for _, want := range []string{
		"f boundary: < -> <=",
		"f negation: != -> ==",
		"f condition: a < b -> (true || a < b)",
		"f condition: a < b && b != 0 -> false && (a < b && b != 0)",
		"f constant: 0 -> (0+1)",
		"f results: a, b -> b, a",
		"h results: 1, 2 -> 2, 1",
		"f statement: a, b = h() -> ",
		"f boundary: when(a).Before(when(b)) -> !when(b).Before(when(a))",
		"f arguments: a -> 0",
		"f return: return shut, err -> ",
		"f error: err -> nil",
		"f constant: shut -> open",
		"f boundary:  <  ->  <= ",
		"f condition: AND z = 1 FOR -> FOR",
		"f statement: FOR UPDATE -> ",
		"f field: n: a -> ",
		"f statement: g(q, struct{ n int }{n: a}) -> ",
		"when.Before constant: true -> false",
	} {
		require.Contains(t, made, want)
	}
	require.True(t, made["f boundary: < -> <="])
	require.False(t, made["f negation: Before -> After"], "there is no After")
}

func TestSurvivors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "survivors.txt")
	require.NoError(t, os.WriteFile(path, []byte("# Words.\n\np f boundary\n- a < b\n+ a <= b\nBoth are empty.\n\np f boundary #2\n- a < b\n+ a <= b\nGone.\n"), 0o600))
	s, err := readSurvivors(path)
	require.NoError(t, err)
	first := change{function: "f", operator: "boundary", oldText: "a  <\n b", newText: "a <= b", occurrence: 1}
	other := change{function: "g", operator: "boundary", oldText: "a < b", newText: "a <= b", occurrence: 1}
	require.Equal(t, []change{other}, s.leaveOut("p", []change{first, other}))
	stale := s.staleEntries(func(dir string) bool { return dir == "p" })
	require.Len(t, stale, 1)
	require.ErrorContains(t, stale[0], "line 8")
	require.NoError(t, os.WriteFile(path, []byte("p f boundary\n- a\n+ b\n"), 0o600))
	_, err = readSurvivors(path)
	require.ErrorContains(t, err, "reason")
}
