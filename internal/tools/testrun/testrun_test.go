package main

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A test that is skipped in one run has to pass in another, unless it says that make soak runs it. In
// a quick run it may also say that it takes long.
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
		"a part that a store has": {events: skip("absent: Pruner")},
	} {
		t.Run(name, func(t *testing.T) {
			total := &results{}
			report(strings.NewReader(c.events), total)
			if err := total.check(c.quick); c.fails {
				require.ErrorContains(t, err, "TestIt was skipped")
			} else {
				require.NoError(t, err)
			}
		})
	}
}

// The plan of make test has every module with tests, but for these.
func TestAllModulesAreRun(t *testing.T) {
	left := map[string]bool{
		"internal/lint":           true, // has no code
		"internal/browser":        true, // make browser
		"dlt/evm/internal/oracle": true, // make fuzz
	}
	for _, stage := range plans["test"]() {
		for _, line := range stage {
			for _, r := range line {
				if r.args[0] == "test" {
					left[r.module] = true
				}
			}
		}
	}
	require.NoError(t, filepath.WalkDir("../"+root, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.Name() == "go.mod" {
			module, err := filepath.Rel("../"+root, filepath.Dir(path))
			require.NoError(t, err)
			require.True(t, left[module], module)
		}
		return err
	}))
}
