package pgsettings_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/internal/binaries"
	"github.com/dltbatch/dltbatch/internal/pgsettings"
)

// The doctor counts a version as tested exactly if the tests can start it.
func TestVersions(t *testing.T) {
	for major := 9; major < 30; major++ {
		_, err := binaries.PostgreSQL(strconv.Itoa(major))
		assert.Equal(t, err == nil, pgsettings.Tested(strconv.Itoa(major*10000+3)), major)
	}
	for _, number := range []string{"", "x", "90603", "-160000"} {
		assert.False(t, pgsettings.Tested(number), number)
	}
	assert.Equal(t, "14 to 18", pgsettings.TestedVersions())
}
