package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// process is one life of a worker.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr bytes.Buffer
	ended  chan struct{}
	err    error // the error with which it ended
}

// start starts a worker. All its notes go to hear, before the process counts as ended.
func start(j job, hear func(note)) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(self, workerCommand), ended: make(chan struct{})}
	p.cmd.Stderr = &p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the parent
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.ended)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			var n note
			if json.Unmarshal(lines.Bytes(), &n) == nil { // a killed worker's last line may be cut
				hear(n)
			}
		}
		p.err = p.cmd.Wait()
	}()
	if err := json.NewEncoder(p.stdin).Encode(j); err != nil {
		p.kill()
		return nil, errors.Join(err, p.failed())
	}
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// kill is kill -9.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended already
	<-p.ended
	_ = p.stdin.Close()
}

// stop lets the worker finish its work.
func (p *process) stop() error {
	_ = p.stdin.Close()
	timer := time.NewTimer(10 * time.Second)
	defer timer.Stop()
	select {
	case <-p.ended:
		if p.err != nil {
			return p.failed()
		}
		return nil
	case <-timer.C:
		p.kill()
		return fmt.Errorf("worker %d did not stop", p.pid())
	}
}

// failed returns the error of a worker that ended by itself.
func (p *process) failed() error {
	return fmt.Errorf("worker %d ended by itself: %w\n%s", p.pid(), errors.Join(p.err), bytes.TrimSpace(p.stderr.Bytes()))
}
