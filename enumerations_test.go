package dltbatch_test

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"iter"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/internal/tier"
)

// enumerationsFile holds a line for each enumeration of the module, with its values.
const enumerationsFile = "testdata/enumerations.txt"

var writeEnumerations = flag.Bool("enumerations.write", false, "write "+enumerationsFile+" anew")

// A new value of an enumeration fails this test until the list in enumerationsFile has it. The
// failure names each place in the code that tells other values of the enumeration apart, and does
// not mention the new one.
func TestEnumerations(t *testing.T) {
	tier.Plain(t)
	values, places := enumerations(parseModule(t, os.DirFS(".")))
	require.Greater(t, len(values), 20, "enumerations that were found")
	if *writeEnumerations {
		require.NoError(t, os.WriteFile(enumerationsFile, []byte(formatGroups(values)), 0o600))
	}
	text, err := os.ReadFile(enumerationsFile)
	require.NoError(t, err)
	const anew = "go test . -run TestEnumerations -enumerations.write"
	known := parseGroups(string(text))
	for name, all := range values {
		for _, value := range all {
			if known[name] == nil || slices.Contains(known[name], value) {
				continue
			}
			t.Errorf("%s is new. These places tell other values of %s apart, and do not mention it:\n\n%s\n\n"+
				"Mention it there, or see that the place is right without it. Then: %s", value, name, strings.Join(placesWithout(places[name], value), "\n"), anew)
		}
	}
	if !t.Failed() {
		assert.Equal(t, string(text), formatGroups(values), "%s is old. To write it anew: %s", enumerationsFile, anew)
	}
}

// placesWithout returns the places that tell two values or more apart, and do not mention the
// given one.
func placesWithout(places map[string]mentions, value string) (all []string) {
	for place, m := range places {
		if len(m) > 1 && !m[value] {
			all = append(all, place)
		}
	}
	if slices.Sort(all); all == nil {
		return []string{"(none)"}
	}
	return all
}

// enumerations finds each form in which code tells values apart. It leaves out a value that is
// only returned, passed or set.
func TestEnumerationsSeesPlaces(t *testing.T) {
	const declared = "package batch\ntype Kind int\nconst (\n\tA Kind = iota\n\tB\n\tC\n)\n"
	for code, seen := range map[string]bool{
		"func (*T[X]) f(k batch.Kind) { switch k { case batch.A, batch.B: } }":                    true,
		"func f(k batch.Kind) bool { return k == batch.A || batch.B != k }":                       true,
		"var f = []batch.Kind{batch.A, batch.B}":                                                  true,
		"var f = []string{string(batch.A), string(batch.B)}":                                      true,
		"var f = map[batch.Kind]string{batch.A: \"a\", batch.B: \"b\"}":                           true,
		"var f = []struct{k batch.Kind}{{batch.A}, {batch.B}}":                                    true,
		"func f(err error) bool { return errors.Is(err, batch.A) || errors.Is(err, batch.B) }":    true,
		"func f(k batch.Kind) bool { return k == batch.A }":                                       false,
		"func f(yes bool) batch.Kind { if yes { return batch.A }; return batch.B }":               false,
		"var f, g = T{Kind: batch.A}, T{Kind: batch.B}":                                           false,
		"func f(k batch.Kind) bool { return k == batch.A || k == batch.B || k == batch.C }":       false,
		"func f(k other.Kind) { switch k { case other.A, other.B: } }":                            false,
		"func f(k batch.Kind) { switch k { case batch.A, batch.B: }; other(k == batch.C, true) }": false,
	} {
		places := []string{"(none)"}
		if seen {
			places = []string{"a/a.go:f"}
		}
		if strings.HasPrefix(code, "func (*T") {
			places = []string{"a/a.go:T.f"}
		}
		values, found := enumerations(parseModule(t, fstest.MapFS{
			"batch/batch.go": {Data: []byte(declared)},
			"a/a.go":         {Data: []byte("package a\nimport (\n\"errors\"\n\"" + modulePath + "/batch\"\n)\n" + code)},
		}))
		assert.Equal(t, map[string][]string{"batch.Kind": {"batch.A", "batch.B", "batch.C"}}, values)
		assert.Equal(t, places, placesWithout(found["batch.Kind"], "batch.C"), code)
	}
}

// sourceFile is one file of the module.
type sourceFile struct {
	name   string // path from the root of the module
	syntax *ast.File
}

// parseModule reads the Go files of the module, without tests and without examples that are
// programs.
func parseModule(t *testing.T, root fs.FS) (all []sourceFile) {
	t.Helper()
	require.NoError(t, fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if _, err := fs.Stat(root, path.Join(name, "go.mod")); name != "." && err == nil {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := fs.ReadFile(root, name)
		require.NoError(t, err)
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		require.NoError(t, err)
		all = append(all, sourceFile{name, file})
		return nil
	}))
	return all
}

const traitsType = "dlt.Traits"

// mentions are the values of one enumeration that one declaration tells apart.
type mentions map[string]bool

// enumerations returns the values of each enumeration, such as "batch.State", and the places that
// tell its values apart. An enumeration is a type with three exported constants or more, a block
// of as many exported errors, or the fields of dlt.Traits, which are told apart where one is set.
func enumerations(all []sourceFile) (values map[string][]string, places map[string]map[string]mentions) {
	values, places = map[string][]string{}, map[string]map[string]mentions{}
	of := map[string]string{} // the enumeration of each value; both are named with their package's folder
	for _, s := range all {
		for _, d := range s.syntax.Decls {
			if g, ok := d.(*ast.GenDecl); ok {
				addDeclaredValues(s, g, of)
			}
		}
	}
	for value, name := range of {
		values[name] = append(values[name], value)
	}
	for name, list := range values {
		if slices.Sort(list); len(list) < 3 {
			delete(values, name)
		}
	}
	for _, s := range all {
		for _, d := range s.syntax.Decls {
			place := s.name + ":" + nameOf(d)
			for value := range comparedValues(s, d) {
				name := of[value]
				if places[name] == nil {
					places[name] = map[string]mentions{}
				}
				if places[name][place] == nil {
					places[name][place] = mentions{}
				}
				places[name][place][value] = true
			}
		}
	}
	return values, places
}

// addDeclaredValues adds the exported values of a declaration to their enumerations in of.
func addDeclaredValues(s sourceFile, d *ast.GenDecl, of map[string]string) {
	last := "" // the type of the constants that name none, as after iota
	for _, spec := range d.Specs {
		if typ, ok := spec.(*ast.TypeSpec); ok && s.qualifiedName(typ.Name) == traitsType {
			for _, field := range typ.Type.(*ast.StructType).Fields.List {
				for _, name := range field.Names {
					of[traitsType+"."+name.Name] = traitsType
				}
			}
		}
		v, ok := spec.(*ast.ValueSpec)
		if !ok {
			continue
		}
		switch {
		case d.Tok == token.CONST && (v.Type != nil || v.Values != nil):
			last = s.qualifiedName(v.Type)
		case d.Tok == token.VAR && strings.HasPrefix(v.Names[0].Name, "Err"):
			last = folderOf(path.Dir(s.name)) + ".Err"
		case d.Tok == token.VAR:
			last = ""
		}
		for _, name := range v.Names {
			if last != "" && name.IsExported() {
				of[s.qualifiedName(name)] = last
			}
		}
	}
}

// comparedValues yields the values, with their folders, that a declaration compares something
// with, or lists. It leaves out values that the declaration only returns, passes or sets.
func comparedValues(s sourceFile, d ast.Decl) iter.Seq[string] {
	return func(yield func(string) bool) {
		some := func(list ...ast.Expr) {
			for _, x := range list {
				for {
					call, ok := x.(*ast.CallExpr) // a call here is a conversion, such as string(batch.KindBusy)
					if !ok || len(call.Args) != 1 {
						break
					}
					x = call.Args[0]
				}
				if name := s.qualifiedName(x); name != "" {
					yield(name)
				}
			}
		}
		ast.Inspect(d, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CaseClause:
				some(n.List...)
			case *ast.BinaryExpr:
				if n.Op == token.EQL || n.Op == token.NEQ {
					some(n.X, n.Y)
				}
			case *ast.CallExpr:
				if s.qualifiedName(n.Fun) == "errors.Is" {
					some(n.Args...)
				}
			case *ast.CompositeLit:
				_, isMap := n.Type.(*ast.MapType)
				for _, x := range n.Elts {
					switch kv, keyed := x.(*ast.KeyValueExpr); {
					case !keyed:
						some(x)
					case isMap:
						some(kv.Key, kv.Value)
					case s.qualifiedName(n.Type) == traitsType:
						yield(traitsType + "." + kv.Key.(*ast.Ident).Name)
					}
				}
			}
			return true
		})
	}
}

// qualifiedName returns the name of a type, constant or variable of a package, preceded by the
// package's folder in this module or by the import path of another module. It returns "" for any
// other expression.
func (s sourceFile) qualifiedName(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.Ident:
		return folderOf(path.Dir(s.name)) + "." + x.Name
	case *ast.SelectorExpr:
		pkg, ok := x.X.(*ast.Ident)
		if !ok {
			return ""
		}
		for _, i := range s.syntax.Imports {
			from, err := strconv.Unquote(i.Path.Value)
			if err != nil || i.Name != nil && i.Name.Name != pkg.Name || i.Name == nil && path.Base(from) != pkg.Name {
				continue
			}
			return folderOf(strings.TrimPrefix(strings.TrimPrefix(from, modulePath), "/")) + "." + x.Sel.Name
		}
	}
	return ""
}

// folderOf returns the folder of a package of this module as its name; the root's is "dltbatch".
func folderOf(name string) string {
	if name == "" || name == "." {
		return "dltbatch"
	}
	return name
}

// nameOf returns the name of a func, with its receiver, or the first name of another declaration.
func nameOf(d ast.Decl) string {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			return d.Name.Name
		}
		of := d.Recv.List[0].Type
		if star, ok := of.(*ast.StarExpr); ok {
			of = star.X
		}
		if generic, ok := of.(*ast.IndexExpr); ok {
			of = generic.X
		}
		if id, ok := of.(*ast.Ident); ok {
			return id.Name + "." + d.Name.Name
		}
		return d.Name.Name
	case *ast.GenDecl:
		if v, ok := d.Specs[0].(*ast.ValueSpec); ok {
			return v.Names[0].Name
		}
	}
	return ""
}
