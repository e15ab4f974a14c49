package demo

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestColumns(t *testing.T) {
	word, hash := strings.Repeat("x", 40), strings.Repeat("f", 120)
	var out strings.Builder
	c := &columnWriter{out: &out}
	for _, part := range []string{"short\n  ", word + " " + word, " " + word + "\n", hash + "\nthe e", "nd"} {
		n, err := c.Write([]byte(part))
		require.NoError(t, err)
		require.Len(t, part, n)
	}
	assert.NotContains(t, out.String(), "the e", "no end of this line yet")
	c.writeRest()
	assert.Equal(t, "short\n  "+word+" "+word+"\n    "+word+"\n"+hash+"\nthe end", out.String())
}
