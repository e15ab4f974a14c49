package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"syscall"
	"time"
)

// roleVariable is the environment variable that makes this program one of its own children.
const roleVariable = "DLTBATCH_YARD_ROLE"

// The roles.
const (
	roleLedger = "ledger" // prints its URL, and serves until its standard input ends
	roleJob    = "job"    // reads a job, and writes a result
	roleAdder  = "adds"   // reads a job, adds its batches, and writes the times of each batch
)

// runAsChild does the work of a child process, and reports whether this process is one.
func runAsChild() bool {
	var err error
	switch os.Getenv(roleVariable) {
	case "":
		return false
	case roleLedger:
		err = serveLedger(os.Stdin, os.Stdout)
	case roleJob:
		err = runJobFromInput(os.Stdin, os.Stdout, runJob)
	case roleAdder:
		err = runJobFromInput(os.Stdin, os.Stdout, func(ctx context.Context, j job) (addReport, error) { return j.runAdder(ctx) })
	default:
		err = fmt.Errorf("no role %q", os.Getenv(roleVariable))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

func serveLedger(in io.Reader, out io.Writer) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := &http.Server{Handler: newFakeLedger(), ReadHeaderTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	if _, err := fmt.Fprintf(out, "http://%s\n", l.Addr()); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, in)
		_ = s.Close()
	}()
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// runJobFromInput reads a job, runs do with it, and writes the result.
func runJobFromInput[T any](in io.Reader, out io.Writer, do func(context.Context, job) (T, error)) error {
	var j job
	if err := json.NewDecoder(in).Decode(&j); err != nil {
		return err
	}
	if j.Contender == contenderFloor {
		debug.SetGCPercent(floorGOGC)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if j.Profile != "" {
		f, err := os.Create(j.Profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	r, err := do(ctx, j)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(r)
}

func childCommand(ctx context.Context, as string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), roleVariable+"="+as)
	cmd.Stderr = os.Stderr
	return cmd, nil
}

// ledgerProcess is the process of the fake ledger.
type ledgerProcess struct {
	url  string
	pid  int
	stop func() error
}

func startLedger(ctx context.Context) (*ledgerProcess, error) {
	cmd, err := childCommand(ctx, roleLedger)
	if err != nil {
		return nil, err
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	end := func() error { return errors.Join(in.Close(), cmd.Wait()) }
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the fake ledger did not start: %w", err), end())
	}
	return &ledgerProcess{strings.TrimSpace(line), cmd.Process.Pid, end}, nil
}

// runInChild runs a job in a process of its own.
func runInChild(ctx context.Context, j job) (r result, err error) {
	return r, runInProcess(ctx, roleJob, j, &r)
}

// runInProcess runs a job in a process of its own with the role as, and decodes its result into
// came.
func runInProcess(ctx context.Context, as string, j job, came any) error {
	cmd, err := childCommand(ctx, as)
	if err != nil {
		return err
	}
	text, err := json.Marshal(j)
	if err != nil {
		return err
	}
	cmd.Stdin = strings.NewReader(string(text))
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	return json.Unmarshal(out, came)
}
