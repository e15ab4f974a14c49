package binaries

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
)

// The packages of Patroni in pip's form, each with its version and the hashes of its files, which
// pip compares. The second text has the packages that PyPI offers as source only: they are built
// with the setuptools of the first text.
var (
	//go:embed patroni.txt
	patroniWheels string
	//go:embed patroni-source.txt
	patroniSource string
)

// systemPython is the Python that runs programs from PyPI. Root may have another one in its home,
// which a server that runs as another user cannot read.
const systemPython = "/usr/bin/python3"

// fromPyPI unpacks packages of PyPI, one text of requirements after the other. It installs nothing
// that these texts do not name.
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
		// pip gets PYTHONPATH by env, so that it builds with the packages that are installed
		// already.
		if _, err := run(dir, "env", "PYTHONPATH="+dir, "python3", "-m", "pip", "--python", python, "install",
			"--quiet", "--disable-pip-version-check", "--root-user-action=ignore", "--no-deps", "--no-build-isolation",
			"--require-hashes", "--target", dir, "--upgrade", "--requirement", file); err != nil {
			return err
		}
	}
	return nil
}
