package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// tree holds the module's packages without a change. It reads the imported types from the
// compiler's output, so that checking the types of a change takes milliseconds, where a build
// takes seconds.
type tree struct {
	root    string
	fileSet *token.FileSet
	pkgs    map[string]*pkg   // by folder, relative to the root
	exports map[string]string // files with the compiler's export data, by import path
	imports types.Importer
}

// pkg is a package without its tests.
type pkg struct {
	dir, path string
	isNamed   bool                 // true if a pattern names it; false if it is only imported
	files     map[string]*ast.File // by path
	src       map[string][]byte
	types     *types.Package // nil until the package is checked
	info      types.Info
}

// loadTree reads the packages that the patterns name, and all packages of the module that they
// import.
func loadTree(root string, patterns []string) (*tree, error) {
	t := &tree{root: root, fileSet: token.NewFileSet(), pkgs: map[string]*pkg{}, exports: map[string]string{}}
	t.imports = importer.ForCompiler(t.fileSet, "gc", func(path string) (io.ReadCloser, error) { return os.Open(t.exports[path]) })
	cmd := exec.Command("go", append([]string{"list", "-export", "-deps", "-json=Dir,ImportPath,Export,GoFiles,DepOnly,Module"}, patterns...)...)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var l struct {
			Dir, ImportPath, Export string
			GoFiles                 []string
			DepOnly                 bool
			Module                  struct{ Main bool }
		}
		if err := d.Decode(&l); errors.Is(err, io.EOF) {
			return t, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		t.exports[l.ImportPath] = l.Export
		if !l.Module.Main {
			continue
		}
		p := &pkg{dir: t.rel(l.Dir), path: l.ImportPath, isNamed: !l.DepOnly, files: map[string]*ast.File{}, src: map[string][]byte{}}
		for _, name := range l.GoFiles {
			path := filepath.Join(l.Dir, name)
			if p.src[path], err = os.ReadFile(path); err != nil {
				return nil, err
			}
			if p.files[path], err = parser.ParseFile(t.fileSet, path, p.src[path], parser.SkipObjectResolution); err != nil {
				return nil, err
			}
		}
		t.pkgs[p.dir] = p
	}
}

// rel returns a path relative to the root.
func (t *tree) rel(path string) string {
	rel, err := filepath.Rel(t.root, path)
	if err != nil {
		return path
	}
	return filepath.ToSlash(rel)
}

// checkTypes computes the types of a package without a change.
func (t *tree) checkTypes(p *pkg) error {
	if p.types != nil {
		return nil
	}
	p.info = types.Info{Uses: map[*ast.Ident]types.Object{}, Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}}
	var err error
	p.types, err = t.typeCheck(p, "", nil, &p.info)
	return err
}

// checkBuilds returns an error if a package does not build with another text of one of its files.
func (t *tree) checkBuilds(file, text string) error {
	p := t.pkgs[filepath.ToSlash(filepath.Dir(file))]
	if p == nil {
		return fmt.Errorf("no package for %s", file)
	}
	path := filepath.Join(t.root, file)
	changed, err := parser.ParseFile(t.fileSet, path, text, parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("does not build: %w", err)
	}
	if _, err = t.typeCheck(p, path, changed, nil); err != nil {
		return fmt.Errorf("does not build: %w", err)
	}
	return nil
}

func (t *tree) typeCheck(p *pkg, path string, changed *ast.File, info *types.Info) (*types.Package, error) {
	var files []*ast.File
	for other, f := range p.files {
		if other != path {
			files = append(files, f)
		}
	}
	if changed != nil {
		files = append(files, changed)
	}
	config := types.Config{Importer: t.imports}
	return config.Check(p.path, t.fileSet, files, info)
}
