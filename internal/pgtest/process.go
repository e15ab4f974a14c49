package pgtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"

	"github.com/dltbatch/dltbatch/internal/daemon"
)

// identity is the user that servers run as, because both servers refuse to run as root.
type identity struct{ credential *syscall.Credential }

func serverIdentity() (identity, error) {
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

func (i identity) runAs(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: i.credential}
}

// tempDir makes a folder for a server. It is not the test's own, because the server runs for
// longer than the first test, and because other users cannot read that folder.
func (i identity) tempDir(name string) (string, error) {
	dir, err := os.MkdirTemp("", "dltbatch-"+name+"-")
	if err != nil {
		return "", err
	}
	if err := i.giveFile(dir); err != nil {
		return "", removeAfter(dir, err)
	}
	return dir, nil
}

func (i identity) giveFile(name string) error {
	if i.credential == nil {
		return nil
	}
	return os.Chown(name, int(i.credential.Uid), int(i.credential.Gid))
}

func (i identity) mkdir(name string) error {
	if err := os.Mkdir(name, 0o700); err != nil {
		return err
	}
	return i.giveFile(name)
}

func (i identity) writeFile(name string, text []byte) error {
	if err := os.WriteFile(name, text, 0o600); err != nil { //nolint:gosec // a folder that the tests have made
		return err
	}
	return i.giveFile(name)
}

func removeAfter(dir string, err error) error { return errors.Join(err, os.RemoveAll(dir)) }

// serverProcess is a server process and its folder.
type serverProcess struct {
	*daemon.Process
	dir string
}

// startServer starts a server and waits until its output has the text ready.
func (i identity) startServer(dir, ready, name string, args ...string) (*serverProcess, error) {
	cmd := exec.Command(name, args...)
	i.runAs(cmd)
	cmd.Dir = dir
	p, err := daemon.Run(cmd, ready, syscall.SIGQUIT)
	if err != nil {
		return nil, err
	}
	return &serverProcess{p, dir}, nil
}

// stopAndRemove ends the server and removes its folder.
func (p *serverProcess) stopAndRemove() {
	p.Stop()
	_ = os.RemoveAll(p.dir) // the folder is below the one for temporary files
}
