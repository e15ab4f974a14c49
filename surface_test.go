package dltbatch_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/internal/tier"
)

// listing holds a line for each exported identifier of the public packages, below the reason
// why it is exported: "# " and a text. Names with the same reason are together.
const listing = "testdata/surface.txt"

var writeSurface = flag.Bool("surface.write", false, "write "+listing+" anew")

// The exported surface changes on purpose only: a change of it is a change of the listing, too.
func TestSurface(t *testing.T) {
	tier.Plain(t)
	have, err := surface(os.DirFS("."))
	require.NoError(t, err)
	require.Greater(t, len(have), 500, "identifiers that were found: is a folder left out?")
	text, err := os.ReadFile(listing)
	require.NoError(t, err)
	if *writeSurface {
		text = []byte(format(place(grouped(string(text)), have)))
		require.NoError(t, os.WriteFile(listing, text, 0o600))
	}
	groups := grouped(string(text))
	const anew = "To write it anew: go test . -run TestSurface -surface.write"
	if all := changes(namesOf(groups), have); len(all) > 0 {
		t.Errorf("%s does not list what the packages export:\n\n%s\n\nIs each change on purpose, and does a user need it? %s", listing, strings.Join(all, "\n"), anew)
	} else if format(place(groups, have)) != string(text) {
		t.Errorf("%s has every line, but not each once and in order. %s", listing, anew)
	}
	if all := groups[""]; len(all) > 0 {
		t.Errorf("%s does not say why these are exported. Move each below the reason that it has, or a new one:\n\n%s", listing, strings.Join(all, "\n"))
	}
}

// A new name stands without a reason until somebody gives one. A new method has its type's.
func TestSurfaceAsksForReasons(t *testing.T) {
	const text = "# to store\nstore.New\nstore.T\nstore.T.Do\n\n# to send\ndlt.Gone\ndlt.Send\n"
	groups := grouped(text)
	require.Equal(t, map[string][]string{"to store": {"store.New", "store.T", "store.T.Do"}, "to send": {"dlt.Gone", "dlt.Send"}}, groups)
	placed := place(groups, []string{"dlt.Receive", "dlt.Receive.Do", "dlt.Send", "store.New", "store.T", "store.T.Be", "store.T.Do", "store/t.T"})
	assert.Equal(t, map[string][]string{
		"": {"dlt.Receive", "dlt.Receive.Do", "store/t.T"}, "to send": {"dlt.Send"}, "to store": {"store.New", "store.T", "store.T.Be", "store.T.Do"},
	}, placed)
	assert.Equal(t, "# to send\ndlt.Send\n\n# to store\nstore.New\nstore.T\nstore.T.Be\nstore.T.Do\n\n# \ndlt.Receive\ndlt.Receive.Do\nstore/t.T\n", format(placed))
	assert.Equal(t, placed, grouped(format(placed)))
	assert.Equal(t, map[string][]string{"": {"a.A", "a.B"}}, grouped("a.B\na.A\n"), "names before the first reason")
	assert.NotContains(t, place(groups, []string{"dlt.Send"}), "to store", "a reason of no name")
}

// grouped reads a listing: names by their reason.
func grouped(text string) map[string][]string {
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

// format writes a listing, groups by their first name, and last the names without a reason.
func format(groups map[string][]string) string {
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

// place groups the names that there are as groups says, and a new method with its type.
func place(groups map[string][]string, have []string) map[string][]string {
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
			reason = why[typ] // "" for a type, which has only its package before the dot
		}
		placed[reason] = append(placed[reason], name)
	}
	return placed
}

// Each way to change the exported surface is seen, and no other change of the code is.
func TestSurfaceSeesChanges(t *testing.T) {
	tree := fstest.MapFS{
		"go.mod": {}, "a.go": {Data: []byte("package dltbatch\n\ntype Runner struct{}\n")},
		"internal/x/x.go": {Data: []byte("package x; type T struct{}; func (*T) Do() {}; func (T) do() {}; type U struct{}; func (U) Undo() {}")},
	}
	before, err := surface(tree)
	require.NoError(t, err)
	require.Equal(t, []string{"dltbatch.Runner"}, before)
	for _, c := range []struct {
		file, code string
		want       []string
	}{
		{"b.go", "package dltbatch; func (r *Runner) Run() {}", []string{"new: dltbatch.Runner.Run"}},
		{"b.go", "package dltbatch; func New() *Runner { return nil }", []string{"new: dltbatch.New"}},
		{"b.go", "package dltbatch; type Alias = Runner", []string{"new: dltbatch.Alias"}},
		{"store/a.go", "package store; var A, B, c = 1, 2, 3", []string{"new: store.A", "new: store.B"}},
		{"store/a.go", "package store; type T int; const ( X T = iota; Y; z )", []string{"new: store.T", "new: store.X", "new: store.Y"}},
		{"store/a.go", "package store; type t int; const X t = 1", []string{"new: store.X"}},
		{"store/memory/a.go", "package memory; type S[T any] struct{ F int }; func (s S[T]) Do() {}; func (S[T]) do() {}", []string{"new: store/memory.S", "new: store/memory.S.Do"}},
		{"store/a.go", "package store; type t struct{}; func (t) Do() {}; type T struct { t }", []string{"new: store.T", "new: store.T.Do"}},
		{"store/a.go", "package store; import \"" + module + "/internal/x\"; type t = x.T; type S struct { t; n int }", []string{"new: store.S", "new: store.S.Do"}},
		{"store/a.go", "package store; import \"" + module + "/internal/x\"; type S struct { *x.T }", []string{"new: store.S", "new: store.S.Do"}},
		{"dlt/a.go", "package dlt; type I interface { error; sql.Result; Do(); do() }", []string{"new: dlt.I", "new: dlt.I.Do", "new: dlt.I.Result", "new: dlt.I.error"}},
		{"dlt/a.go", "//go:build plan9\n\npackage dlt; func Do() {}", []string{"new: dlt.Do"}},
		{"a.go", "package dltbatch; type runner struct{}", []string{"gone: dltbatch.Runner"}},
		{"a.go", "package dltbatch; type RunnerOf struct{}", []string{"gone: dltbatch.Runner", "new: dltbatch.RunnerOf"}},
		{"b.go", "package dltbatch; type runner struct{ Field int }; func (runner) Run() {}; func do() {}", nil},
		{"b_test.go", "package dltbatch_test; func Do() {}", nil},
		{"internal/a.go", "package internal; func Do() {}", nil},
		{"dlt/internal/wire/a.go", "package wire; func Do() {}", nil},
		{"store/testdata/a.go", "package broken; func Do() {}", nil},
		{".cache/a.go", "package cache; func Do() {}", nil},
		{"cmd/tool/a.go", "package main; func Do() {}", nil},
		{"examples/a/b/a.go", "package b; func Do() {}", nil},
	} {
		changed := maps.Clone(tree)
		changed[c.file] = &fstest.MapFile{Data: []byte(c.code)}
		after, err := surface(changed)
		require.NoError(t, err, c.code)
		assert.Equal(t, c.want, changes(before, after), c.code)
	}
	tree["other/go.mod"], tree["other/a.go"] = &fstest.MapFile{}, &fstest.MapFile{Data: []byte("package other; func Do() {}")}
	after, err := surface(tree)
	require.NoError(t, err)
	assert.Equal(t, before, after, "another module")
}

// changes names the lines that are in one listing and not in the other, in order.
func changes(listed, have []string) (all []string) {
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

// surface lists, in order, the exported identifiers of the public packages below fsys: names
// of the package, methods of its types, and the interfaces that an interface embeds. Fields
// are not listed. Files of all platforms are read, and nothing is built.
func surface(fsys fs.FS) ([]string, error) {
	var all []string
	err := fs.WalkDir(fsys, ".", func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		base := path.Base(dir)
		if base == "internal" || base == "testdata" || dir == "examples" || dir != "." && strings.HasPrefix(base, ".") {
			return fs.SkipDir
		}
		if _, err := fs.Stat(fsys, path.Join(dir, "go.mod")); err == nil && dir != "." {
			return fs.SkipDir // another module
		}
		names, err := exported(fsys, dir)
		pkg := dir
		if dir == "." {
			pkg = path.Base(module)
		}
		for _, name := range names {
			all = append(all, pkg+"."+name)
		}
		return err
	})
	slices.Sort(all)
	return slices.Compact(all), err
}

// exported lists what the package in dir exports; nothing where it is a command or has no Go.
func exported(fsys fs.FS, dir string) (names []string, err error) {
	sources, err := fs.Glob(fsys, path.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, source := range sources {
		if strings.HasSuffix(source, "_test.go") {
			continue
		}
		text, err := fs.ReadFile(fsys, source)
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(fset, source, text, 0)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	if len(files) == 0 || files[0].Name.Name == "main" {
		return nil, nil
	}
	if names, err = promoted(fsys, files); err != nil {
		return nil, err
	}
	pkg, err := doc.NewFromFiles(fset, files, path.Join(module, dir))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	values := func(all []*doc.Value) {
		for _, v := range all {
			names = append(names, slices.DeleteFunc(slices.Clone(v.Names), func(name string) bool { return !ast.IsExported(name) })...)
		}
	}
	funcs := func(prefix string, all []*doc.Func) {
		for _, f := range all {
			names = append(names, prefix+f.Name)
		}
	}
	values(pkg.Consts)
	values(pkg.Vars)
	funcs("", pkg.Funcs)
	for _, typ := range pkg.Types {
		names = append(names, typ.Name)
		values(typ.Consts)
		values(typ.Vars)
		funcs("", typ.Funcs)
		funcs(typ.Name+".", typ.Methods)
		for _, name := range required(typ) {
			names = append(names, typ.Name+"."+name)
		}
	}
	return names, nil
}

// promoted lists the methods that structs have from types of internal packages that they embed, by
// name or by an alias.
func promoted(fsys fs.FS, files []*ast.File) (names []string, err error) {
	paths, aliases := map[string]string{}, map[string]ast.Expr{}
	structs := map[string]*ast.StructType{}
	for _, file := range files {
		for _, i := range file.Imports {
			if imported := strings.Trim(i.Path.Value, `"`); strings.HasPrefix(imported, module+"/internal/") {
				paths[path.Base(imported)] = strings.TrimPrefix(imported, module+"/")
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if spec.Assign.IsValid() {
					aliases[spec.Name.Name] = spec.Type
				}
				if of, ok := spec.Type.(*ast.StructType); ok && spec.Name.IsExported() {
					structs[spec.Name.Name] = of
				}
			}
			return true
		})
	}
	for name, of := range structs {
		for _, field := range of.Fields.List {
			embedded := field.Type
			if pointer, ok := embedded.(*ast.StarExpr); ok {
				embedded = pointer.X
			}
			if alias, ok := embedded.(*ast.Ident); ok {
				embedded = aliases[alias.Name]
			}
			selector, ok := embedded.(*ast.SelectorExpr)
			if !ok || len(field.Names) > 0 || paths[fmt.Sprint(selector.X)] == "" {
				continue
			}
			all, err := exported(fsys, paths[fmt.Sprint(selector.X)])
			if err != nil {
				return nil, err
			}
			for _, method := range all {
				if method, is := strings.CutPrefix(method, selector.Sel.Name+"."); is {
					names = append(names, name+"."+method)
				}
			}
		}
	}
	return names, nil
}

// required lists the methods of an interface, and what it embeds; nothing of other types.
func required(typ *doc.Type) (names []string) {
	for _, spec := range typ.Decl.Specs {
		spec, ok := spec.(*ast.TypeSpec)
		if !ok || spec.Name.Name != typ.Name {
			continue
		}
		if face, ok := spec.Type.(*ast.InterfaceType); ok {
			for _, method := range face.Methods.List {
				for _, name := range method.Names {
					names = append(names, name.Name)
				}
				switch embedded := method.Type.(type) {
				case *ast.Ident:
					names = append(names, embedded.Name)
				case *ast.SelectorExpr:
					names = append(names, embedded.Sel.Name)
				}
			}
		}
	}
	return names
}
