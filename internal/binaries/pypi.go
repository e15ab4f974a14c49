package binaries

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
)

// The packages of Patroni as pip takes them, each with its version and the hashes of its files,
// which pip compares. The second text has what PyPI offers as source only: it is built with the
// setuptools of the first.
var (
	//go:embed patroni.txt
	patroniWheels string
	//go:embed patroni-source.txt
	patroniSource string
)

// systemPython names the Python that runs what PyPI brings. Root's own may be in its home, where a
// server that runs as another user cannot reach it.
const systemPython = "/usr/bin/python3"

// fromPyPI unpacks packages of PyPI, one text of requirements after the other. It installs nothing
// that these do not name.
func fromPyPI(dir string, texts []string) error {
	python := systemPython
	if _, err := os.Stat(python); err != nil {
		python = "python3"
	}
	for i, text := range texts {
		file := filepath.Join(dir, fmt.Sprintf("requirements-%d.txt", i))
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return err
		}
		// env, because pip builds with the packages that are there already.
		if _, err := run(dir, "env", "PYTHONPATH="+dir, "python3", "-m", "pip", "--python", python, "install",
			"--quiet", "--disable-pip-version-check", "--root-user-action=ignore", "--no-deps", "--no-build-isolation",
			"--require-hashes", "--target", dir, "--upgrade", "--requirement", file); err != nil {
			return err
		}
	}
	return nil
}
