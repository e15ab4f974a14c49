package chaos

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/dltbatch/dltbatch/internal/daemon"
)

// childProcess is a child: this test binary with a job.
type childProcess struct {
	name      string
	firstLine []string // the words of its first line
	cmd       *exec.Cmd
	stdin     io.Closer
	done      chan struct{}
	err       error      // the error with which it ended
	tail      tailBuffer // the end of its standard error
}

// startChild starts a child and waits for its first line. The kernel kills the child when this
// process dies, even while the child is stopped.
func startChild(j childJob) (*childProcess, error) {
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	p := &childProcess{name: j.Name, cmd: exec.Command(os.Args[0]), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), jobVariable+"="+string(text))
	p.cmd.Stderr = &p.tail
	p.cmd.SysProcAttr = &syscall.SysProcAttr{}
	daemon.DieWithParent(p.cmd.SysProcAttr, syscall.SIGKILL)
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	started, line := make(chan error, 1), make(chan string, 1)
	go func() {
		runtime.LockOSThread() // the kernel sends the signal when the thread that started the child ends
		defer close(p.done)
		err := p.cmd.Start()
		started <- err
		if err != nil {
			p.err = err
			return
		}
		text, _ := bufio.NewReader(out).ReadString('\n')
		line <- text
		p.err = p.cmd.Wait()
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	timer := time.NewTimer(20 * time.Second)
	defer timer.Stop()
	select {
	case text := <-line:
		if p.firstLine = strings.Fields(text); len(p.firstLine) > 0 {
			return p, nil
		}
		<-p.done
		return nil, fmt.Errorf("%s: %w: %s", j.Name, p.err, &p.tail)
	case <-timer.C:
		p.kill()
		return nil, fmt.Errorf("%s says nothing: %s", j.Name, &p.tail)
	}
}

func (p *childProcess) signal(s syscall.Signal) error { return p.cmd.Process.Signal(s) }

// kill sends SIGKILL.
func (p *childProcess) kill() {
	_ = p.signal(syscall.SIGKILL) // the child may have ended
	<-p.done
}

// stop lets the child end by itself.
func (p *childProcess) stop() error {
	_ = p.stdin.Close()
	timer := time.NewTimer(20 * time.Second)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		_ = p.signal(syscall.SIGQUIT) // makes the child print where it hangs
		<-p.done
		return fmt.Errorf("%s does not end: %s", p.name, &p.tail)
	}
	if p.err != nil {
		return fmt.Errorf("%s: %w: %s", p.name, p.err, &p.tail)
	}
	return nil
}

// exitError reports whether the child ended on its own.
func (p *childProcess) exitError() error {
	select {
	case <-p.done:
		return errors.Join(fmt.Errorf("%s ended by itself: %s", p.name, &p.tail), p.err)
	default:
		return nil
	}
}

// tailBuffer keeps the last bytes written to it.
type tailBuffer struct {
	mu   sync.Mutex
	text []byte
}

// Write implements [io.Writer].
func (t *tailBuffer) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if extra := len(t.text) - 64<<10; extra > 0 {
		t.text = t.text[extra:]
	}
	return len(b), nil
}

func (t *tailBuffer) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
