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
)

// worker sends the transfers. If it ends by itself, it sends its error on ended.
type worker interface {
	start() (ended <-chan error, err error)
	stop() error
}

// workerCommand is the argument that makes this program a worker.
const workerCommand = "worker"

// work is a whole worker process: it runs the service until its standard input ends.
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
	return s.run(ctx)
}

// process is a worker in its own process.
type process struct {
	job    job
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr bytes.Buffer
	ended  chan error // gets the error with which it ended, and is closed
}

func (p *process) start() (<-chan error, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	line, err := json.Marshal(p.job)
	if err != nil {
		return nil, err
	}
	p.stderr.Reset()
	p.cmd = exec.Command(self, workerCommand)
	p.cmd.Stderr = &p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the parent
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	cmd, ended := p.cmd, make(chan error, 1)
	p.ended = ended
	go func() {
		defer close(ended)
		if err := cmd.Wait(); err != nil {
			ended <- fmt.Errorf("worker %d: %w\n%s", cmd.Process.Pid, err, bytes.TrimSpace(p.stderr.Bytes()))
		}
	}()
	if _, err := p.stdin.Write(append(line, '\n')); err != nil {
		p.kill()
		return nil, err
	}
	return ended, nil
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

// local is a worker in this process.
type local struct {
	service *service
	cancel  context.CancelFunc
	ended   chan error
}

func inProcess(s *service) *local { return &local{service: s} }

func (l *local) start() (<-chan error, error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	l.cancel, l.ended = cancel, ended
	go func() {
		defer close(ended)
		if err := l.service.run(ctx); err != nil {
			ended <- err
		}
	}()
	return ended, nil
}

func (l *local) stop() error {
	if l.cancel == nil {
		return nil
	}
	l.cancel()
	return errors.Join(<-l.ended)
}
