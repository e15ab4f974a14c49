package postgres

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// After a known batch the fast way is not tried for some time, and then it is tried again.
func TestFreshness(t *testing.T) {
	var f freshness
	for range 3 {
		require.True(t, f.expectsFresh())
	}
	for range 2 {
		f.noteKnown()
		for i := range carefulAdditions {
			require.False(t, f.expectsFresh(), "%d", i)
		}
		assert.True(t, f.expectsFresh())
	}
}
