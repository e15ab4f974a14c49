package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// test is a package's tests, or some of them.
type test struct {
	dir string // from the root; it may be of another module
	run string // a pattern
}

// also names tests beside a package's own that must notice a change of it, cheapest first. Those
// that do not come by the changed line are not run.
var also = map[string][]test{
	"batch":                         {{"store", "."}, {"queuer", "."}, {"internal/sim", "Decisions"}},
	"dlt":                           {{"dlt/dlttest", "."}, {"dlt/memory", "."}, {".", "."}},
	"dlt/internal/wire":             {{"dlt/sawtooth", "."}, {"dlt/splinter", "."}, {"dlt/canton", "."}},
	"dlt/canton":                    {{"dlt/canton/cantontest", "."}},
	"dlt/evm":                       {{"dlt/evm/evmtest", "."}},
	"store":                         {{"store/memory", "."}, {"monitor", "."}, {"internal/sim", "Decisions"}},
	"store/memory":                  {{"internal/sim", "Decisions"}, {".", "."}},
	"store/sqlite":                  {{"internal/flaky", "."}},
	"store/postgres":                {{"internal/integration", "TestStore/native$|TestOrders/native$"}, {"internal/integration", "."}},
	"store/postgres/native":         {{"internal/integration", "TestStore/native$"}, {"internal/integration", "native"}},
	"store/postgres/internal/conns": {{"store/postgres", "."}, {"internal/integration", "TestStore/native$"}},
	"internal/sqlstore":             {{"store/sqlite", "."}, {"internal/integration", "TestStore/native$|TestOrders/native$"}},
	"internal/position":             {{"internal/integration", "Position|Slow|Held|Hidden|TestStore/native$"}},
	"internal/inhand":               {{"monitor", "."}, {".", "."}},
	"internal/await":                {{".", "."}, {"batch/autobatch", "."}},
	"internal/lanes":                {{"queuer", "."}},
	"internal/acts":                 {{"operator", "."}},
	"internal/explain":              {{"operator", "."}, {".", "."}},
	"internal/wall":                 {{"submitter", "."}},
	"internal/whole":                {{"store/storetest", "."}, {".", "."}},
	"internal/held":                 {{".", "."}},
	"internal/loop":                 {{".", "."}},
	"internal/relied":               {{".", "."}},
	"queuer":                        {{"internal/sim", "Decisions|TestRunner"}, {".", "."}},
	"submitter":                     {{"internal/sim", "Decisions|TestRunner"}, {".", "."}},
	"monitor":                       {{"internal/sim", "Decisions|TestRunner"}, {".", "."}},
	"batch/autobatch":               {{"internal/ordercrash", "."}},
	".":                             {{"internal/sim", "TestRunner|TestOperators"}},
}

// mutated is what tests say to a change of the code.
type verdict string

const (
	killed   verdict = "killed"
	survived verdict = "survived"
	unseen   verdict = "survived: no test comes by"
)

// bench tries changes of the code with overlays: the tree itself is never written to.
type bench struct {
	root, tmp string
	lines     map[string]profile // by test and package
}

// profile is which lines of a package a test comes by, and how long it takes.
type profile struct {
	seen map[string][][2]int // ranges of lines, by file
	took time.Duration
}

// kill runs the tests that come by a change's line, until one fails.
func (b *bench) kill(p *pkg, c change, text string) (verdict, test, error) {
	line := 1 + strings.Count(string(p.src[filepath.Join(b.root, c.file)][:c.start]), "\n")
	v := unseen
	for _, t := range append([]test{{p.dir, "."}}, also[p.dir]...) {
		seen, err := b.profile(p, t)
		if err != nil {
			return "", t, err
		}
		// A statement of several lines, or a package's variable, belongs to no line that is counted.
		if !seen.covers(c.file, line) && c.fn != "-" {
			continue
		}
		v = survived
		if failed, err := b.fails(t, c.file, text, 3*seen.took+20*time.Second); failed || err != nil {
			return killed, t, err
		}
	}
	return v, test{}, nil
}

func (p profile) covers(file string, line int) bool {
	for _, r := range p.seen[file] {
		if r[0] <= line && line <= r[1] {
			return true
		}
	}
	return false
}

// profile runs a test on the tree as it is.
func (b *bench) profile(p *pkg, t test) (profile, error) {
	key := t.dir + " " + t.run + " " + p.dir
	if known, ok := b.lines[key]; ok {
		return known, nil
	}
	out := filepath.Join(b.tmp, "cover")
	if err := os.WriteFile(out, nil, 0o644); err != nil {
		return profile{}, err
	}
	start := time.Now()
	text, err := b.run(t, "-coverpkg="+p.path, "-coverprofile="+out)
	if err != nil && !strings.Contains(text, "no test files") {
		return profile{}, fmt.Errorf("%s does not pass on the tree as it is: %w\n%s", t.dir, err, text)
	}
	found := profile{map[string][][2]int{}, time.Since(start)}
	data, err := os.ReadFile(out)
	if err != nil {
		return profile{}, err
	}
	for l := range strings.Lines(string(data)) {
		var from, fromCol, to, toCol, n, count int
		name, rest, _ := strings.Cut(l, ":")
		if _, err := fmt.Sscanf(rest, "%d.%d,%d.%d %d %d", &from, &fromCol, &to, &toCol, &n, &count); err == nil && count > 0 {
			file := path.Join(p.dir, path.Base(name))
			found.seen[file] = append(found.seen[file], [2]int{from, to})
		}
	}
	b.lines[key] = found
	return found, nil
}

// fails reports whether a test fails with another text of a file.
func (b *bench) fails(t test, file, text string, limit time.Duration) (bool, error) {
	changed, overlay := filepath.Join(b.tmp, "changed.go"), filepath.Join(b.tmp, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(b.root, file): changed}})
	if err != nil {
		return false, err
	}
	if err := errors.Join(os.WriteFile(changed, []byte(text), 0o644), os.WriteFile(overlay, replace, 0o644)); err != nil {
		return false, err
	}
	out, err := b.run(t, "-failfast", "-overlay="+overlay, "-timeout="+limit.String())
	if err != nil && !strings.Contains(out, "FAIL") || strings.Contains(out, "[build failed]") || strings.Contains(out, "[setup failed]") {
		return false, fmt.Errorf("%s did not run: %w\n%s", t.dir, err, out)
	}
	return err != nil, nil
}

func (b *bench) run(t test, args ...string) (string, error) {
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
	// Without vet and debug information, which take as long as most tests.
	cmd := exec.Command("go", append(append([]string{"test", "-vet=off", "-ldflags=-w", "-count=1", "-run=" + t.run}, args...), "./"+filepath.ToSlash(folder))...)
	cmd.Dir = home
	out, err := cmd.CombinedOutput()
	return string(out), err
}
