// Compare runs the benchmarks of packages in this tree and at another revision, in turns, and
// prints benchstat's comparison of the two. The other tree is a git worktree in a temporary
// folder. This tree is used as it is, with changes that were not committed.
//
//	go run -C internal/tools ./compare -base main [folder ...]
//
// Folders are packages, relative to the root; without folders, all packages of the root's module
// that have benchmarks are compared. A package that the base does not have is left out.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	c := comparison{out: os.Stdout}
	flag.StringVar(&c.root, "root", "../..", "the module's root")
	flag.StringVar(&c.baseRevision, "base", "", "revision to compare with")
	flag.StringVar(&c.benchPattern, "bench", ".", "benchmarks, as go test takes them")
	flag.StringVar(&c.benchTime, "time", "0.5s", "how long each runs, as go test takes it")
	flag.IntVar(&c.rounds, "rounds", 6, "how often each runs; fewer than 6 prove little")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := c.run(ctx, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

type comparison struct {
	root, baseRevision      string
	benchPattern, benchTime string
	rounds                  int
	out                     io.Writer
}

// comparedTree is one of the two trees whose benchmarks are compared.
type comparedTree struct {
	name, root string
	binaries   []string // of the folders, in their order
	results    string   // name of the file
}

func (c *comparison) run(ctx context.Context, folders []string) (err error) {
	if c.baseRevision == "" {
		return errors.New("-base: want a revision to compare with")
	}
	if c.root, err = filepath.Abs(c.root); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "compare")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	tree := filepath.Join(tmp, "base")
	if _, err := runCommand(ctx, c.root, "git", "worktree", "add", "--quiet", "--detach", tree, c.baseRevision); err != nil {
		return err
	}
	defer func() {
		// The worktree is removed even when ctx is done; otherwise git would still list it.
		_, e := runCommand(context.WithoutCancel(ctx), c.root, "git", "worktree", "remove", "--force", tree)
		err = errors.Join(err, e)
	}()
	if len(folders) == 0 {
		if folders, err = withBenchmarks(c.root); err != nil {
			return err
		}
	}
	folders = slices.DeleteFunc(folders, func(f string) bool {
		found, e := hasBenchmark(filepath.Join(tree, f))
		if e != nil || !found {
			fmt.Fprintf(c.out, "%s: the base has no benchmarks there\n", f)
		}
		return e != nil || !found
	})
	if len(folders) == 0 {
		return errors.New("no benchmarks that both have")
	}
	sides := []*comparedTree{{name: "base", root: tree}, {name: "change", root: c.root}}
	for _, s := range sides {
		if err := s.buildTests(ctx, tmp, folders); err != nil {
			return err
		}
	}
	for round := range c.rounds {
		for i, folder := range folders {
			for k := range sides { // the trees take turns at being first
				s := sides[(k+round)%2]
				fmt.Fprintf(c.out, "%d/%d %s %s\n", round+1, c.rounds, folder, s.name)
				if err := s.runBenchmarks(ctx, folder, s.binaries[i], c.benchPattern, c.benchTime); err != nil {
					return err
				}
			}
		}
	}
	said, err := runCommand(ctx, "", "go", "tool", "benchstat", "base="+sides[0].results, "change="+sides[1].results)
	if err != nil {
		return err
	}
	_, err = c.out.Write(said)
	return err
}

func (s *comparedTree) buildTests(ctx context.Context, tmp string, folders []string) error {
	s.results = filepath.Join(tmp, s.name+".txt")
	for i, f := range folders {
		binary := filepath.Join(tmp, fmt.Sprintf("%s%d.test", s.name, i))
		if _, err := runCommand(ctx, filepath.Join(s.root, f), "go", "test", "-c", "-o", binary, "."); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		s.binaries = append(s.binaries, binary)
	}
	return nil
}

func (s *comparedTree) runBenchmarks(ctx context.Context, folder, binary, bench, time string) error {
	said, err := runCommand(ctx, filepath.Join(s.root, folder), binary,
		"-test.run", "^$", "-test.bench", bench, "-test.benchtime", time, "-test.benchmem", "-test.timeout", "1h")
	if err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	f, err := os.OpenFile(s.results, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(said)
	return errors.Join(err, f.Close())
}

// runCommand runs a program and returns its standard output.
func runCommand(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var failure bytes.Buffer
	cmd.Stderr = &failure
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s%s", name, strings.Join(args, " "), err, failure.Bytes(), out)
	}
	return out, nil
}

// withBenchmarks returns the folders of the module at root that have benchmarks.
func withBenchmarks(root string) (folders []string, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil && path != root || strings.HasPrefix(d.Name(), ".") && path != root {
			return fs.SkipDir // another module, or a folder that go ignores
		}
		found, err := hasBenchmark(path)
		if err != nil || !found {
			return err
		}
		folder, err := filepath.Rel(root, path)
		folders = append(folders, folder)
		return err
	})
	return folders, err
}

func hasBenchmark(dir string) (bool, error) {
	tests, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return false, err
	}
	for _, t := range tests {
		text, err := os.ReadFile(t)
		if err != nil {
			return false, err
		}
		if bytes.Contains(text, []byte("\nfunc Benchmark")) {
			return true, nil
		}
	}
	return false, nil
}
