// Package debian installs Debian's packages, for tests that need a program of them.
package debian

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// policyFile keeps packages from starting servers of their own.
const (
	policyFile = "/usr/sbin/policy-rc.d"
	policyText = "#!/bin/sh\nexit 101\n"
)

// Install installs packages, without those that they only recommend. Only root can.
func Install(names ...string) (err error) {
	if os.Getuid() != 0 {
		return fmt.Errorf("%v: not installed, and only root can install it", names)
	}
	if _, err := os.Stat(policyFile); errors.Is(err, os.ErrNotExist) {
		if err := os.WriteFile(policyFile, []byte(policyText), 0o755); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.Remove(policyFile)) }()
	}
	for _, args := range [][]string{{"update"}, append([]string{"install", "-y", "--no-install-recommends"}, names...)} {
		cmd := exec.Command("apt-get", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %v: %w: %s", args, err, out)
		}
	}
	return nil
}
