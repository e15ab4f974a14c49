package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// modules is the path of the root's module. The paths of the other modules begin with it and end
// with their folders.
const modules = "github.com/dltbatch/dltbatch"

var declared = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)(?:[^a-z\s(][^\s(]*)?)\(\w+ \*testing\.[TF]\)`)

// unseen returns an error for each test in the files below a folder that neither passed nor was
// skipped: it has a build tag, is in a folder that go ignores, is in a module that no run names,
// or TestMain ended before it.
func (r *results) unseen(folder string) error {
	var errs []error
	err := filepath.WalkDir(folder, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		inside, err := filepath.Rel(folder, file)
		if err != nil {
			return err
		}
		if d.IsDir() && (modulesLeftOut[inside] != "" || strings.HasPrefix(d.Name(), ".git") || d.Name() == "node_modules") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(file, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, found := range declared.FindAllSubmatch(text, -1) {
			t := test{path.Join(modules, filepath.ToSlash(filepath.Dir(inside))), string(found[1])}
			if _, skipped := r.skipped[t]; !skipped && !r.passed[t] && t.name != "TestMain" {
				errs = append(errs, fmt.Errorf("%s %s ended in no run: %s", t.pkg, t.name, inside))
			}
		}
		return nil
	})
	return errors.Join(append(errs, err)...)
}
