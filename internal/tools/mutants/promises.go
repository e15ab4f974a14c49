package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// tryPromises makes the breakages of promises; if check is true, it only checks that each one
// applies and builds.
func tryPromises(root, only string, check bool) error {
	var folders []string
	for _, br := range promiseBreaks {
		folders = append(folders, "./"+filepath.ToSlash(filepath.Dir(br.file)))
	}
	t, err := loadTree(root, folders)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	b := &changeTrier{root, tmp, nil}
	var bad []error
	for _, br := range promiseBreaks {
		if !strings.Contains(br.name, only) {
			continue
		}
		if err := b.tryPromise(t, br, check); err != nil {
			bad = append(bad, fmt.Errorf("%s: %w", br.name, err))
		} else if !check {
			fmt.Printf("seen by %s %s: %s\n", br.test.dir, br.test.run, br.name)
		}
	}
	fmt.Printf("%d breaks of promises, %d of them in vain\n", len(promiseBreaks), len(bad))
	return errors.Join(bad...)
}

func (b *changeTrier) tryPromise(t *tree, br breakage, check bool) error {
	src, err := os.ReadFile(filepath.Join(b.root, br.file))
	if err != nil {
		return err
	}
	if c := strings.Count(string(src), br.old); c != 1 {
		return fmt.Errorf("its text occurs %d times in %s", c, br.file)
	}
	text := strings.Replace(string(src), br.old, br.new, 1)
	if err := t.checkBuilds(br.file, text); err != nil || check {
		return err
	}
	if out, err := b.runTest(br.test, "-v"); err != nil || !strings.Contains(out, "--- PASS") {
		return fmt.Errorf("its test does not pass on the tree as it is, or is not there: %w\n%s", err, out)
	}
	failed, err := b.testFails(br.test, br.file, text, 5*time.Minute)
	if err == nil && !failed {
		err = fmt.Errorf("%s %s does not notice it", br.test.dir, br.test.run)
	}
	return err
}
