package pages_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/internal/pages"
)

func TestOf(t *testing.T) {
	broken := errors.New("broken")
	book := map[string]struct {
		page []int
		next string
		err  error
	}{"": {[]int{1, 2}, "b", nil}, "b": {nil, "c", nil}, "c": {[]int{3}, "", nil}, "x": {[]int{7}, "y", nil}, "y": {nil, "", broken}}
	asked := 0
	read := func(at string) ([]int, string, error) { asked++; p := book[at]; return p.page, p.next, p.err }
	walk := func(from string, most int) (got []int, err error) {
		for n, err := range pages.All(from, read) {
			if err != nil {
				return got, err
			}
			if got = append(got, n); len(got) == most {
				break
			}
		}
		return got, nil
	}
	got, err := walk("", 10)
	require.NoError(t, err)
	assert.Equal(t, []int{1, 2, 3}, got, "also behind an empty page")
	asked = 0
	got, err = walk("", 2)
	require.NoError(t, err)
	assert.Equal(t, []int{1, 2}, got)
	assert.Equal(t, 1, asked, "who stops reads no further")
	got, err = walk("x", 10)
	require.ErrorIs(t, err, broken)
	assert.Equal(t, []int{7}, got)
}
