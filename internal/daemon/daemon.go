// Package daemon runs servers for tests. On Linux the kernel kills them when the process that
// started them ends, however it ends.
package daemon

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// How long a server may take to start, and to stop before it is killed.
const (
	startTimeout = time.Minute
	stopTimeout  = 20 * time.Second
)

// Process is a running server.
type Process struct {
	cmd        *exec.Cmd
	stopSignal syscall.Signal
	endedChan  <-chan struct{}
	readyLine  string
}

// Start starts a program without waiting for its output. ended is closed when the program has
// ended. When this process dies, the kernel sends the program the signal last.
func Start(cmd *exec.Cmd, last syscall.Signal) (ended <-chan struct{}, err error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	DieWithParent(cmd.SysProcAttr, last)
	started, end := make(chan error), make(chan struct{})
	go func() {
		// The kernel sends the signal when the thread that started the program ends, so this
		// thread must not end.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // the program's output says how it ended
		}
		close(end)
	}()
	return end, <-started
}

// Run starts a server as Start does, and waits until a line of its output contains ready.
func Run(cmd *exec.Cmd, ready string, last syscall.Signal) (*Process, error) {
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = in, in
	p := &Process{cmd: cmd, stopSignal: last}
	p.endedChan, err = Start(cmd, last)
	err = errors.Join(err, in.Close())
	if err != nil {
		return nil, errors.Join(err, out.Close())
	}
	said := make(chan firstReport, 1)
	go readOutput(out, ready, said)
	timer := time.NewTimer(startTimeout)
	defer timer.Stop()
	select {
	case l := <-said:
		if l.ready {
			p.readyLine = l.text
			return p, nil
		}
		p.Stop()
		return nil, fmt.Errorf("%s: ended: %s", cmd.Path, l.text)
	case <-timer.C:
		p.Stop()
		return nil, fmt.Errorf("%s is not ready after %s", cmd.Path, startTimeout)
	}
}

// firstReport is the first report about a server: that it is ready, or that it has ended, with all
// its output.
type firstReport struct {
	ready bool
	text  string
}

// readOutput reads the server's output to its end, and sends the first report to said.
func readOutput(out io.ReadCloser, ready string, said chan<- firstReport) {
	defer func() { _ = out.Close() }() // after the server has ended
	var all strings.Builder
	waiting := true
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if !waiting {
			continue
		}
		all.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), ready) {
			waiting = false
			said <- firstReport{true, lines.Text()}
		}
	}
	if waiting {
		said <- firstReport{false, all.String()}
	}
}

// ReadyLine returns the output line that contained ready.
func (p *Process) ReadyLine() string { return p.readyLine }

// Crash kills the server with SIGKILL, and waits for its end.
func (p *Process) Crash() error {
	if err := p.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill %s: %w", p.cmd.Path, err)
	}
	<-p.endedChan
	return nil
}

// Stop sends the server its last signal, and kills it if it does not end in time.
func (p *Process) Stop() {
	_ = p.cmd.Process.Signal(p.stopSignal) // the server may have ended already
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-p.endedChan:
	case <-timer.C:
		_ = p.cmd.Process.Kill()
		<-p.endedChan
	}
}
