package anvil

import (
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/dltbatch/dltbatch/internal/debian"
)

// Variable is the environment variable that names an anvil to use instead.
const Variable = "ANVIL"

// ErrMissing means that there is no anvil, or none of Version.
var ErrMissing = errors.New("anvil is not installed")

// lock names the package and its hash. It holds no address, so that npm asks its own registry.
//
//go:embed npm/package.json npm/package-lock.json
var lock embed.FS

// Version is the package's. The tests compare its answers with records.
const Version = "1.7.1"

// packaged reports whether the lock file has a package for this machine.
const packaged = runtime.GOOS == "linux" && runtime.GOARCH == "amd64"

// Find finds anvil: as [Variable] says, on the PATH, or where [Program] installed it before. On the
// PATH it has to be of [Version], unless there is no package for this machine. Where none of
// these is there, the error is [ErrMissing]; where Variable names none, it is that of exec.LookPath.
func Find() (string, error) {
	if name := os.Getenv(Variable); name != "" {
		return exec.LookPath(name)
	}
	if found, err := exec.LookPath("anvil"); err == nil && (!packaged || isVersion(found)) {
		return found, nil
	}
	home, err := folder()
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(inside(home)); err != nil {
		return "", fmt.Errorf("%w: %w", ErrMissing, err)
	}
	return inside(home), nil
}

// Program is [Find], and installs anvil where it is missing, on linux on amd64.
func Program() (string, error) {
	found, err := Find()
	if !errors.Is(err, ErrMissing) {
		return found, err
	}
	if !packaged {
		return "", fmt.Errorf("%w: for %s on %s set %s to one", ErrMissing, runtime.GOOS, runtime.GOARCH, Variable)
	}
	home, err := folder()
	if err != nil {
		return "", err
	}
	if err := install(home); err != nil {
		return "", fmt.Errorf("%w: %w", ErrMissing, err)
	}
	return Find()
}

func isVersion(bin string) bool {
	out, err := exec.Command(bin, "--version").Output()
	return err == nil && strings.Contains(string(out), " "+Version+"\n")
}

func inside(home string) string {
	return filepath.Join(home, "node_modules", "@foundry-rs", "anvil-linux-amd64", "bin", "anvil")
}

// folder is where npm puts the package of this lock file.
func folder() (string, error) {
	text, err := lock.ReadFile("npm/package-lock.json")
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return filepath.Join(cache, "dltbatch", fmt.Sprintf("anvil-%x", sum[:6])), nil
}

// install installs it beside its place, and then moves it there: two test binaries may do so at
// once.
func install(home string) error {
	if _, err := exec.LookPath("npm"); err != nil {
		if err := debian.Install("nodejs", "npm"); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(home), 0o755); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(home), "anvil-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // nothing is there once it was moved
	files, err := fs.Sub(lock, "npm")
	if err != nil {
		return err
	}
	if err := os.CopyFS(dir, files); err != nil {
		return err
	}
	cmd := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci: %w: %s", err, out)
	}
	if err := os.Rename(dir, home); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
