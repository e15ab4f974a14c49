package dltbatch_test

import (
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/internal/tier"
)

// Comments and pages point to a page of this repository, and to a heading of it, in one form:
// docs/PAGE.md#heading. Pages also have Markdown links. TestReferences follows all of them.
func TestReferences(t *testing.T) {
	tier.Plain(t)
	broken, followed, err := checkReferences(os.DirFS("."))
	require.NoError(t, err)
	assert.Empty(t, broken)
	assert.Greater(t, followed, 300, "references that were found: is one of the patterns wrong?")
}

// references finds each kind of broken reference.
func TestBrokenReferencesAreSeen(t *testing.T) {
	page := "# Page\n\n## What is *it*, `really`?\n\n```\n## no heading\n```\n\n### Promise 1: durable\n"
	for text, want := range map[string]string{
		"// see docs/page.md#what-is-it-really.":      "",
		"// see docs/page.md, promise 1":              "",
		"// see docs/nowhere.md":                      "no docs/nowhere.md",
		"// see docs/page.md#gone":                    "no heading #gone in docs/page.md",
		"// see docs/page.md#no-heading":              "no heading #no-heading in docs/page.md",
		"// Promise 2: order":                         "no promise 2 in docs/design.md",
		"// the rule of " + "design section 3":        "is in no page of this repository",
		"// a fact of " + "ledgers/sawtooth.md B5":    "is in no page of this repository",
		"// a word of " + "spec/001":                  "is in no page of this repository",
		"[x](docs/page.md#what-is-it-really)":         "",
		"[x](https://example.com/none) [y](#title)":   "",
		"![x](docs/page.svg)":                         "no docs/page.svg",
		"a [link\nof two lines](page.md)":             "no page.md",
		"[x](docs/page.md#page) and [y](#elsewhere)":  "no heading #elsewhere in README.md",
		"``` text\n[in a block](nowhere.md)\n```\n\n": "",
	} {
		name := "x.go"
		if !strings.HasPrefix(text, "//") {
			name, text = "README.md", "# Title\n\n"+text
		}
		broken, _, err := checkReferences(fstest.MapFS{
			"docs/page.md": {Data: []byte(page)}, "docs/design.md": {Data: []byte(page)}, name: {Data: []byte(text)},
		})
		require.NoError(t, err)
		if want == "" {
			assert.Empty(t, broken, text)
		} else if assert.Len(t, broken, 1, text) {
			assert.Contains(t, broken[0], want)
		}
	}
}

var (
	pageReference    = regexp.MustCompile(`(?:^|[^\w.-])(docs/[\w./-]+\.md)(#[a-z0-9-]*[a-z0-9])?`)
	markdownLink     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	promiseReference = regexp.MustCompile(`\b[Pp]romise (\d+)\b`)
	foreignReference = regexp.MustCompile(`\b[Dd]esign (section|decision)s? \d|(^|[^/])ledgers/[\w-]+\.md|\bspec/0\d\d`)
	heading          = regexp.MustCompile(`^#+ (.*)$`)
	notInSlug        = regexp.MustCompile(`[^\w\- ]`)
)

// checkReferences returns the references in fsys that lead nowhere, and the number of references
// followed.
func checkReferences(fsys fs.FS) (broken []string, followed int, err error) {
	headings := map[string][]string{} // of each page, as GitHub writes them in links
	of := func(page string) []string {
		text, err := fs.ReadFile(fsys, page)
		if headings[page] == nil && err == nil {
			for line := range linesWithoutCode(string(text)) {
				if h := heading.FindStringSubmatch(line); h != nil {
					plain := notInSlug.ReplaceAllString(strings.ToLower(h[1]), "")
					headings[page] = append(headings[page], strings.ReplaceAll(plain, " ", "-"))
				}
			}
		}
		return headings[page]
	}
	err = fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		switch base := path.Base(name); {
		case err != nil:
			return err
		case d.IsDir() && (base == "testdata" || name != "." && strings.HasPrefix(base, ".")):
			return fs.SkipDir
		case d.IsDir() || name == "references_test.go":
			return nil
		case base != "Makefile" && !slices.Contains([]string{".go", ".md", ".sql", ".proto", ".yaml"}, path.Ext(name)):
			return nil
		}
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		lines := strings.SplitSeq(string(text), "\n")
		if path.Ext(name) == ".md" {
			lines = linesWithoutCode(string(text))
		}
		fail := func(format string, args ...any) { broken = append(broken, name+": "+fmt.Sprintf(format, args...)) }
		follow := func(page, slug string) {
			followed++
			if _, err := fs.Stat(fsys, page); err != nil {
				fail("no %s", page)
			} else if slug != "" && !slices.Contains(of(page), slug) {
				fail("no heading #%s in %s", slug, page)
			}
		}
		for line := range lines {
			if path.Ext(name) == ".md" && strings.Contains(line, "](") {
				for _, m := range markdownLink.FindAllStringSubmatch(line, -1) {
					switch page, slug, _ := strings.Cut(m[1], "#"); {
					case strings.Contains(page, ":"): // an address on another site
					case page == "":
						follow(name, slug)
					default:
						follow(path.Join(path.Dir(name), page), slug)
					}
				}
				line = markdownLink.ReplaceAllString(line, "")
			}
			if !strings.Contains(line, "docs/") && !strings.Contains(line, "romise ") && !strings.Contains(line, "esign ") &&
				!strings.Contains(line, "ledgers/") && !strings.Contains(line, "spec/") {
				continue // the patterns below are slow
			}
			for _, m := range pageReference.FindAllStringSubmatch(line, -1) {
				follow(m[1], strings.TrimPrefix(m[2], "#"))
			}
			for _, m := range promiseReference.FindAllStringSubmatch(line, -1) {
				followed++
				if !slices.ContainsFunc(of("docs/design.md"), func(slug string) bool { return strings.HasPrefix(slug, "promise-"+m[1]+"-") }) {
					fail("no promise %s in docs/design.md", m[1])
				}
			}
			for _, m := range foreignReference.FindAllString(line, -1) {
				fail("%q is in no page of this repository", m)
			}
		}
		return nil
	})
	return broken, followed, err
}

// linesWithoutCode returns the lines of a page without its blocks of code.
func linesWithoutCode(page string) iter.Seq[string] {
	return func(yield func(string) bool) {
		code := false
		for line := range strings.SplitSeq(page, "\n") {
			if strings.HasPrefix(line, "```") {
				code = !code
			} else if !code && !yield(line) {
				return
			}
		}
	}
}

// The tables below "Where it is decided" have one row for each question, and name functions that
// exist.
func TestTableOfDecisions(t *testing.T) {
	tier.Plain(t)
	page, err := os.ReadFile("docs/architecture.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(page), "## Where it is decided\n")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n## ")
	code, err := goFiles(os.DirFS("."))
	require.NoError(t, err)
	wrong, named := checkDecisions(table, code)
	assert.Empty(t, wrong)
	assert.Greater(t, named, 80, "names in the tables")
}

func TestWrongTableOfDecisionsIsSeen(t *testing.T) {
	code := map[string]string{
		"store/row.go":  "package store\n\ntype Row struct{}\n\nfunc (r Row) Apply() {}\n\nconst (\n\tFew = 1\n)\n\nconst most = 9\n",
		"store/lane.go": "package store\n\nfunc Plan() {}\n",
	}
	for cell, want := range map[string]string{
		"`store/row.go:Row.Apply`":                    "",
		"`store/lane.go:Plan`, `store/row.go:Few`":    "",
		"`store/row.go:most`":                         "",
		"`store/lane.go`":                             "",
		"`store`":                                     "",
		"`gone.go`":                                   "no gone.go",
		"`internal/gone`":                             "no internal/gone",
		"`store/lane.go:Apply`":                       "no Apply in store/lane.go",
		"`Plan` in `store/lane.go`":                   "want `file:function`",
		"`store/lane.go`" + strings.Repeat(" ", 200):  "is longer than one line",
		"`store/lane.go:Plan`, which asks a strategy": "want `file:function`",
	} {
		wrong, _ := checkDecisions("| question | where |\n|---|---|\n| who? | "+cell+" |\n", code)
		if want == "" {
			assert.Empty(t, wrong, cell)
		} else if assert.NotEmpty(t, wrong, cell) {
			assert.Contains(t, wrong[0], want)
		}
	}
}

// declaration is a line that declares a function, a method, a type, a field, a variable or a
// constant.
var declaration = regexp.MustCompile(`(?m)^(?:func (?:\([^)]*\) )?|type |var |const |\t+)([A-Za-z]\w*)(?:[(\[ ,]|$)`)

// checkDecisions returns the mistakes in tables of decisions, and how many places in the code they
// name.
func checkDecisions(tables string, code map[string]string) (wrong []string, named int) {
	folders := map[string]bool{}
	for file := range code {
		folders[path.Dir(file)] = true
	}
	place := regexp.MustCompile("^`([a-z0-9_/]+(?:\\.go)?)(?::([A-Za-z.]+))?`$")
	for row := range strings.SplitSeq(tables, "\n") {
		question, where, ok := strings.Cut(strings.Trim(row, "| "), " | ")
		if !ok || question == "question" {
			continue
		}
		fail := func(format string, args ...any) { wrong = append(wrong, question+": "+fmt.Sprintf(format, args...)) }
		if len(row) > 180 {
			fail("is longer than one line: %d characters", len(row))
		}
		for one := range strings.SplitSeq(where, ", ") {
			m := place.FindStringSubmatch(one)
			if m == nil {
				fail("want `file:function`, got %s", one)
				continue
			}
			named++
			file, name := m[1], m[2][strings.LastIndex(m[2], ".")+1:]
			switch text, is := code[file]; {
			case !is && !folders[file]:
				fail("no %s", file)
			case name != "" && !slices.ContainsFunc(declaration.FindAllStringSubmatch(text, -1), func(d []string) bool { return d[1] == name }):
				fail("no %s in %s", name, file)
			}
		}
	}
	return wrong, named
}

// The code and the tests that docs/field.md names exist.
func TestFieldPage(t *testing.T) {
	tier.Plain(t)
	page, err := os.ReadFile("docs/field.md")
	require.NoError(t, err)
	code, err := goFiles(os.DirFS("."))
	require.NoError(t, err)
	wrong, tests := checkFieldPage(string(page), code)
	assert.Empty(t, wrong)
	assert.Greater(t, tests, 60, "tests on the page")
}

func TestWrongFieldPageIsSeen(t *testing.T) {
	code := map[string]string{
		"row.go":              "package p\n\nfunc Plan() {}\n",
		"row_test.go":         "package p\n\nfunc TestPlan(t *testing.T) {}\n",
		"suite/suite.go":      "package suite\n\nvar all = []string{\"a case\"}\n",
		"store/store_test.go": "package store\n\nfunc TestStore(t *testing.T) {}\n",
	}
	for row, want := range map[string]string{
		"`Plan` in `row.go` | root: `TestPlan`; store: `TestStore`": "",
		"`Plan` in `row.go` | root, store: `TestPlan`":              "no TestPlan in store",
		"`Plan` in `row.go` | suite: `a case`":                      "",
		"`Plan` in `row.go` | suite: `b case`":                      "no b case in suite",
		"`Gone` in `row.go` | root: `TestPlan`":                     "no Gone in row.go",
		"`Plan` in `row.go` | none":                                 "no test",
	} {
		wrong, _ := checkFieldPage("| kind | public reports | rule | test |\n|---|---|---|---|\n| k | a/b#1 | "+row+" |\n", code)
		if want == "" {
			assert.Empty(t, wrong, row)
		} else if assert.NotEmpty(t, wrong, row) {
			assert.Contains(t, wrong[0], want)
		}
	}
}

// checkPointers returns the wrong names in a table whose second column names functions and files
// in sentences. named is the number of names.
func checkPointers(table string, code map[string]string) (wrong []string, named int) {
	declared := map[string]map[string]bool{} // by file; "" has the names of all files
	folders, bases := map[string]bool{}, map[string][]string{}
	for file, text := range code {
		names := map[string]bool{}
		for _, m := range declaration.FindAllStringSubmatch(text, -1) {
			names[m[1]] = true
		}
		declared[file] = names
		folders[path.Dir(file)], folders[path.Base(path.Dir(file))] = true, true
		bases[path.Base(file)] = append(bases[path.Base(file)], file)
	}
	declares := func(file, name string) bool {
		name = name[strings.LastIndex(name, ".")+1:]
		if file == "" {
			return slices.ContainsFunc(slices.Collect(maps.Values(declared)), func(names map[string]bool) bool { return names[name] })
		}
		return declared[file][name]
	}
	quoted := regexp.MustCompile("`([^`]+)`")
	pairs := []*regexp.Regexp{
		regexp.MustCompile("`(?P<name>[A-Za-z.]+)` in `(?P<file>[a-z/]+\\.go)`"),
		regexp.MustCompile("`(?P<file>[a-z/]+\\.go)`: `(?P<name>[A-Za-z.]+)`"),
	}
	for row := range strings.SplitSeq(table, "\n") {
		cells := strings.Split(row, " | ")
		if len(cells) != 2 {
			continue
		}
		for _, pair := range pairs {
			for _, m := range pair.FindAllStringSubmatch(cells[1], -1) {
				name, file := m[pair.SubexpIndex("name")], m[pair.SubexpIndex("file")]
				if code[file] != "" && !declares(file, name) {
					wrong = append(wrong, fmt.Sprintf("%s: no %s in %s", cells[0], name[strings.LastIndex(name, ".")+1:], file))
				}
			}
		}
		for _, m := range quoted.FindAllStringSubmatch(cells[1], -1) {
			named++
			switch name := m[1]; {
			case strings.HasSuffix(name, ".go"):
				if code[name] == "" && (strings.Contains(name, "/") || bases[name] == nil) {
					wrong = append(wrong, fmt.Sprintf("%s: no file %s", cells[0], name))
				}
			case strings.Contains(name, "/"):
				if !folders[name] {
					wrong = append(wrong, fmt.Sprintf("%s: no folder %s", cells[0], name))
				}
			case !folders[name] && !declares("", name):
				wrong = append(wrong, fmt.Sprintf("%s: nothing is named %s", cells[0], name))
			}
		}
	}
	return wrong, named
}

// checkFieldPage returns the wrong names in the tables of docs/field.md, and how many tests they
// name.
func checkFieldPage(page string, code map[string]string) (wrong []string, tests int) {
	quoted := regexp.MustCompile("`([^`]+)`")
	var rules strings.Builder
	for line := range strings.SplitSeq(page, "\n") {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if !strings.HasPrefix(line, "| ") || cells[0] == "kind" {
			continue
		}
		rule, last := cells[len(cells)-2], cells[len(cells)-1]
		rules.WriteString(cells[0] + " | " + rule + "\n")
		if !strings.Contains(last, "`") {
			wrong = append(wrong, cells[0]+": no test")
		}
		for part := range strings.SplitSeq(last, "; ") {
			folders, names, _ := strings.Cut(part, ": ")
			for folder := range strings.SplitSeq(folders, ", ") {
				for _, m := range quoted.FindAllStringSubmatch(names, -1) {
					tests++
					want := "func " + m[1] + "("
					if !strings.HasPrefix(m[1], "Test") {
						want = `"` + m[1] + `"`
					}
					if !containsIn(code, strings.Replace(folder, "root", ".", 1), want) {
						wrong = append(wrong, fmt.Sprintf("%s: no %s in %s", cells[0], m[1], folder))
					}
				}
			}
		}
	}
	bad, _ := checkPointers(rules.String(), code)
	return append(bad, wrong...), tests
}

// containsIn reports whether a file of folder contains text.
func containsIn(code map[string]string, folder, text string) bool {
	for name, file := range code {
		if path.Dir(name) == folder && strings.Contains(file, text) {
			return true
		}
	}
	return false
}

// goFiles returns the code of the repository, by file name.
func goFiles(repo fs.FS) (map[string]string, error) {
	code := map[string]string{}
	err := fs.WalkDir(repo, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") {
			return err
		}
		text, err := fs.ReadFile(repo, name)
		code[name] = string(text)
		return err
	})
	return code, err
}
