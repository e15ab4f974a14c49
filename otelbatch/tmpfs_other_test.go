//go:build !linux

package otelbatch

import (
	"errors"
	"testing"
)

// tmpfs cannot mount on this platform.
func tmpfs(*testing.T, int) (dir string, resize func(bytes int) error, err error) {
	return "", nil, errors.ErrUnsupported
}
