package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A test that is skipped in one run has to pass in another, unless it says that make soak runs it.
// In a quick run it may also say that it takes long.
func TestNothingIsSkippedSilently(t *testing.T) {
	const pass = `{"Action":"pass","Package":"p","Test":"TestIt"}`
	skip := func(text string) string {
		return `{"Action":"output","Package":"p","Test":"TestIt","Output":"    it_test.go:7: ` + text + `\n"}
			{"Action":"skip","Package":"p","Test":"TestIt"}`
	}
	for name, c := range map[string]struct {
		events string
		quick  bool
		fails  bool
	}{
		"no word of tier":         {events: skip("not today") + pass, fails: true},
		"plain, and run":          {events: skip("tier: plain") + pass},
		"plain, and not run":      {events: skip("tier: plain"), fails: true},
		"soak":                    {events: skip("tier: soak: it takes a day")},
		"long":                    {events: skip("tier: long"), fails: true},
		"long in a quick run":     {events: skip("tier: long"), quick: true},
		"server in a quick run":   {events: skip("tier: server"), quick: true},
		"instead, and run":        {events: skip("tier: instead: TestOther/a b") + `{"Action":"pass","Package":"p","Test":"TestOther/a b"}`},
		"instead, and not run":    {events: skip("tier: instead: TestOther") + pass, fails: true},
		"instead, elsewhere":      {events: skip("tier: instead: TestOther") + `{"Action":"pass","Package":"q","Test":"TestOther"}`, fails: true},
		"a part that a store has": {events: skip("absent: store.CanPrune")},
	} {
		t.Run(name, func(t *testing.T) {
			total := &results{}
			_, err := report(strings.NewReader(c.events), total)
			require.NoError(t, err)
			if err := total.check(c.quick); c.fails {
				require.ErrorContains(t, err, "TestIt was skipped")
			} else {
				require.NoError(t, err)
			}
		})
	}
}

// A line that is not an event is an error, because the events after it are lost.
func TestEventsAreRead(t *testing.T) {
	total := &results{}
	n, err := report(strings.NewReader(`{"Action":"pass","Package":"p","Test":"TestIt"}`+"\npanic\n"), total)
	require.ErrorContains(t, err, "events")
	require.Equal(t, testCounts{passed: 1}, n)
}

// make test fails if no run reports a test.
func TestNoTestIsForgotten(t *testing.T) {
	folder := t.TempDir()
	write := func(file, text string) {
		file = filepath.Join(folder, file)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	write("a_test.go", "package a_test\n\nfunc TestMain(m *testing.M) {}\n\nfunc Testament() {}\n\nfunc TestIt(t *testing.T) {\n}\n")
	write("b/b_test.go", "//go:build never\n\npackage b\n\nfunc FuzzIt(f *testing.F) {\n}\n\nfunc Test(t *testing.T) {}\n")
	write("internal/browser/b_test.go", "package browser\n\nfunc TestPages(t *testing.T) {\n}\n")
	total := &results{}
	total.pass(test{modules + "/b", "TestIt"})
	err := total.unseen(folder)
	require.EqualError(t, err, modules+" TestIt ended in no run: a_test.go\n"+
		modules+"/b FuzzIt ended in no run: b/b_test.go\n"+modules+"/b Test ended in no run: b/b_test.go")
	total.pass(test{modules, "TestIt"})
	total.pass(test{modules + "/b", "FuzzIt"})
	total.skip(test{modules + "/b", "Test"}, "tier: plain")
	require.NoError(t, total.unseen(folder))
}

// The plan of make test contains every module with tests, except those that run elsewhere.
func TestAllModulesAreRun(t *testing.T) {
	run := map[string]bool{}
	for _, stage := range commandPlans["test"]() {
		for _, line := range stage {
			for _, r := range line {
				if r.args[0] == "test" {
					run[r.module] = true
				}
			}
		}
	}
	require.NoError(t, filepath.WalkDir("../"+root, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.Name() == "go.mod" {
			module, err := filepath.Rel("../"+root, filepath.Dir(path))
			require.NoError(t, err)
			require.NotEqual(t, run[module], modulesLeftOut[module] != "", module)
		}
		return err
	}))
}
