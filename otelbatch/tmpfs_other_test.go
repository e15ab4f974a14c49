//go:build !linux

package otelbatch

import (
	"errors"
	"testing"
)

// tmpfs mounts nothing here.
func tmpfs(*testing.T, int) (dir string, resize func(bytes int) error, err error) {
	return "", nil, errors.ErrUnsupported
}
