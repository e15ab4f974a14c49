// Package debian installs Debian's packages, or takes one program out of a package, for tests that need
// the program.
package debian

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"syscall"
)

// packages is where dpkg keeps what is installed: the same folder for all processes, whatever their
// temporary folder is.
const packages = "/var/lib/dpkg"

// policyFile keeps packages from starting servers of their own.
const (
	policyFile = "/usr/sbin/policy-rc.d"
	policyText = "#!/bin/sh\nexit 101\n"
)

// Install installs packages, without packages that they only recommend. Only root can. Processes that
// install at once take turns.
func Install(names ...string) (err error) {
	if os.Getuid() != 0 {
		return fmt.Errorf("%v: not installed, and only root can install it", names)
	}
	unlock, err := lock()
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Stat(policyFile); errors.Is(err, os.ErrNotExist) {
		if err := os.WriteFile(policyFile, []byte(policyText), 0o755); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.Remove(policyFile)) }()
	}
	for _, args := range [][]string{{"update"}, append([]string{"install", "-y", "--no-install-recommends"}, names...)} {
		if err := apt("", args...); err != nil {
			return err
		}
	}
	return nil
}

// lock waits for its turn: apt-get fails where another one is at work.
func lock() (unlock func(), err error) {
	f, err := os.Open(packages)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, nil // which ends the lock
}

func apt(dir string, args ...string) error {
	cmd := exec.Command("apt-get", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get %v: %w: %s", args, err, out)
	}
	return nil
}

// Extract takes a program out of a package and puts it at to, whose folder it makes: it installs nothing,
// and so starts no server of the package. file is its path in the package, such as "usr/bin/promtool".
// If the package is not found, root brings the lists of packages up to date and tries again.
func Extract(name, file, to string) error {
	dir, err := os.MkdirTemp("", "dltbatch-debian-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a temporary folder
	if err = apt(dir, "download", name); err != nil && os.Getuid() == 0 {
		if err = update(); err == nil {
			err = apt(dir, "download", name)
		}
	}
	if err != nil {
		return err
	}
	debs, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil || len(debs) != 1 {
		return errors.Join(fmt.Errorf("%s: apt-get has left %d packages, want one", name, len(debs)), err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return unpack(debs[0], file, to)
}

// update brings the lists of packages up to date.
func update() error {
	unlock, err := lock()
	if err != nil {
		return err
	}
	defer unlock()
	return apt("", "update")
}

// unpack writes the program beside its place, and then moves it there: two test binaries may do so at
// once.
func unpack(deb, file, to string) (err error) {
	part, err := os.CreateTemp(filepath.Dir(to), filepath.Base(to)+"-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(part.Name()))
		}
	}()
	cmd := exec.Command("dpkg-deb", "--fsys-tarfile", deb)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return errors.Join(err, part.Close())
	}
	found := find(out, file, part)
	_, rest := io.Copy(io.Discard, out)
	if err := errors.Join(found, rest, cmd.Wait(), part.Chmod(0o755), part.Close()); err != nil {
		return fmt.Errorf("%s of %s: %w", file, filepath.Base(deb), err)
	}
	return os.Rename(part.Name(), to)
}

// find copies a file out of an archive.
func find(archive io.Reader, file string, to io.Writer) error {
	for r := tar.NewReader(archive); ; {
		h, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return os.ErrNotExist
		case err != nil:
			return err
		case h.Typeflag == tar.TypeReg && path.Clean(h.Name) == path.Clean(file):
			_, err := io.CopyN(to, r, h.Size)
			return err
		}
	}
}
