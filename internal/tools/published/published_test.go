// Package published tests the files that are only used where the project is published: workflows,
// issue forms, and the configuration of the dependency bot. It also lists the licences of all
// modules that an importer links.
package published

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

const root = "../../.."

var writeLicences = flag.Bool("licences.write", false, "write testdata/licences.txt anew")

type workflow struct {
	Name        string
	On          any
	Permissions map[string]string
	Jobs        map[string]struct {
		RunsOn   string `yaml:"runs-on"`
		Timeout  int    `yaml:"timeout-minutes"`
		Strategy struct{ Matrix map[string][]string }
		Steps    []struct {
			Name, Uses, Run string
			With, Env       map[string]string
		}
	}
}

func readYAML(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, into), name)
}

// Each workflow uses only make targets, packages and actions that exist.
func TestWorkflows(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(root, ".github/workflows/*.yml"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	targets := regexp.MustCompile(`\bmake ([a-z-]+)`)
	action := regexp.MustCompile(`^actions/[a-z-]+@v[0-9]+$`)
	pinned := regexp.MustCompile(`\bgo (?:run|install) ([^ ./]+\.[^ ]+)`)
	seen := map[string]bool{}
	for _, file := range files {
		var w workflow
		readYAML(t, file, &w)
		assert.NotEmpty(t, w.Name, file)
		assert.NotNil(t, w.On, file)
		assert.NotEmpty(t, w.Permissions, "%s: a token that may do everything", file)
		require.NotEmpty(t, w.Jobs, file)
		for name, job := range w.Jobs {
			at := file + ": " + name
			assert.NotEmpty(t, job.RunsOn, at)
			assert.Positive(t, job.Timeout, at)
			require.NotEmpty(t, job.Steps, at)
			for _, s := range job.Steps {
				assert.NotEqual(t, s.Uses == "", s.Run == "", "%s: a step uses an action or runs a command", at)
				if s.Uses != "" {
					assert.Regexp(t, action, s.Uses, at)
				}
				for _, m := range targets.FindAllStringSubmatch(s.Run, -1) {
					seen[m[1]] = true
					assert.Regexp(t, regexp.MustCompile(`(?m)^`+m[1]+`:`), string(makefile), "%s: make %s", at, m[1])
				}
				for _, m := range pinned.FindAllStringSubmatch(s.Run, -1) {
					assert.Regexp(t, `@v[0-9]`, m[1], "%s: a program without its version", at)
				}
			}
		}
	}
	for _, want := range []string{"test", "quick", "lint", "soak", "mutants", "fuzz"} {
		assert.True(t, seen[want], "no workflow runs make %s", want)
	}
	var nightly workflow
	readYAML(t, filepath.Join(root, ".github/workflows/nightly.yml"), &nightly)
	soak := nightly.Jobs["soak"].Steps
	assert.Regexp(t, `^make soak PART=\d+`, soak[len(soak)-1].Run, "the whole takes longer than a workflow may")
	assert.Equal(t, []string{"14", "15", "16", "17", "18"}, nightly.Jobs["postgres"].Strategy.Matrix["version"])
}

// The dependency bot watches each module of the repository.
func TestDependabot(t *testing.T) {
	var d struct {
		Version int
		Updates []struct {
			Ecosystem   string `yaml:"package-ecosystem"`
			Directories []string
		}
	}
	readYAML(t, filepath.Join(root, ".github/dependabot.yml"), &d)
	assert.Equal(t, 2, d.Version)
	var watched []string
	for _, u := range d.Updates {
		if u.Ecosystem == "gomod" {
			watched = append(watched, u.Directories...)
		}
	}
	var modules []string
	for _, file := range strings.Fields(commandOutput(t, "git", "ls-files", "go.mod", "*/go.mod")) {
		modules = append(modules, strings.TrimSuffix("/"+strings.TrimSuffix(filepath.Dir(file), "."), "."))
	}
	assert.ElementsMatch(t, modules, watched)
}

// The form for a bug asks for the output of doctor.
func TestIssueForms(t *testing.T) {
	for _, file := range []string{"bug.yml", "wish.yml"} {
		var form struct {
			Name, Description string
			Body              []struct {
				Type, ID    string
				Attributes  struct{ Label, Value string }
				Validations struct{ Required bool }
			}
		}
		readYAML(t, filepath.Join(root, ".github/ISSUE_TEMPLATE", file), &form)
		assert.NotEmpty(t, form.Name)
		assert.NotEmpty(t, form.Description)
		asks := false
		for _, b := range form.Body {
			assert.Contains(t, []string{"markdown", "textarea", "input"}, b.Type)
			assert.NotEmpty(t, b.Attributes.Label+b.Attributes.Value)
			asks = asks || b.Validations.Required && strings.Contains(b.Attributes.Label, "dltbatch doctor")
		}
		assert.Equal(t, file == "bug.yml", asks)
	}
}

// Every module that a program with the library links has a licence that requires no more than a
// copy of its text.
func TestLicences(t *testing.T) {
	var list bytes.Buffer
	for _, name := range linkedModules(t) {
		path, dir, _ := strings.Cut(name, "\t")
		fmt.Fprintf(&list, "%s %s\n", path, licenceName(t, dir))
	}
	file := filepath.Join(root, "testdata/licences.txt")
	if *writeLicences {
		require.NoError(t, os.WriteFile(file, list.Bytes(), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), list.String(), "go test -C internal/tools ./published -licences.write renews the list")
	for line := range strings.Lines(list.String()) {
		_, is, _ := strings.Cut(strings.TrimSpace(line), " ")
		assert.True(t, slices.Contains([]string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT"}, is), line)
	}
}

// linkedModules returns the modules, with their folders, that the library and the command link,
// with cgo and without.
func linkedModules(t *testing.T) []string {
	const list = "go list -deps -json=Module ./..."
	both := commandOutput(t, "env", "CGO_ENABLED=1", "sh", "-c", list) + commandOutput(t, "env", "CGO_ENABLED=0", "sh", "-c", list)
	d := json.NewDecoder(strings.NewReader(both))
	seen := map[string]bool{}
	for {
		var p struct {
			Module *struct {
				Path, Dir string
				Main      bool
			}
		}
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if p.Module != nil && !p.Module.Main {
			seen[p.Module.Path+"\t"+p.Module.Dir] = true
		}
	}
	var all []string
	for m := range seen {
		all = append(all, m)
	}
	slices.Sort(all)
	return all
}

// licenceName returns the name of a module's licence, which it recognizes by words that only this
// licence has.
func licenceName(t *testing.T, dir string) string {
	files, err := filepath.Glob(filepath.Join(dir, "[Ll][Ii][Cc][Ee][Nn][CcSs][Ee]*"))
	require.NoError(t, err)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			continue // a folder with such a name
		}
		text := strings.Join(strings.Fields(string(raw)), " ")
		for _, l := range []struct{ words, name string }{
			{"Apache License Version 2.0", "Apache-2.0"},
			{"Neither the name of", "BSD-3-Clause"},
			{"Redistributions in binary form must reproduce", "BSD-2-Clause"},
			{"Permission to use, copy, modify, and/or distribute", "ISC"},
			{"Permission to use, copy, modify, and distribute", "ISC"},
			{"Permission is hereby granted, free of charge", "MIT"},
		} {
			if strings.Contains(text, l.words) {
				return l.name
			}
		}
	}
	return "unknown"
}

func commandOutput(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = root
	out, err := cmd.Output()
	require.NoError(t, err)
	return string(out)
}
