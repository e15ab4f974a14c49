// Mutants breaks the code on purpose, one way at a time, and requires that the test
// named for it fails. With -check it only makes sure that every mutant still
// applies (its text occurs once) and would build; with -texts only that it applies, which
// takes a second. The tree itself is never written to.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// mutant is one way of breaking the code.
type mutant struct {
	name     string
	file     string // from the root of the module
	old, new string // old occurs once, except for at
	at       int    // where old is, if it was drawn
	more     string // put at the file's end
	pkg      string // the package of the test that must fail, from the root; it may be of another module
	test     string // a -run pattern
	args     []string
}

func main() {
	check := flag.Bool("check", false, "only apply and build")
	texts := flag.Bool("texts", false, "only see that each applies")
	only := flag.String("only", "", "only mutants whose name contains this")
	root := flag.String("root", "../..", "the module's root")
	n := flag.Int("draw", 0, "break so many statements that no mutant touches, and say which nobody noticed")
	seed := flag.Uint64("seed", 1, "of -draw")
	flag.Parse()
	if *n > 0 {
		if err := drawAll(*root, *seed, *n); err != nil {
			fmt.Fprintln(os.Stderr, "mutants:", err)
			os.Exit(1)
		}
		return
	}
	if err := run(*root, *only, *check, *texts); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(root, only string, check, texts bool) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	var bad []string
	sound := map[string]error{} // the named tests on the tree as it is
	var c *checker
	if check {
		if c, err = newChecker(root, every()); err != nil {
			return err
		}
	}
	n := 0
	for _, m := range every() {
		if !strings.Contains(m.name, only) {
			continue
		}
		n++
		start := time.Now()
		var err error
		verdict := "caught"
		switch {
		case texts:
			_, err = m.apply(root)
		case check:
			err = c.check(m)
		default:
			err = m.try(root, tmp, sound)
		}
		if err != nil {
			verdict = "BAD: " + err.Error()
			bad = append(bad, m.name)
		}
		if err != nil || !check && !texts {
			fmt.Printf("%-60s %5.1f s  %s\n", m.name, time.Since(start).Seconds(), verdict)
		}
	}
	fmt.Printf("%d passed, %d failed\n", n-len(bad), len(bad))
	if len(bad) > 0 {
		return fmt.Errorf("%d of %d: %s", len(bad), n, strings.Join(bad, "; "))
	}
	return nil
}

// every returns all mutants of the lists.
func every() []mutant {
	return slices.Concat(list, storeList, operatorList, operatorsList, postgresList, splinterList, evidenceList, handOverList, pipelinedList, autobatchList, ordersList, yardList, plantedList, monitorList, traitsList, storesList, resilienceList, sawtoothsimList, splinterSimList, evmSimList, positionList, heldList, positionsSQLList, walList, lanesList, seenList, statsList, deskList, metricsList, tracesList, notYetList, preparedList, evmList, intentList, alternativeList, consoleList, bulksList, rootList, recentList)
}

// apply returns the file with the mutant.
func (m mutant) apply(root string) (string, error) {
	src, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		return "", err
	}
	if m.at > 0 {
		return string(src[:m.at]) + m.new + string(src[m.at+len(m.old):]), nil
	}
	if c := strings.Count(string(src), m.old); c != 1 {
		return "", fmt.Errorf("its text occurs %d times in %s", c, m.file)
	}
	return strings.Replace(string(src), m.old, m.new, 1) + m.more, nil
}

func (m mutant) try(root, tmp string, sound map[string]error) error {
	path := filepath.Join(root, m.file)
	src, err := m.apply(root)
	if err != nil {
		return err
	}
	mutated := filepath.Join(tmp, "mutated.go")
	if err := os.WriteFile(mutated, []byte(src), 0o644); err != nil {
		return err
	}
	overlay := filepath.Join(tmp, "overlay.json")
	text, err := json.Marshal(map[string]map[string]string{"Replace": {path: mutated}})
	if err != nil {
		return err
	}
	if err := os.WriteFile(overlay, text, 0o644); err != nil {
		return err
	}
	dir, pkg, err := module(root, m.pkg)
	if err != nil {
		return err
	}
	// Without vet and debug information: both take as long as most tests.
	args := append([]string{"-vet=off", "-ldflags=-w", "-count=1", "-run", pattern(m.test), "./" + pkg}, m.args...)
	key := dir + " " + strings.Join(args, " ")
	if _, ok := sound[key]; !ok && sound != nil {
		out, err := command(dir, append([]string{"test", "-v"}, args...)...).CombinedOutput()
		if err == nil && !strings.Contains(string(out), "--- PASS") {
			err = fmt.Errorf("no test of this name")
		}
		if err != nil {
			err = fmt.Errorf("the test does not pass on the tree as it is: %w\n%s", err, out)
		}
		sound[key] = err
	}
	if sound[key] != nil {
		return sound[key]
	}
	test := command(dir, append([]string{"test", "-timeout", "5m", "-overlay", overlay}, args...)...)
	test.Env = append(test.Environ(), "DLTBATCH_TEST_OVERLAY="+overlay) // for tests that read the source
	out, err := test.CombinedOutput()
	switch {
	case err == nil:
		return fmt.Errorf("survived %s in %s", m.test, m.pkg)
	case strings.Contains(string(out), "[build failed]"), strings.Contains(string(out), "[setup failed]"):
		return fmt.Errorf("does not build: %w\n%s", err, out)
	case !strings.Contains(string(out), "FAIL"):
		return fmt.Errorf("the test did not run: %w\n%s", err, out)
	}
	return nil
}

// module returns the folder of the module that a package is in, and the package's
// path from there.
func module(root, pkg string) (dir, path string, err error) {
	for dir = filepath.Join(root, pkg); dir != root; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
	}
	path, err = filepath.Rel(dir, filepath.Join(root, pkg))
	return dir, filepath.ToSlash(path), err
}

// source returns the folder of the package that a file belongs to: its own folder, or, for an
// embedded file, a folder above it.
func source(root, file string) string {
	dir := filepath.Dir(file)
	for dir != "." {
		if found, err := filepath.Glob(filepath.Join(root, dir, "*.go")); err == nil && len(found) > 0 {
			break
		}
		dir = filepath.Dir(dir)
	}
	return dir
}

// pattern anchors each level of a test's name.
func pattern(test string) string {
	levels := strings.Split(test, "/")
	for i, l := range levels {
		levels[i] = "^(" + l + ")$"
	}
	return strings.Join(levels, "/")
}

func command(root string, args ...string) *exec.Cmd {
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	return cmd
}
