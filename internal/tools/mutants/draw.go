package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// drawn names the folders that statements are drawn from, and the tests that must notice a
// broken statement: packages with a pattern of their tests, tried in turn.
var drawn = []struct {
	dir   string
	tests [][2]string
}{
	{".", [][2]string{{".", "Test.*"}, {"internal/sim", "TestRunner.*|TestOperators.*"}}},
	{"batch", [][2]string{{"batch", "Test.*"}, {"store", "Test.*"}, {"queuer", "Test.*"}}},
	{"batch/autobatch", [][2]string{{"batch/autobatch", "Test.*"}}},
	{"queuer", [][2]string{{"queuer", "Test.*"}, {"internal/sim", "Test.*Runner|TestDecisions"}}},
	{"submitter", [][2]string{{"submitter", "Test.*"}, {"internal/sim", "TestRunner"}}},
	{"monitor", [][2]string{{"monitor", "Test.*"}, {"internal/sim", "TestDecisions|TestRunner"}}},
	{"internal/recorder", [][2]string{{"internal/recorder", "Test.*"}}},
	{"internal/keeper", [][2]string{{"internal/keeper", "Test.*"}}},
	{"internal/pool", [][2]string{{"internal/pool", "Test.*"}}},
	{"internal/await", [][2]string{{".", "Test.*"}, {"batch/autobatch", "TestAwaits.*"}}},
	{"store", [][2]string{{"store", "Test.*"}, {"store/memory", "TestStore"}}},
	{"store/memory", [][2]string{{"store/memory", "Test.*"}}},
	{"store/sqlite", [][2]string{{"store/sqlite", "Test.*"}}},
	{"store/postgres", [][2]string{{"store/postgres", "Test.*"}, {"internal/integration", "TestStore/native$"}, {"internal/integration", "Test.*"}}},
	{"internal/sqlstore", [][2]string{{"internal/sqlstore", "Test.*"}, {"store/sqlite", "Test.*"}, {"internal/integration", "TestStore/native$"}}},
	{"dlt", [][2]string{{"dlt", "Test.*"}, {"dlt/dlttest", "Test.*"}}},
	{"dlt/sawtooth", [][2]string{{"dlt/sawtooth", "Test.*"}}},
	{"dlt/splinter", [][2]string{{"dlt/splinter", "Test.*"}}},
	{"dlt/canton", [][2]string{{"dlt/canton", "Test.*"}}},
	{"dlt/internal/wire", [][2]string{{"dlt/internal/wire", "Test.*"}, {"dlt/sawtooth", "Test.*"}, {"dlt/splinter", "Test.*"}, {"dlt/canton", "Test.*"}}},
}

// statement is a statement that the program can break, and its replacement.
type statement struct {
	dir, file  string
	line       int
	start, end int // of the replaced text, in the file
	new        string
}

// draw returns n statements that no mutant touches, as the seed says.
func draw(root string, seed uint64, n int) ([]statement, error) {
	var all []statement
	for _, d := range drawn {
		files, err := filepath.Glob(filepath.Join(root, d.dir, "*.go"))
		if err != nil {
			return nil, err
		}
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") || filepath.Base(path) == "doc.go" {
				continue
			}
			found, err := statements(root, d.dir, path)
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(n, len(all))], nil
}

// statements returns a file's statements that can be broken: it negates a condition, and
// removes a statement that has an effect.
func statements(root, dir, path string) (all []statement, err error) {
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	rel, err := filepath.Rel(root, path)
	if err != nil {
		return nil, err
	}
	var touched [][2]int
	for _, m := range every() {
		if m.file == filepath.ToSlash(rel) {
			if at := strings.Index(string(src), m.old); at >= 0 {
				touched = append(touched, [2]int{at, at + len(m.old)})
			}
		}
	}
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, path, src, 0)
	if err != nil {
		return nil, err
	}
	add := func(n ast.Node, replace func(text string) string) {
		start, end := set.Position(n.Pos()).Offset, set.Position(n.End()).Offset
		if slices.ContainsFunc(touched, func(t [2]int) bool { return start < t[1] && t[0] < end }) {
			return
		}
		all = append(all, statement{dir: dir, file: filepath.ToSlash(rel), line: set.Position(n.Pos()).Line, start: start, end: end, new: replace(string(src[start:end]))})
	}
	gone := func(string) string { return "" }
	ast.Inspect(f, func(n ast.Node) bool {
		switch s := n.(type) {
		case *ast.IfStmt:
			add(s.Cond, func(text string) string { return "!(" + text + ")" })
		case *ast.AssignStmt:
			if s.Tok != token.DEFINE {
				add(s, gone)
			}
		case *ast.ExprStmt, *ast.IncDecStmt, *ast.SendStmt, *ast.DeferStmt:
			add(n, gone)
		}
		return true
	})
	return all, nil
}

// try breaks the statement and returns its result: "caught", "survived", or the reason why it
// does not break the code.
func (s statement) try(root, tmp string) (string, error) {
	src, err := os.ReadFile(filepath.Join(root, s.file))
	if err != nil {
		return "", err
	}
	old := string(src[s.start:s.end])
	for _, d := range drawn {
		if d.dir != s.dir {
			continue
		}
		for i, t := range d.tests {
			m := mutant{file: s.file, at: s.start, old: old, new: s.new, pkg: t[0], test: t[1], args: []string{"-test.timeout=4m"}}
			err := m.try(root, tmp, nil)
			switch {
			case err == nil:
				return "caught by " + t[0], nil
			case i == 0 && strings.HasPrefix(err.Error(), "does not build"):
				return "does not build", nil
			case !strings.HasPrefix(err.Error(), "survived"):
				return "", err
			}
		}
	}
	return "survived", nil
}

// drawAll breaks n statements one after the other. A person looks at survivors: some change
// nothing that a test could notice.
func drawAll(root string, seed uint64, n int) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	all, err := draw(root, seed, 4*n)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	tried, survived := 0, 0
	fmt.Printf("seed %d\n", seed)
	for _, s := range all {
		if tried == n {
			break
		}
		verdict, err := s.try(root, tmp)
		if err != nil {
			verdict = "error: " + err.Error()
		}
		if verdict != "does not build" {
			tried++
		}
		if verdict == "survived" {
			survived++
		}
		fmt.Printf("%s:%d %q: %s\n", s.file, s.line, s.new, verdict)
	}
	fmt.Printf("%d drawn, %d survived\n", tried, survived)
	return nil
}
