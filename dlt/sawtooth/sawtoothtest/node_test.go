package sawtoothtest

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCommits(t *testing.T) {
	n := Start(t, fast(Options{}))
	b := mk(t, call(Set("x", 3)), call(Inc("x", 4)))
	submitOK(t, n, b)
	becomes(t, n, b, Committed)
	value, ok := n.Value("x")
	require.True(t, ok)
	assert.Equal(t, int64(7), value)
	assert.Equal(t, 1, kinds(n, Accepted, b))
	assert.Equal(t, 1, kinds(n, BlockCommitted, b))
	r := mustDo(t, http.MethodGet, n.URL()+"/nowhere", "", nil)
	assert.Equal(t, http.StatusNotFound, r.status)
}
