// Testrun runs the tests of this repository, "quick" or all of them ("test"), and prints a line
// for each package. It fails if a test fails or is skipped, because a test that is silently left
// out protects nothing. It also fails if no run of "test" reports a test that the files contain.
// Only three kinds may be skipped: the parts of store/storetest for abilities that a store does
// not declare; a test that calls internal/tier to say that it does not belong to this run, and
// that passed in another; and what make soak runs.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

const root = "../.." // for go run -C internal/tools ./testrun

// settings returns the environment settings that each command of go gets in addition.
func settings() []string {
	return []string{
		// cgo compiles SQLite in a third of the time; make test compiles it twice.
		"CGO_CFLAGS=-O1",
		// The build cache then serves every clone and work tree of this repository.
		"GOFLAGS=" + strings.TrimSpace(os.Getenv("GOFLAGS")+" -trimpath"),
	}
}

func main() {
	if len(os.Args) != 2 || commandPlans[os.Args[1]] == nil {
		fatal(errors.New("want one argument: quick or test"))
	}
	begin := time.Now()
	plan := commandPlans[os.Args[1]]
	total := &results{}
	for _, stage := range plan() {
		var all sync.WaitGroup
		for _, line := range stage {
			all.Go(func() {
				for _, r := range line {
					r.run(total)
				}
			})
		}
		all.Wait()
	}
	fmt.Printf("%.0f s, of %.0f s of CPU\n", time.Since(begin).Seconds(), total.cpu.Seconds())
	quick := os.Args[1] == "quick"
	err := total.check(quick)
	if !quick {
		err = errors.Join(err, total.unseen(root))
	}
	if err != nil {
		fatal(err)
	}
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "testrun:", err)
	os.Exit(1)
}

// run runs the command, prints its output, and adds its tests to the results.
func (r goCommand) run(total *results) {
	args := r.args
	if r.args[0] == "test" {
		// Without debug information a test is linked in half of the time, and go vet runs before.
		// The timeout only ends tests that hang, even on a busy machine.
		args = slices.Concat([]string{"test", "-json", "-vet=off", "-ldflags=-w", "-timeout=40m"}, r.args[1:])
	}
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = root+"/"+r.module, append(os.Environ(), settings()...)
	title := strings.Join(slices.Concat([]string{"go"}, r.args[:1], []string{"-C", r.module}, r.args[1:]), " ")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fatal(err)
	}
	fmt.Println(title)
	began := time.Now()
	n, unread := report(bufio.NewReaderSize(out, 1<<20), total)
	if unread != nil {
		_, _ = io.Copy(os.Stdout, out) // otherwise the command would block on its output
	}
	err = errors.Join(unread, cmd.Wait())
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	fmt.Printf("%s: %d passed, %d failed, %.0f s, of %.0f s of CPU\n", title, n.passed, n.failed, time.Since(began).Seconds(), cpu.Seconds())
	if err != nil {
		err = fmt.Errorf("%s: %w", title, err)
	} else if r.args[0] == "test" && n.passed == 0 {
		err = fmt.Errorf("%s: no test ran", title)
	}
	total.end(cpu, err)
}
