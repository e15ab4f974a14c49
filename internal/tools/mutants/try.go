package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// test names the tests of a package, or some of them.
type test struct {
	dir  string // relative to the root; the package may be of another module
	run  string // a pattern for go test -run
	long bool   // includes the tests that make quick leaves out
}

const integrationFolder = "internal/integration"

// testsElsewhere lists tests of other packages that must notice a change of a package, cheapest
// first.
var testsElsewhere = map[string][]test{
	".":                             {{dir: "internal/sim", run: "TestRunner|TestOperators"}},
	"batch":                         {{dir: "store"}, {dir: "queuer"}, {dir: "batch/autobatch"}, {dir: "internal/sim", run: "Decisions"}},
	"batch/autobatch":               {{dir: "internal/ordercrash"}},
	"dlt":                           {{dir: "dlt/dlttest"}, {dir: "dlt/memory"}, {dir: "."}},
	"dlt/canton":                    {{dir: "dlt/canton/cantontest"}},
	"dlt/evm":                       {{dir: "dlt/evm/evmtest"}},
	"dlt/evm/internal/evmtx":        {{dir: "dlt/evm"}},
	"dlt/internal/wire":             {{dir: "dlt/sawtooth"}, {dir: "dlt/splinter"}, {dir: "dlt/canton"}},
	"internal/acts":                 {{dir: "operator"}},
	"internal/await":                {{dir: "batch/autobatch"}, {dir: "."}},
	"internal/events":               {{dir: "."}},
	"internal/explain":              {{dir: "operator"}, {dir: "."}},
	"internal/recall":               {{dir: "."}},
	"internal/inhand":               {{dir: "monitor"}, {dir: "."}},
	"internal/claim":                {{dir: "internal/sim", run: "TestRunner"}, {dir: "."}},
	"internal/lanes":                {{dir: "internal/claim"}},
	"internal/loop":                 {{dir: "."}},
	"internal/pgsettings":           {{dir: "store/postgres"}},
	"internal/position":             {{dir: integrationFolder, run: "Slow|Hidden|Held|Requeue|TestStore/native$", long: true}},
	"internal/relied":               {{dir: "."}},
	"internal/sqlstore":             {{dir: "store/sqlite"}, {dir: integrationFolder, run: "TestStore/native$|TestOrders/native$", long: true}},
	"internal/submit":               {{dir: "internal/sim", run: "TestRunner"}, {dir: "."}},
	"internal/traces":               {{dir: "."}, {dir: "batch/autobatch"}},
	"internal/wall":                 {{dir: "internal/submit"}},
	"monitor":                       {{dir: "dlt/sawtooth"}, {dir: "internal/sim", run: "Decisions|TestRunner"}, {dir: "."}},
	"queuer":                        {{dir: "internal/sim", run: "Decisions|TestRunner"}, {dir: "internal/claim"}, {dir: "."}},
	"store":                         {{dir: "store/memory"}, {dir: "monitor"}, {dir: "internal/sim", run: "Decisions"}},
	"store/memory":                  {{dir: "internal/sim", run: "Decisions"}, {dir: "."}},
	"store/postgres":                {{dir: integrationFolder, run: "TestStore/native$|TestOrders/native$", long: true}, {dir: integrationFolder, long: true}},
	"store/postgres/internal/conns": {{dir: "store/postgres"}, {dir: integrationFolder, run: "TestStore/native$", long: true}},
	"store/postgres/native":         {{dir: integrationFolder, run: "native", long: true}},
	"store/sqlite":                  {{dir: "internal/flaky"}},
	"store/sqlite/sqliteopen":       {{dir: "store/sqlite"}},
	"submitter":                     {{dir: "internal/submit"}, {dir: "internal/sim", run: "Decisions|TestRunner"}, {dir: "."}},
}

// testsFor returns the tests for a package: first its own short ones, then those of other
// packages, and then all of its own.
func testsFor(dir string) []test {
	return slices.Concat([]test{{dir: dir}}, testsElsewhere[dir], []test{{dir: dir, long: true}})
}

// testVerdict is what the tests say about a change of the code.
type testVerdict string

const (
	verdictKilled     testVerdict = "killed"
	verdictSurvived   testVerdict = "survived"
	verdictNotCovered testVerdict = "survived: no test comes by"
)

// changeTrier runs tests on changed code with overlays, so that it never writes to the tree
// itself.
type changeTrier struct {
	root, tempFolder string
	profiles         map[string]coverage // by test and package
}

// coverage says which lines of a package a test executes, and how long the test takes.
type coverage struct {
	coveredLines map[string][][2]int // ranges of lines, by file
	duration     time.Duration
}

// tryChange runs the tests that execute the line of a change, until one fails.
func (b *changeTrier) tryChange(p *pkg, c change, text string) (testVerdict, test, error) {
	line := 1 + strings.Count(string(p.src[filepath.Join(b.root, c.file)][:c.start]), "\n")
	v := verdictNotCovered
	for _, t := range testsFor(p.dir) {
		seen, err := b.profileOf(p, t)
		if err != nil {
			return "", t, err
		}
		// Coverage has no line for a package's variable, or for the later lines of a statement.
		if !seen.covers(c.file, line) && c.function != "-" {
			continue
		}
		v = verdictSurvived
		if failed, err := b.testFails(t, c.file, text, 3*seen.duration+20*time.Second); failed || err != nil {
			return verdictKilled, t, err
		}
	}
	return v, test{}, nil
}

func (p coverage) covers(file string, line int) bool {
	for _, r := range p.coveredLines[file] {
		if r[0] <= line && line <= r[1] {
			return true
		}
	}
	return false
}

// profileOf runs a test on the unchanged tree.
func (b *changeTrier) profileOf(p *pkg, t test) (coverage, error) {
	key := fmt.Sprint(t, p.dir)
	if known, ok := b.profiles[key]; ok {
		return known, nil
	}
	out := filepath.Join(b.tempFolder, "cover")
	if err := os.WriteFile(out, nil, 0o644); err != nil {
		return coverage{}, err
	}
	start := time.Now()
	text, err := b.runTest(t, "-coverpkg="+p.path, "-coverprofile="+out)
	if err != nil && !strings.Contains(text, "no test files") {
		return coverage{}, fmt.Errorf("%s does not pass on the tree as it is: %w\n%s", t.dir, err, text)
	}
	found := coverage{map[string][][2]int{}, time.Since(start)}
	data, err := os.ReadFile(out)
	if err != nil {
		return coverage{}, err
	}
	for l := range strings.Lines(string(data)) {
		var from, fromCol, to, toCol, n, count int
		name, rest, _ := strings.Cut(l, ":")
		if _, err := fmt.Sscanf(rest, "%d.%d,%d.%d %d %d", &from, &fromCol, &to, &toCol, &n, &count); err == nil && count > 0 {
			file := path.Join(p.dir, path.Base(name))
			found.coveredLines[file] = append(found.coveredLines[file], [2]int{from, to})
		}
	}
	b.profiles[key] = found
	return found, nil
}

// testFails reports whether a test fails after one file was replaced by text.
func (b *changeTrier) testFails(t test, file, text string, limit time.Duration) (bool, error) {
	changed, overlay := filepath.Join(b.tempFolder, "changed.go"), filepath.Join(b.tempFolder, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(b.root, file): changed}})
	if err != nil {
		return false, err
	}
	if err := errors.Join(os.WriteFile(changed, []byte(text), 0o644), os.WriteFile(overlay, replace, 0o644)); err != nil {
		return false, err
	}
	out, err := b.runTest(t, "-failfast", "-overlay="+overlay, "-timeout="+limit.String())
	if err != nil && !strings.Contains(out, "FAIL") || strings.Contains(out, "[build failed]") || strings.Contains(out, "[setup failed]") {
		return false, fmt.Errorf("%s did not run: %w\n%s", t.dir, err, out)
	}
	return err != nil, nil
}

func (b *changeTrier) runTest(t test, args ...string) (string, error) {
	home := filepath.Join(b.root, t.dir)
	for home != b.root {
		if _, err := os.Stat(filepath.Join(home, "go.mod")); err == nil {
			break
		}
		home = filepath.Dir(home)
	}
	folder, err := filepath.Rel(home, filepath.Join(b.root, t.dir))
	if err != nil {
		return "", err
	}
	// vet and debug information are left out, because they take as long as most tests.
	args = append([]string{"test", "-vet=off", "-ldflags=-w", "-count=1", "-run=" + t.run, "-short=" + strconv.FormatBool(!t.long)}, args...)
	cmd := exec.Command("go", append(args, "./"+filepath.ToSlash(folder))...)
	cmd.Dir = home
	out, err := cmd.CombinedOutput()
	return string(out), err
}
