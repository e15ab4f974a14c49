package pgtest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The time that a server may take to start, and to stop before it is killed.
const (
	startFor = time.Minute
	stopFor  = 20 * time.Second
)

// identity is the user that servers run as: both refuse to run as root.
type identity struct{ credential *syscall.Credential }

func unprivileged() (identity, error) {
	if os.Getuid() != 0 {
		return identity{}, nil
	}
	var errs []error
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return identity{}, err
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			return identity{}, err
		}
		return identity{&syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
	}
	return identity{}, fmt.Errorf("a server does not run as root: %w", errors.Join(errs...))
}

func (i identity) become(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: i.credential}
}

// tempDir is not the test's own folder, because the server outlives the first test, and
// because other users may not look into that folder.
func (i identity) tempDir(name string) (string, error) {
	dir, err := os.MkdirTemp("", "dltbatch-"+name+"-")
	if err != nil || i.credential == nil {
		return dir, err
	}
	if err := os.Chown(dir, int(i.credential.Uid), int(i.credential.Gid)); err != nil {
		return "", discard(dir, err)
	}
	return dir, nil
}

func discard(dir string, err error) error { return errors.Join(err, os.RemoveAll(dir)) }

// process is a server and its folder.
type process struct {
	cmd   *exec.Cmd
	dir   string
	ended chan struct{}
}

// run starts a server and waits until it says that it is ready. The kernel sends it
// a signal to stop at once when this process dies.
func (i identity) run(dir, ready, name string, args ...string) (*process, error) {
	cmd := exec.Command(name, args...)
	i.become(cmd)
	cmd.SysProcAttr.Pdeathsig = syscall.SIGQUIT
	cmd.Dir = dir
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = in, in
	p := &process{cmd: cmd, dir: dir, ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The signal comes when the thread that started it ends, so this one must not.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // the server's output says how it ended
		}
		close(p.ended)
	}()
	err = <-started
	err = errors.Join(err, in.Close())
	if err != nil {
		return nil, errors.Join(err, out.Close())
	}
	said := make(chan string, 1)
	go follow(out, ready, said)
	timer := time.NewTimer(startFor)
	defer timer.Stop()
	select {
	case text := <-said:
		if text == "" {
			return p, nil
		}
		p.kill()
		return nil, fmt.Errorf("%s: %s", name, text)
	case <-timer.C:
		p.kill()
		return nil, fmt.Errorf("%s is not ready after %s", name, startFor)
	}
}

// follow reads the server's output until it ends. said gets "" once the server is ready, or
// the whole output if it never is.
func follow(out io.ReadCloser, ready string, said chan<- string) {
	defer func() { _ = out.Close() }() // the server has ended
	var all strings.Builder
	waiting := true
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if !waiting {
			continue
		}
		all.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), ready) {
			waiting = false
			said <- ""
		}
	}
	if waiting {
		said <- "ended: " + all.String()
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Signal(syscall.SIGQUIT) // the server may have ended by itself
	timer := time.NewTimer(stopFor)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// stop ends the server and removes its folder.
func (p *process) stop() {
	p.kill()
	_ = os.RemoveAll(p.dir) // the folder is in the one for temporary files
}
