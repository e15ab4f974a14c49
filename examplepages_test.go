package dltbatch_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/internal/tier"
)

// Every package that an application may import has an example on its own page.
func TestExamplesOfPackages(t *testing.T) {
	tier.Plain(t)
	pages := 0
	for _, p := range goList(t, "./...") {
		pkg := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, modulePath), "/")
		if strings.Contains("/"+pkg, "/internal/") || strings.HasPrefix(pkg, "cmd/") || strings.HasPrefix(pkg, "examples") {
			continue
		}
		pages++
		files, err := filepath.Glob(filepath.Join(filepath.FromSlash(pkg), "*_test.go"))
		require.NoError(t, err)
		found := false
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			found = found || strings.Contains(string(text), "\nfunc Example")
		}
		assert.True(t, found, "no example in package %q", pkg)
	}
	assert.Greater(t, pages, 30, "packages that were read")
}
