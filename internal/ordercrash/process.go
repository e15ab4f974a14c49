package ordercrash

import (
	"bufio"
	"encoding/json"
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

// workerProcess is a worker: this test binary, started with a job.
type workerProcess struct {
	url   string
	cmd   *exec.Cmd
	stdin io.Closer
	ended chan struct{}
	// killedIn, err and tail are complete before ended is closed.
	killedIn   Window // the window in which the worker was killed
	err        error
	stderrTail outputTail // the end of the worker's standard error
}

// processTimeout is how long a worker may take to start or to stop.
const processTimeout = 60 * time.Second

// startProcess starts a worker and waits until it listens or is dead. The kernel kills the worker
// when this process ends.
func startProcess(j workerJob) (*workerProcess, error) {
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	p := &workerProcess{cmd: exec.Command(os.Args[0]), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), Variable+"="+string(text))
	p.cmd.Stderr = &p.stderrTail
	p.cmd.SysProcAttr = &syscall.SysProcAttr{}
	daemon.DieWithParent(p.cmd.SysProcAttr, syscall.SIGKILL)
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	started, listens := make(chan error, 1), make(chan string, 1)
	go func() {
		runtime.LockOSThread() // the kernel sends the signal when the thread that started the worker ends
		defer close(p.ended)
		err := p.cmd.Start()
		started <- err
		if err != nil {
			p.err = err
			return
		}
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if w, ok := strings.CutPrefix(lines.Text(), "killed "); ok {
				p.killedIn = Window(w)
			} else {
				listens <- lines.Text()
			}
		}
		p.err = p.cmd.Wait()
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	timer := time.NewTimer(processTimeout)
	defer timer.Stop()
	select {
	case p.url = <-listens:
	case <-p.ended: // the worker may have died quickly
	case <-timer.C:
		p.kill()
		return nil, fmt.Errorf("a worker says nothing: %s", &p.stderrTail)
	}
	return p, nil
}

// kill kills the worker, as kill -9 does.
func (p *workerProcess) kill() {
	_ = p.cmd.Process.Kill() // an error means that the worker has ended
	<-p.ended
}

// stop lets the worker end by itself.
func (p *workerProcess) stop() error {
	_ = p.stdin.Close()
	timer := time.NewTimer(processTimeout)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
		_ = p.cmd.Process.Signal(syscall.SIGQUIT) // the worker prints where its goroutines hang
		<-p.ended
	}
	if p.err != nil {
		return fmt.Errorf("a worker ends badly: %w: %s", p.err, &p.stderrTail)
	}
	return nil
}

// outputTail keeps the last bytes that are written to it.
type outputTail struct {
	mu   sync.Mutex
	text []byte
}

func (t *outputTail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if extra := len(t.text) - 64<<10; extra > 0 {
		t.text = t.text[extra:]
	}
	return len(b), nil
}

func (t *outputTail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
