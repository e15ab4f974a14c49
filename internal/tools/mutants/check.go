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
	"path/filepath"
	"slices"
	"strings"
)

// checker finds mutants that would not build. It reads each package once and takes its
// imports from the compiler's output, because building each mutant takes minutes.
type checker struct {
	root     string
	files    *token.FileSet
	packages map[string]*sources // by folder, from the root
	imports  types.Importer
}

// sources is a package without mutants.
type sources struct {
	path  string
	files map[string]*ast.File // by their paths
}

// listed is the part of go list's output about a package.
type listed struct {
	Dir, ImportPath, Export string
	GoFiles                 []string
	DepOnly                 bool
}

func newChecker(root string, all []mutant) (*checker, error) {
	c := &checker{root: root, files: token.NewFileSet(), packages: map[string]*sources{}}
	folders := map[string][]string{} // by module
	for _, m := range all {
		home, folder, err := module(root, source(root, m.file))
		if err != nil {
			return nil, err
		}
		if f := "./" + folder; goSource(m.file) && !slices.Contains(folders[home], f) {
			folders[home] = append(folders[home], f)
		}
	}
	exports := map[string]string{}
	for home, names := range folders {
		if err := c.list(home, names, exports); err != nil {
			return nil, err
		}
	}
	c.imports = importer.ForCompiler(c.files, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("no package %q", path)
		}
		return os.Open(exports[path])
	})
	return c, nil
}

// list reads packages of a module, and the places of their compiled imports.
func (c *checker) list(home string, names []string, exports map[string]string) error {
	cmd := command(home, append([]string{"list", "-export", "-deps", "-json=Dir,ImportPath,Export,GoFiles,DepOnly"}, names...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("go list in %s: %w", home, err)
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("go list in %s: %w", home, err)
		}
		exports[p.ImportPath] = p.Export
		if p.DepOnly {
			continue
		}
		s := &sources{p.ImportPath, map[string]*ast.File{}}
		for _, name := range p.GoFiles {
			path := filepath.Join(p.Dir, name)
			f, err := parser.ParseFile(c.files, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return fmt.Errorf("parse: %w", err)
			}
			s.files[path] = f
		}
		folder, err := filepath.Rel(c.root, p.Dir)
		if err != nil {
			return fmt.Errorf("list: %w", err)
		}
		c.packages[folder] = s
	}
}

// check reports whether a mutant applies, and would build. Mutants of tests, and of files
// that are not Go, need only apply.
func (c *checker) check(m mutant) error {
	text, err := m.apply(c.root)
	if err != nil || !goSource(m.file) {
		return err
	}
	s := c.packages[source(c.root, m.file)]
	if s == nil {
		return fmt.Errorf("no package for %s", m.file)
	}
	path := filepath.Join(c.root, m.file)
	mutated, err := parser.ParseFile(c.files, path, text, parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("does not build: %w", err)
	}
	files := []*ast.File{mutated}
	for other, f := range s.files {
		if other != path {
			files = append(files, f)
		}
	}
	config := types.Config{Importer: c.imports}
	if _, err := config.Check(s.path, c.files, files, nil); err != nil {
		return fmt.Errorf("does not build: %w", err)
	}
	return nil
}

func goSource(file string) bool {
	return strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go")
}
