package binaries

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// npmSums has a line for each package of npm: its name, version and hash, as npm view NAME@VERSION
// dist.integrity prints it.
//
//go:embed npm.sum
var npmSums string

// npmPackage is a package of npm, with the hash that it must have.
type npmPackage struct{ name, version, hash string }

// npmPackageOf returns a package with its hash in npm.sum, or the zero value if npm.sum does not
// have it.
func npmPackageOf(name, version string) npmPackage {
	for line := range strings.Lines(npmSums) {
		if hash, found := strings.CutPrefix(line, name+"@"+version+" "); found {
			return npmPackage{name, version, strings.TrimSpace(hash)}
		}
	}
	return npmPackage{}
}

// The lock file names no address, so that npm asks the registry that it is set up for. npm
// compares the hash.
const (
	manifest = `{"private": true, "dependencies": {%q: %q}}`
	lockFile = `{"lockfileVersion": 3, "requires": true, "packages": {
"": {"dependencies": {%[1]q: %[2]q}},
"node_modules/%[1]s": {"version": %[2]q, "integrity": %[3]q}}}`
)

// fromNPM unpacks a package. It runs none of the package's scripts.
func fromNPM(dir string, p npmPackage) error {
	if _, err := exec.LookPath("npm"); err != nil {
		if os.Getuid() != 0 {
			return err
		}
		if err := installNPM(); err != nil {
			return err
		}
	}
	for file, text := range map[string]string{
		"package.json":      fmt.Sprintf(manifest, p.name, p.version),
		"package-lock.json": fmt.Sprintf(lockFile, p.name, p.version, p.hash),
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			return err
		}
	}
	_, err := run(dir, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	return err
}
