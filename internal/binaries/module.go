package binaries

import (
	"os"
	"os/exec"
)

// fromModule compiles a command of a Go module, package@version, like go install: Go's checksum
// database has the hashes of all modules that it needs. It compiles without cgo, because not every
// machine has a C compiler.
func fromModule(dir, command string) error {
	cmd := exec.Command("go", "install", "-trimpath", "-ldflags=-s -w", command)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOBIN="+dir, "GOWORK=off", "CGO_ENABLED=0")
	_, err := output(cmd)
	return err
}
