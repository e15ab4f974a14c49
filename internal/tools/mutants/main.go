// Mutants breaks the code on purpose, one small change at a time, and prints the changes that no
// test notices. The seed chooses the changes, and by default the number of the week is the seed.
// With -promises it makes the breakages of promises instead, for each of which one named test must
// fail; with -check it only checks, in seconds, that these still apply and build. It never writes
// to the tree itself.
package main

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// wholeLibrary is the library: these packages, with all packages of the module that they import.
const wholeLibrary = "./cmd/dltbatch ./otelbatch ./probe ./batch/autobatch ./store/memory ./dlt/memory ./dlt/sawtooth ./dlt/splinter ./dlt/canton ./dlt/evm"

func main() {
	year, week := time.Now().ISOWeek()
	check := flag.Bool("check", false, "only see that the breaks of promises apply and build")
	breaks := flag.Bool("promises", false, "try the breaks of promises")
	only := flag.String("only", "", "of -promises: those whose name contains this")
	packages := flag.String("packages", "", "folders, such as './store ./queuer', in place of the whole library")
	n := flag.Int("n", 10, "changes of each package")
	seed := flag.Uint64("seed", uint64(year*100+week), "chooses the changes, and the order of the packages")
	limit := flag.Duration("time", 3*time.Hour, "begin no change after this time")
	root := flag.String("root", "../..", "the module's root")
	flag.Parse()
	dir, err := filepath.Abs(*root)
	if err == nil {
		switch {
		case *check || *breaks:
			err = tryPromises(dir, *only, *check)
		default:
			fmt.Printf("seed %d\n", *seed)
			err = tryRandomChanges(dir, *packages, *seed, *n, time.Now().Add(*limit))
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// tryRandomChanges tries n changes of each package, and prints those that no test notices.
func tryRandomChanges(root, packages string, seed uint64, n int, end time.Time) error {
	accepted, err := readSurvivors(filepath.Join(root, "internal/tools/mutants/survivors.txt"))
	if err != nil {
		return err
	}
	patterns := strings.Fields(packages)
	if len(patterns) == 0 {
		patterns = strings.Fields(wholeLibrary)
	}
	t, err := loadTree(root, patterns)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	b := &changeTrier{root, tmp, map[string]coverage{}}
	rng := rand.New(rand.NewPCG(seed, 0))
	dirs := slices.Sorted(maps.Keys(t.pkgs))
	rng.Shuffle(len(dirs), func(i, j int) { dirs[i], dirs[j] = dirs[j], dirs[i] })
	var bad []error
	for _, dir := range dirs {
		p := t.pkgs[dir]
		if packages != "" && !p.isNamed {
			continue
		}
		all, err := t.changes(p)
		if err != nil {
			return err
		}
		tried, dead := 0, 0
		for _, c := range mixOperators(rng, accepted.leaveOut(dir, all)) {
			if tried == n || time.Now().After(end) {
				break
			}
			text := c.apply(p.src[filepath.Join(root, c.file)])
			if t.checkBuilds(c.file, text) != nil {
				continue
			}
			start := time.Now()
			v, by, err := b.tryChange(p, c, text)
			if err != nil {
				bad = append(bad, fmt.Errorf("%s: %w", dir, err))
				break
			}
			tried++
			if v == verdictKilled {
				dead++
				fmt.Printf("killed by %s in %.0f s: %s %s %s: %s -> %s\n", by.dir, time.Since(start).Seconds(), dir, c.function, c.operator, oneLine(c.oldText), oneLine(c.newText))
				continue
			}
			fmt.Printf("\n%s\n%s\n\n", v, c.entry(dir))
		}
		fmt.Printf("%s: %d of %d killed\n", dir, dead, tried)
	}
	bad = append(bad, accepted.staleEntries(func(dir string) bool { return packages == "" || t.pkgs[dir] != nil && t.pkgs[dir].isNamed })...)
	return errors.Join(bad...)
}

// mixOperators shuffles changes so that the operators alternate: otherwise most changes would be
// of constants.
func mixOperators(rng *rand.Rand, all []change) []change {
	by := map[string][]change{}
	for _, c := range all {
		by[c.operator] = append(by[c.operator], c)
	}
	ops := slices.Sorted(maps.Keys(by))
	rng.Shuffle(len(ops), func(i, j int) { ops[i], ops[j] = ops[j], ops[i] })
	for _, op := range ops {
		rng.Shuffle(len(by[op]), func(i, j int) { by[op][i], by[op][j] = by[op][j], by[op][i] })
	}
	mixed := make([]change, 0, len(all))
	for i := 0; len(mixed) < len(all); i++ {
		for _, op := range ops {
			if i < len(by[op]) {
				mixed = append(mixed, by[op][i])
			}
		}
	}
	return mixed
}

func (c change) apply(src []byte) string {
	return string(src[:c.start]) + c.newText + string(src[c.start+len(c.oldText):])
}
