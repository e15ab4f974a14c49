package sqlstore

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type embeddedCols struct {
	Seq   int64  `db:"seq"`
	Bytes []byte `db:"bytes"`
}

type outerCols struct {
	embeddedCols
	Name     string `db:"name"`
	untagged string
}

// A column goes into the field of its name, in whatever order the columns come. A column without a
// field, and two columns of one field, are refused: a value would be lost.
func TestColumnsByName(t *testing.T) {
	c := newColumns()
	read := func(names ...string) (o outerCols, err error) {
		rows := &oneRow{names: names, values: []any{"n", []byte("b"), int64(7)}}
		dest, err := c.destinations("SELECT "+names[0]+names[1], rows, &o)
		if err == nil {
			err = rows.Scan(dest...)
		}
		return o, err
	}
	for range 2 { // the second round uses the cache
		o, err := read("name", "bytes", "seq")
		require.NoError(t, err)
		assert.Equal(t, outerCols{embeddedCols{7, []byte("b")}, "n", ""}, o)
		o, err = read("o.name", "a.bytes", "a.seq")
		require.NoError(t, err)
		assert.Equal(t, outerCols{embeddedCols{7, []byte("b")}, "n", ""}, o)
		_, err = read("name", "bites", "seq")
		require.ErrorContains(t, err, `column 2, "bites", has no field of its own in sqlstore.outer`)
		_, err = read("name", "other", "seq")
		require.ErrorContains(t, err, `"other"`)
		_, err = read("name", "seq", "seq")
		require.ErrorContains(t, err, `column 3, "seq"`)
	}
	var n int64
	dest, err := c.destinations("SELECT 1", nil, &n)
	require.NoError(t, err)
	assert.True(t, slices.Equal([]any{&n}, dest))
}
