package browser

import (
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/dltbatch/dltbatch/internal/debian"
)

// Variable is the environment variable that names a Chromium to use instead.
const Variable = "CHROMIUM"

// lock names the package and its hash. It holds no address, so that npm asks its own registry.
//
//go:embed npm/package.json npm/package-lock.json
var lock embed.FS

// Chromium finds Chromium: as [Variable] says, or on the PATH. Where it is missing, root installs Debian's
// package.
func Chromium() (string, error) {
	if name := os.Getenv(Variable); name != "" {
		return exec.LookPath(name)
	}
	if found, err := exec.LookPath("chromium"); err == nil {
		return found, nil
	}
	if err := debian.Install("chromium"); err != nil {
		return "", fmt.Errorf("chromium is not installed (%s names one): %w", Variable, err)
	}
	return exec.LookPath("chromium")
}

// Axe returns the script of axe-core, which looks for what makes a page hard to use without eyes or a
// mouse. npm installs it into the user's cache, at the version and with the hash of the lock file.
func Axe() (string, error) {
	text, err := lock.ReadFile("npm/package-lock.json")
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	home := filepath.Join(cache, "dltbatch", fmt.Sprintf("axe-%x", sum[:6]))
	script := filepath.Join(home, "node_modules", "axe-core", "axe.min.js")
	if _, err := os.Stat(script); errors.Is(err, fs.ErrNotExist) {
		if err := install(home); err != nil {
			return "", err
		}
	}
	axe, err := os.ReadFile(script)
	return string(axe), err
}

// install installs the package beside its place, and then moves it there: two test binaries may do so at
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
	dir, err := os.MkdirTemp(filepath.Dir(home), "axe-*")
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
