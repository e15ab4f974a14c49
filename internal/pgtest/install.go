package pgtest

import (
	"errors"
	"fmt"
	"os"

	"github.com/dltbatch/dltbatch/internal/debian"
)

// The file that keeps Debian's package from making a server of its own.
const (
	clusterDir  = "/etc/postgresql-common"
	clusterFile = clusterDir + "/createcluster.conf"
	clusterText = "create_main_cluster = false\n"
)

// ErrMissing means that a program is not installed.
var ErrMissing = errors.New("not installed")

// installed finds a program, and installs its Debian package where it is missing.
func installed(name string, find func() (string, error)) (string, error) {
	bin, err := find()
	if !errors.Is(err, ErrMissing) {
		return bin, err
	}
	if err := install(name); err != nil {
		return "", err
	}
	if bin, err = find(); err != nil {
		return "", fmt.Errorf("after its installation: %w", err)
	}
	return bin, nil
}

// install installs a Debian package, which then makes no server of its own.
func install(name string) error {
	if _, err := os.Stat(clusterFile); errors.Is(err, os.ErrNotExist) && os.Getuid() == 0 {
		if err := os.MkdirAll(clusterDir, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(clusterFile, []byte(clusterText), 0o644); err != nil {
			return err
		}
	}
	return debian.Install(name)
}
