package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/dlt/evm"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store/sqlite"
	"github.com/dltbatch/dltbatch/store/sqlite/sqliteopen"
)

// job is the input of a process.
type job struct {
	DB      string `json:"db"`
	URL     string `json:"url"`
	Chain   uint64 `json:"chain"`
	Genesis string `json:"genesis"`
}

// service is a Runner on the database and the chain.
type service struct {
	runner *dltbatch.Runner
	close  func()
}

// open starts nothing: the process that adds and awaits does not call Run.
func open(ctx context.Context, j job) (*service, error) {
	db, err := sqliteopen.Open(j.DB)
	if err != nil {
		return nil, fmt.Errorf("%w\n(SQLite needs a C compiler)", err)
	}
	fail := func(err error) (*service, error) { return nil, errors.Join(err, db.Close()) }
	st, err := sqlite.New(db, nil)
	if err == nil {
		err = st.Migrate(ctx)
	}
	if err != nil {
		return fail(err)
	}
	// Keep the defaults of times for real chains: these are for blocks of 250 ms.
	ledger, err := evm.New(j.URL, j.Chain, &evm.Options{
		Genesis: j.Genesis, Finality: evm.After(depth), HeadInterval: blockTime / 4, LateArrival: time.Second, Grace: time.Second,
	})
	if err != nil {
		return fail(err)
	}
	runner, err := dltbatch.New(st, ledger, &dltbatch.Options{
		Strategy: queuer.Pipelined(16),
		// A dead process's claim expires after two seconds; by default after sixty.
		RequestTimeout: time.Second, ClaimTTL: 2 * time.Second, Drain: 3 * time.Second,
		FirstPoll: blockTime / 2, PollInterval: 2 * blockTime, ScanInterval: blockTime, RetryDelay: blockTime,
	})
	if err != nil {
		return fail(err)
	}
	return &service{runner: runner, close: func() { ledger.CloseIdleConnections(); _ = db.Close() }}, nil
}

// workerCommand is the argument that makes this program a worker.
const workerCommand = "worker"

// work is a whole worker process: it sends until its standard input ends.
func work(in io.Reader) error {
	lines := bufio.NewReader(in)
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return err
	}
	var j job
	if err := json.Unmarshal(line, &j); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	s, err := open(ctx, j)
	if err != nil {
		return err
	}
	defer s.close()
	go func() {
		defer stop()
		_, _ = io.Copy(io.Discard, lines) // it ends also if the parent dies
	}()
	return s.runner.Run(ctx)
}

// process is a worker in its own process.
type process struct {
	job    job
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr bytes.Buffer
	ended  chan error // gets the error with which it ended, and is closed
}

func (p *process) start() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	line, err := json.Marshal(p.job)
	if err != nil {
		return err
	}
	p.stderr.Reset()
	p.cmd = exec.Command(self, workerCommand)
	p.cmd.Stderr = &p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the parent
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		p.cmd = nil
		return err
	}
	cmd, ended := p.cmd, make(chan error, 1)
	p.ended = ended
	go func() {
		defer close(ended)
		if err := cmd.Wait(); err != nil {
			ended <- fmt.Errorf("worker %d: %w\n%s", cmd.Process.Pid, err, bytes.TrimSpace(p.stderr.Bytes()))
		}
	}()
	_, err = p.stdin.Write(append(line, '\n'))
	return err
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// kill is kill -9.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended already
	for range p.ended {
	}
	_ = p.stdin.Close()
}

// stop lets the worker finish its work.
func (p *process) stop() error {
	if p.cmd == nil {
		return nil
	}
	_ = p.stdin.Close()
	timer := time.NewTimer(20 * time.Second)
	defer timer.Stop()
	select {
	case err := <-p.ended:
		return err
	case <-timer.C:
		p.kill()
		return fmt.Errorf("worker %d did not stop", p.pid())
	}
}
