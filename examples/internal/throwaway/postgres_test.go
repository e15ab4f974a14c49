package throwaway

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/internal/binaries"
)

// The error for missing PostgreSQL lists every way to get it; other errors are not changed.
func TestAdvise(t *testing.T) {
	err := addInstallAdvice(fmt.Errorf("the server programs: %w", binaries.ErrMissing))
	require.ErrorIs(t, err, binaries.ErrMissing)
	for _, want := range []string{"not installed", "apt-get install postgresql", "-install", "-dsn"} {
		require.ErrorContains(t, err, want)
	}
	other := errors.New("disk full")
	require.Equal(t, other, addInstallAdvice(other))
	require.NoError(t, addInstallAdvice(nil))
}
