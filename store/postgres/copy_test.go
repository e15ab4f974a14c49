package postgres

import (
	"bytes"
	"io"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Rows for COPY are the same bytes however they are read, and each Read is as large as it can be.
func TestCopiedRows(t *testing.T) {
	row := func(b []byte, i int) []byte { return append(b, bytes.Repeat([]byte{byte('a' + i)}, 3*i)...) }
	want := copyHead
	for i := range 20 {
		want += string(row(nil, i))
	}
	want += copyEnd
	require.NoError(t, iotest.TestReader(&copied{n: 20, row: row}, []byte(want)))
	for size := 1; size < 2*len(want); size++ {
		var got []byte
		for c := (&copied{n: 20, row: row}); ; {
			p := make([]byte, size)
			n, err := c.Read(p)
			got = append(got, p[:n]...)
			if err == io.EOF {
				break
			}
			require.NoError(t, err)
			require.True(t, n == size || len(got) == len(want), "%d bytes of %d", n, size)
		}
		assert.Equal(t, want, string(got))
	}
}
