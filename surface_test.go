package dltbatch_test

import (
	"flag"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/internal/tier"
)

// surfaceFile holds a line for each exported identifier of the public packages, below a line "# "
// with the reason why it is exported. Names with the same reason are together.
const surfaceFile = "testdata/surface.txt"

var writeSurface = flag.Bool("surface.write", false, "write "+surfaceFile+" anew")

// The exported surface changes only on purpose: a change needs the same change of the listing.
func TestSurface(t *testing.T) {
	tier.Plain(t)
	have := exportedIdentifiers(t)
	require.Greater(t, len(have), 500, "identifiers that were found: is a folder left out?")
	text, err := os.ReadFile(surfaceFile)
	require.NoError(t, err)
	if *writeSurface {
		text = []byte(formatGroups(placeNames(parseGroups(string(text)), have)))
		require.NoError(t, os.WriteFile(surfaceFile, text, 0o600))
	}
	groups := parseGroups(string(text))
	const anew = "To write it anew: go test . -run TestSurface -surface.write"
	if all := listDifferences(namesOf(groups), have); len(all) > 0 {
		t.Errorf("%s does not list what the packages export:\n\n%s\n\nIs each change on purpose, and does a user need it? %s", surfaceFile, strings.Join(all, "\n"), anew)
	} else if formatGroups(placeNames(groups, have)) != string(text) {
		t.Errorf("%s has every line, but not each once and in order. %s", surfaceFile, anew)
	}
	if all := groups[""]; len(all) > 0 {
		t.Errorf("%s does not say why these are exported. Move each below the reason that it has, or a new one:\n\n%s", surfaceFile, strings.Join(all, "\n"))
	}
}

// A new name is listed without a reason until somebody gives one. A new method gets its type's
// reason.
func TestSurfaceAsksForReasons(t *testing.T) {
	const text = "# to store\nstore.New\nstore.T\nstore.T.Do\n\n# to send\ndlt.Gone\ndlt.Send\n"
	groups := parseGroups(text)
	require.Equal(t, map[string][]string{"to store": {"store.New", "store.T", "store.T.Do"}, "to send": {"dlt.Gone", "dlt.Send"}}, groups)
	placed := placeNames(groups, []string{"dlt.Receive", "dlt.Receive.Do", "dlt.Send", "store.New", "store.T", "store.T.Be", "store.T.Do", "store/t.T"})
	assert.Equal(t, map[string][]string{
		"": {"dlt.Receive", "dlt.Receive.Do", "store/t.T"}, "to send": {"dlt.Send"}, "to store": {"store.New", "store.T", "store.T.Be", "store.T.Do"},
	}, placed)
	assert.Equal(t, "# to send\ndlt.Send\n\n# to store\nstore.New\nstore.T\nstore.T.Be\nstore.T.Do\n\n# \ndlt.Receive\ndlt.Receive.Do\nstore/t.T\n", formatGroups(placed))
	assert.Equal(t, placed, parseGroups(formatGroups(placed)))
	assert.Equal(t, map[string][]string{"": {"a.A", "a.B"}}, parseGroups("a.B\na.A\n"), "names before the first reason")
	assert.NotContains(t, placeNames(groups, []string{"dlt.Send"}), "to store", "a reason of no name")
}

// parseGroups parses a listing: names by their reason.
func parseGroups(text string) map[string][]string {
	groups, why := map[string][]string{}, ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if reason, ok := strings.CutPrefix(line, "#"); ok {
			why = strings.TrimSpace(reason)
		} else if line != "" {
			groups[why] = append(groups[why], line)
		}
	}
	for _, names := range groups {
		slices.Sort(names)
	}
	return groups
}

// formatGroups writes a listing: groups in the order of their first names, and last the names
// without a reason.
func formatGroups(groups map[string][]string) string {
	reasons := slices.SortedFunc(maps.Keys(groups), func(a, b string) int {
		if a == "" || b == "" {
			return strings.Compare(b, a)
		}
		return strings.Compare(groups[a][0], groups[b][0])
	})
	var parts []string
	for _, why := range reasons {
		parts = append(parts, "# "+why+"\n"+strings.Join(groups[why], "\n")+"\n")
	}
	return strings.Join(parts, "\n")
}

// namesOf returns all names of a listing.
func namesOf(groups map[string][]string) (all []string) {
	for _, names := range groups {
		all = append(all, names...)
	}
	slices.Sort(all)
	return all
}

// placeNames puts each name of have into its group in groups, and a new method into its type's
// group.
func placeNames(groups map[string][]string, have []string) map[string][]string {
	why := map[string]string{}
	for reason, names := range groups {
		for _, name := range names {
			why[name] = reason
		}
	}
	placed := map[string][]string{}
	for _, name := range have {
		reason, known := why[name]
		if typ := name[:strings.LastIndex(name, ".")]; !known {
			reason = why[typ] // "" for a type: only its package is before the dot
		}
		placed[reason] = append(placed[reason], name)
	}
	return placed
}

// surface sees each kind of change to what a package exports, and no other change of the code.
func TestSurfaceSeesChanges(t *testing.T) {
	for code, want := range map[string][]string{
		"type Runner struct{ Field int }; func (r *Runner) Run() {}; func (Runner) stop() {}":         {"p.Runner", "p.Runner.Run"},
		"func New() int { return 0 }; func do() {}; var A, b, C = 1, 2, 3; type t int; const X t = 1": {"p.A", "p.C", "p.New", "p.X"},
		"type S[T any] struct{ F int }; func (s S[T]) Do() {}; func (S[T]) do() {}":                   {"p.S", "p.S.Do"},
		"type t struct{}; func (*t) Do() {}; type T struct { *t }; type Alias = T":                    {"p.Alias", "p.T", "p.T.Do"},
		"type T struct{}; func (T) Do() {}; type U struct{ T }":                                       {"p.T", "p.T.Do", "p.U"},
		"type I interface { error; Do(); do() }; type J interface { I }":                              {"p.I", "p.I.Do", "p.I.error", "p.J", "p.J.I"},
		"type runner struct{}; func (runner) Run() {}; type RunnerOf struct{}":                        {"p.RunnerOf"},
	} {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, "p.go", "package p; "+code, 0)
		require.NoError(t, err, code)
		pkg, err := new(types.Config).Check("p", fset, []*ast.File{file}, nil)
		require.NoError(t, err, code)
		assert.Equal(t, want, packageIdentifiers(pkg), code)
	}
	assert.Equal(t, []string{"gone: a", "new: c"}, listDifferences([]string{"a", "b"}, []string{"b", "c"}))
}

// listDifferences returns the lines that are in only one of the two listings, in order.
func listDifferences(listed, have []string) (all []string) {
	for _, name := range listed {
		if !slices.Contains(have, name) {
			all = append(all, "gone: "+name)
		}
	}
	for _, name := range have {
		if !slices.Contains(listed, name) {
			all = append(all, "new: "+name)
		}
	}
	return all
}

// exportedIdentifiers lists, in order, the exported identifiers of the public packages of this
// module, as the compiler has them on this platform.
func exportedIdentifiers(t *testing.T) (all []string) {
	list, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-export", "-f", "{{.Name}} {{.ImportPath}} {{.Export}}", "./...").Output()
	require.NoError(t, err)
	files := map[string]string{}
	for line := range strings.Lines(string(list)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] != "main" {
			files[fields[1]] = fields[2]
		}
	}
	from := importer.ForCompiler(token.NewFileSet(), "gc", func(pkg string) (io.ReadCloser, error) { return os.Open(files[pkg]) })
	for name := range files {
		if name+"/" != modulePath+"/" && !strings.HasPrefix(name, modulePath+"/") || strings.Contains(name+"/", "/internal/") || strings.HasPrefix(name, modulePath+"/examples") {
			continue
		}
		pkg, err := from.Import(name)
		require.NoError(t, err)
		all = append(all, packageIdentifiers(pkg)...)
	}
	slices.Sort(all)
	return all
}

// packageIdentifiers lists, in order, what a package exports: its names, the methods of its types,
// the methods from embedded types that are internal or not exported, and the interfaces that an
// interface embeds. Fields are not listed.
func packageIdentifiers(pkg *types.Package) (all []string) {
	base := strings.TrimPrefix(pkg.Path(), modulePath+"/")
	if pkg.Path() == modulePath {
		base = path.Base(modulePath)
	}
	for _, name := range pkg.Scope().Names() {
		of := pkg.Scope().Lookup(name)
		if !of.Exported() {
			continue
		}
		all = append(all, base+"."+name)
		if typ, is := of.(*types.TypeName); !is || typ.IsAlias() {
			continue
		}
		if face, is := of.Type().Underlying().(*types.Interface); is {
			for method := range face.ExplicitMethods() {
				if method.Exported() {
					all = append(all, base+"."+name+"."+method.Name())
				}
			}
			for embedded := range face.EmbeddedTypes() {
				text := types.TypeString(embedded, func(*types.Package) string { return "" })
				all = append(all, base+"."+name+"."+text)
			}
			continue
		}
		for method := range types.NewMethodSet(types.NewPointer(of.Type())).Methods() {
			listed := false // the listing has the embedded type where the method comes from
			if way := method.Index(); len(way) > 1 {
				embedded := of.Type().Underlying().(*types.Struct).Field(way[0])
				listed = embedded.Exported() && !strings.Contains(types.TypeString(embedded.Type(), nil), "/internal/")
			}
			if method.Obj().Exported() && !listed {
				all = append(all, base+"."+name+"."+method.Obj().Name())
			}
		}
	}
	slices.Sort(all)
	return all
}
