package demo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// WorkerCommand is the argument with which a program becomes a worker: its main function then
// calls [Work].
const WorkerCommand = "worker"

// Work runs a whole worker process. It reads its job, a line of JSON, and calls run. The context
// of run ends with the standard input, and so also when the parent dies.
func Work[J any](in io.Reader, run func(ctx context.Context, job J) error) error {
	lines := bufio.NewReader(in)
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return err
	}
	var job J
	if err := json.Unmarshal(line, &job); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		defer stop()
		_, _ = io.Copy(io.Discard, lines)
	}()
	return run(ctx, job)
}

// Process is a worker in a process of its own, which may be started again after its end.
type Process struct {
	Job        any               // given to the worker as JSON
	HandleLine func(line string) // called with each line of output, the last before ended is closed; may be nil

	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr bytes.Buffer
	ended  chan error
}

// Start starts the worker. ended receives the error with which the worker ended, if any, and is
// closed.
func (p *Process) Start() (ended <-chan error, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	line, err := json.Marshal(p.Job)
	if err != nil {
		return nil, err
	}
	p.stderr.Reset()
	cmd := exec.Command(self, WorkerCommand)
	cmd.Stderr = &p.stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that Ctrl-C reaches the parent only
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	var stdout io.Reader = bytes.NewReader(nil)
	if p.HandleLine != nil {
		if stdout, err = cmd.StdoutPipe(); err != nil {
			return nil, err
		}
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	end := make(chan error, 1)
	p.cmd, p.ended = cmd, end
	go func() {
		defer close(end)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			p.HandleLine(lines.Text())
		}
		if err := cmd.Wait(); err != nil {
			end <- fmt.Errorf("worker %d: %w\n%s", cmd.Process.Pid, err, bytes.TrimSpace(p.stderr.Bytes()))
		}
	}()
	if _, err := p.stdin.Write(append(line, '\n')); err != nil {
		p.Kill()
		return nil, err
	}
	return end, nil
}

// PID returns the id of the process that was started last.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Kill sends SIGKILL.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // the process may have ended already
	for range p.ended {
	}
	_ = p.stdin.Close()
}

// Stop lets the worker finish its work, for at most 20 s. It does nothing before the first Start.
func (p *Process) Stop() error {
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
		p.Kill()
		return fmt.Errorf("worker %d did not stop", p.PID())
	}
}
