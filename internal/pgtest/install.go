package pgtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// Files that keep Debian's packages from starting servers of their own.
const (
	policyFile  = "/usr/sbin/policy-rc.d"
	policyText  = "#!/bin/sh\nexit 101\n"
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

// install installs a Debian package.
func install(name string) (err error) {
	if os.Getuid() != 0 {
		return fmt.Errorf("%s is not installed, and only root can install it", name)
	}
	if _, err := os.Stat(policyFile); errors.Is(err, os.ErrNotExist) {
		if err := os.WriteFile(policyFile, []byte(policyText), 0o755); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.Remove(policyFile)) }()
	}
	if _, err := os.Stat(clusterFile); errors.Is(err, os.ErrNotExist) {
		if err := os.MkdirAll(clusterDir, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(clusterFile, []byte(clusterText), 0o644); err != nil {
			return err
		}
	}
	for _, args := range [][]string{{"update"}, {"install", "-y", "--no-install-recommends", name}} {
		cmd := exec.Command("apt-get", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %v: %w: %s", args, err, out)
		}
	}
	return nil
}
